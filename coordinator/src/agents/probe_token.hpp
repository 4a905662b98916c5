#pragma once

// 32 bytes from the kernel that nobody can guess: what an agent must show to be served by another in a probe. Any
// thread.

#include <string>

namespace trimtab::coordinator {

[[nodiscard]] std::string probe_token();

}  // namespace trimtab::coordinator
