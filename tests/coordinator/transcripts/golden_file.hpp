#pragma once

// Texts that are committed, under tests/coordinator/golden. TRIMTAB_WRITE_GOLDEN=1 makes the tests write them anew;
// what has changed is then for people to read in the difference. Where that shows a digest alone: with
// TRIMTAB_WHOLE_TRANSCRIPTS=FOLDER whole transcripts are written. Those of the code before and after can be compared.

#include <string>

namespace trimtab::coordinator {

// Fails the test where `text` is not what the file holds, and says which line differs first.
void check_golden(const std::string& name, const std::string& text);

// Whether somebody wants whole transcripts.
[[nodiscard]] bool keeps_whole();
// Does nothing where nobody wants it.
void keep_whole(const std::string& name, const std::string& text);

}  // namespace trimtab::coordinator
