#include "base/clock.hpp"

namespace trimtab {

Nanoseconds SystemClock::monotonic() const { return std::chrono::steady_clock::now().time_since_epoch(); }

Nanoseconds SystemClock::wall() const { return std::chrono::system_clock::now().time_since_epoch(); }

}  // namespace trimtab
