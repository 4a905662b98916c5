#pragma once

// What ranks and a job's commands have printed, where texts of ours end in it. It may hold what the job was given in
// secret, so not everybody may read it. Who writes such a text puts one of these words before it.

#include <cstddef>
#include <optional>
#include <string_view>

namespace trimtab::api {

inline constexpr std::string_view kLastOutput = "; its last output: ";
inline constexpr std::string_view kOutputBegins = "; the output begins with ";

struct PrintedText {
  std::size_t words = 0;  // where the words begin that announce it
  std::size_t begin = 0;  // where it begins itself: it goes on to the text's end
};

// Nothing where the text has none.
[[nodiscard]] inline std::optional<PrintedText> printed_in(std::string_view text) {
  std::optional<PrintedText> first;
  for (const std::string_view words : {kLastOutput, kOutputBegins}) {
    const std::size_t at = text.find(words);
    if (at != std::string_view::npos && (!first || at < first->words)) first = {at, at + words.size()};
  }
  return first;
}

}  // namespace trimtab::api
