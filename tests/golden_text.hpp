#pragma once

// Texts that are committed, and that a test makes anew.

#include <string>

namespace trimtab::test {

// What the file at `path` holds. TRIMTAB_WRITE_GOLDEN=1 writes `text` there first, and makes its folder.
[[nodiscard]] std::string golden_text(const std::string& path, const std::string& text);
void write_text(const std::string& path, const std::string& text);

}  // namespace trimtab::test
