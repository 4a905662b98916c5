#pragma once

// What nccl-tests print, which people keep and paste, as the document that they write with -J FILE (src/common.cu and
// src/util.cu of NVIDIA/nccl-tests).

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab::published {

// Whether it is such a text: it begins with a remark.
[[nodiscard]] bool is_nccl_tests_text(std::string_view text);

// The document. It lacks what is not printed: NCCL's variables, and in older releases its version. `name`: the file's,
// which says the program ("all_reduce_2x4.txt") where the text does not. Fails on a line that is not as nccl-tests
// print it, with its number.
[[nodiscard]] Result<std::string> nccl_tests_document(std::string_view text, const std::string& source,
                                                      std::string_view name);

}  // namespace trimtab::published
