#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/random.hpp"
#include "tuning/hardware/change_point.hpp"

namespace trimtab::coordinator {

// A made-up machine on which a job's steps are watched for a change. Steps wander (a first-order autoregression of 1 %
// that forgets in 30 steps), scatter by 2 %, are hit by anything now and then (2 %, Pareto's of shape 2) and by a
// checkpoint each 50. Other work comes and goes, and makes steps longer by the same as a drift would. Its absences are
// exponential.
struct BusyMachine {
  enum class Stays : std::uint8_t { kExponentially, kEqually, kUnevenly };

  double step_ms = 1000;
  double size = 0.25;  // of other work and of the drift
  double busy_s = 8;   // of other work, in the mean; 0 = there is none
  Stays stays = Stays::kExponentially;
  double away = 4;        // times as long as it stays
  double wanders = 0;     // the machine's own speed, a standard deviation (a second autoregression)
  double wanders_s = 60;  // in which that is forgotten
  double at_s = -1;       // of the drift; less than 0: none
  double seconds = 1500;  // that the job is watched for
};

struct ToldChange {
  std::optional<StepChange> change;
  double at_s = 0;  // when it was told; without a change the end
};

inline ToldChange watched(const BusyMachine& machine, double lasting_ms, std::uint64_t seed) {
  using Stays = BusyMachine::Stays;
  Random random(seed);
  ChangePointRules rules;
  rules.least_lasting_ms = lasting_ms;
  ChangePoint one(rules);
  const auto exponential = [&random](double mean) { return -std::log(1 - random.uniform()) * mean; };
  const auto away_s = [&] { return machine.busy_s > 0 ? exponential(machine.away * machine.busy_s) : 1e12; };
  const auto stays_s = [&] {
    if (machine.stays == Stays::kEqually) return machine.busy_s;
    if (machine.stays == Stays::kUnevenly) return machine.busy_s * std::exp(random.normal() - 0.5);
    return exponential(machine.busy_s);
  };
  const double kept = std::exp(-1.0 / 30);
  const double still = std::exp(-machine.step_ms / 1000 / machine.wanders_s);
  double now_s = 0;
  double wander = 0;
  double own = machine.wanders > 0 ? machine.wanders * random.normal() : 0;
  bool busy = false;
  double until_s = away_s();
  for (std::int64_t step = 1; now_s < machine.seconds; ++step) {
    for (; until_s <= now_s; until_s += busy ? stays_s() : away_s()) busy = !busy;
    wander = kept * wander + 0.01 * std::sqrt(1 - kept * kept) * random.normal();
    if (machine.wanders > 0) own = still * own + machine.wanders * std::sqrt(1 - still * still) * random.normal();
    double ms = machine.step_ms * std::exp(own + wander + 0.02 * random.normal());
    if (random.uniform() < 0.02) ms *= std::min(10.0, 1 / std::sqrt(1 - random.uniform()));
    if (step % 50 == 0) ms *= 2;
    if (busy) ms *= 1 + machine.size;
    if (machine.at_s >= 0 && now_s >= machine.at_s) ms *= 1 + machine.size;
    now_s += ms / 1000;
    if (auto change = one.add(step, ms)) return {change, now_s};
  }
  return {std::nullopt, now_s};
}

}  // namespace trimtab::coordinator
