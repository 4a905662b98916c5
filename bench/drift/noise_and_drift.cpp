// Planted noise and planted drift of the same size: how often other work that comes and goes is taken for a change of
// the machine, how often a change that stays is missed, and after how long it is told. Writes a table for
// bench/results/noise_and_drift.md. Usage: noise_and_drift [SEEDS]
//
// Steps wander (a first-order autoregression of 1 % that forgets in 30 steps), scatter by 2 %, are hit by anything now
// and then (2 %, Pareto's of shape 2) and by a checkpoint each 50. Other work comes and goes, exponentially, four times
// as long away as there, and makes steps longer by the same as a drift would.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/random.hpp"
#include "tuning/hardware/change_point.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct Machine {
  double step_ms = 1000;
  double size = 0.25;
  double busy_s = 8;  // of other work, in the mean; 0 = there is none
  double at_s = -1;   // of the drift; less than 0: none
  double seconds = 1500;
};

struct Told {
  std::optional<StepChange> change;
  double at_s = 0;
};

Told watch(const Machine& machine, double lasting_ms, std::uint64_t seed) {
  Random random(seed);
  ChangePointRules rules;
  rules.least_lasting_ms = lasting_ms;
  ChangePoint one(rules);
  const auto drawn = [&random](double mean) { return mean > 0 ? -std::log(1 - random.uniform()) * mean : 1e12; };
  const double kept = std::exp(-1.0 / 30);
  double now_s = 0;
  double wander = 0;
  bool busy = false;
  double until_s = drawn(4 * machine.busy_s);
  for (std::int64_t step = 1; now_s < machine.seconds; ++step) {
    for (; until_s <= now_s; until_s += drawn(busy ? machine.busy_s : 4 * machine.busy_s)) busy = !busy;
    wander = kept * wander + 0.01 * std::sqrt(1 - kept * kept) * random.normal();
    double ms = machine.step_ms * std::exp(wander + 0.02 * random.normal());
    if (random.uniform() < 0.02) ms *= std::min(10.0, 1 / std::sqrt(1 - random.uniform()));
    if (step % 50 == 0) ms *= 2;
    if (busy) ms *= 1 + machine.size;
    if (machine.at_s >= 0 && now_s >= machine.at_s) ms *= 1 + machine.size;
    now_s += ms / 1000;
    if (auto change = one.add(step, ms)) return {change, now_s};
  }
  return {std::nullopt, now_s};
}

void row(Machine machine, double lasting_ms, int seeds) {
  constexpr double kAt = 600;
  int alarms = 0;
  int missed = 0;
  int early = 0;
  double sum_s = 0;
  double most_s = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    machine.at_s = -1;
    alarms += watch(machine, lasting_ms, static_cast<std::uint64_t>(seed)).change ? 1 : 0;
    machine.at_s = kAt;
    const auto [change, at_s] = watch(machine, lasting_ms, static_cast<std::uint64_t>(100'000 + seed));
    early += change && at_s < kAt ? 1 : 0;
    missed += !change ? 1 : 0;
    if (!change || at_s < kAt) continue;
    sum_s += at_s - kAt;
    most_s = std::max(most_s, at_s - kAt);
  }
  const int told = seeds - missed - early;
  std::printf("| %.0f s | %.1f s | %.0f %% | %.0f s | %.1f %% | %.1f %% | %.1f %% | %.0f s, %.0f s |\n",
              lasting_ms / 1000, machine.step_ms / 1000, 100 * machine.size, machine.busy_s, 100.0 * alarms / seeds,
              100.0 * missed / seeds, 100.0 * early / seeds, told > 0 ? sum_s / told : 0, most_s);
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 100;
  std::printf(
      "| a change lasts | a step | noise and drift | other work | false alarms | missed | alarmed before the drift "
      "| told after: mean, most |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const double lasting_ms : {0.0, 60'000.0}) {
    for (const double busy_s : {0.0, 3.0, 8.0, 15.0}) {
      for (const double step_ms : {100.0, 1000.0, 3000.0}) {
        for (const double size : {0.15, 0.25, 0.5}) row({step_ms, size, busy_s}, lasting_ms, seeds);
      }
    }
  }
  return 0;
}
