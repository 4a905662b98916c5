#include "tuning/settling.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kClearly = 0.1;  // faster than the step before

}  // namespace

void Settling::add(double wall_ms) {
  ++seen_;
  const bool falls = seen_ == 1 || wall_ms < (1 - kClearly) * before_ms_;
  before_ms_ = wall_ms;
  if (seen_ < least_) return;
  settled_ = !falls || seen_ >= most_warmup_steps(least_);
}

}  // namespace trimtab::coordinator
