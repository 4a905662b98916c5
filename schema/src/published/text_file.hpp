#pragma once

// Whole files of a published directory, unpacked where they are compressed.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::published {

struct TextFile {
  std::string path;  // as found, for messages
  std::string text;
};

// DIRECTORY/NAME, or DIRECTORY/NAME.gz unpacked. Refused: neither or both there, unreadable, a cut or damaged gzip
// stream, more than 1 GiB of text.
[[nodiscard]] Result<TextFile> read_text_file(const std::string& directory, const std::string& name);

// DIRECTORY/NAME as it stands, of at most kMaxRawBytes: a file of the authors' own programs, which are small.
inline constexpr std::size_t kMaxRawBytes = std::size_t{64} << 20;
[[nodiscard]] Result<TextFile> read_raw_file(const std::string& directory, const std::string& name);

// The names of what lies in a directory, sorted; subdirectories end in '/'. Refused: not a directory, unreadable, more
// than 100,000 entries.
[[nodiscard]] Result<std::vector<std::string>> names_in(const std::string& directory);

// "none among 3 names, of which the first is "a"", for messages: what a directory has instead.
[[nodiscard]] std::string none_among(const std::vector<std::string>& names);

// Letters, digits, '_', '-' and '.' only, not empty, no leading '.': may be part of a file's name.
[[nodiscard]] bool fit_for_a_file_name(std::string_view text);

}  // namespace trimtab::published
