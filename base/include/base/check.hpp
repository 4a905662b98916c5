#pragma once

// TRIMTAB_ASSERT(condition, "what must hold"): a programming error ends the process, in release builds too.
// What a file, a peer or a person can cause is a Result (base/result.hpp), never an assertion.

namespace trimtab {
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file, int line);
}

#define TRIMTAB_ASSERT(condition, message) \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::trimtab::assertion_failed(#condition, message, __FILE__, __LINE__))
