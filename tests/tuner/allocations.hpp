#pragma once

#include <cstddef>

namespace trimtab::tuner::test {

// Calls of operator new in this process so far.
[[nodiscard]] std::size_t allocations();

}  // namespace trimtab::tuner::test
