#pragma once

// Whole files of a published directory, unpacked where they are compressed.

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab::published {

struct TextFile {
  std::string path;  // as found, for messages
  std::string text;
};

// DIRECTORY/NAME, or DIRECTORY/NAME.gz unpacked. Refused: neither or both there, unreadable, a cut or damaged gzip
// stream, more than 1 GiB of text.
[[nodiscard]] Result<TextFile> read_text_file(const std::string& directory, const std::string& name);

// Letters, digits, '_', '-' and '.' only, not empty, no leading '.': may be part of a file's name.
[[nodiscard]] bool fit_for_a_file_name(std::string_view text);

}  // namespace trimtab::published
