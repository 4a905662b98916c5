#pragma once

// A golden file: a committed text that a test makes anew and compares byte for byte.

#include <string>

namespace trimtab::tuner::golden {

// Fails on a difference with the heading above it, the old line and the new one. TRIMTAB_WRITE_GOLDEN=1 writes the file
// anew instead. `name` is that of a file beside this header.
void check_golden(const std::string& name, const std::string& text);

}  // namespace trimtab::tuner::golden
