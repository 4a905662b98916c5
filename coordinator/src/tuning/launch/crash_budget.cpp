#include "tuning/launch/crash_budget.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace trimtab::coordinator {

void forget_old(std::vector<Crash>& crashes, const CrashSettings& settings, std::int64_t wall_ns, std::int64_t step) {
  std::erase_if(crashes, [&](const Crash& one) {
    return wall_ns - one.wall_ns >= settings.within.count() && step - one.step >= settings.within_steps;
  });
}

std::int32_t crashes_of(const std::vector<Crash>& crashes, const std::string& plan_hash) {
  return static_cast<std::int32_t>(
      std::count_if(crashes.begin(), crashes.end(), [&](const Crash& one) { return one.plan_hash == plan_hash; }));
}

std::string too_often(std::int32_t count, const CrashSettings& settings) {
  const double within_s = std::chrono::duration<double>(settings.within).count();
  return std::to_string(count) + " times, with " + std::to_string(settings.limit) + " times within " +
         format_number(within_s) + " s or " + std::to_string(settings.within_steps) + " steps allowed (crashes.limit)";
}

}  // namespace trimtab::coordinator
