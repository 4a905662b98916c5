#include "tuning/change/settling.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kClearly = 0.1;  // faster than the step before
constexpr double kManyTimes = 4;  // what is usual

}  // namespace

void Settling::add(double wall_ms, bool prepared) {
  if (settled()) return;
  ++seen_;
  const bool falls = seen_ == 1 || wall_ms < (1 - kClearly) * before_ms_;
  const bool unusual = usual_ms_ > 0 && wall_ms > kManyTimes * usual_ms_;
  before_ms_ = wall_ms;
  if (seen_ < least_) return;
  settled_ = !(prepared || falls || unusual) || seen_ >= most_warmup_steps(least_);
}

}  // namespace trimtab::coordinator
