#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace trimtab {

void assertion_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s (%s). This is a bug in Trimtab; please report it.\n", file, line,
               message, condition);
  std::abort();
}

}  // namespace trimtab
