// Planted noise and planted drift of the same size: how often other work that comes and goes is taken for a change of
// the machine, how often a change that stays is missed, and after how long it is told. Writes a table for
// bench/results/noise_and_drift.md. Usage: noise_and_drift [SEEDS [FIRST_SEED]]
//
// Steps wander (a first-order autoregression of 1 % that forgets in 30 steps), scatter by 2 %, are hit by anything now
// and then (2 %, Pareto's of shape 2) and by a checkpoint each 50. Other work comes and goes, exponentially, four times
// as long away as there, and makes steps longer by the same as a drift would. A second table has it stay in other ways.
// In a third the machine's own speed wanders (a second autoregression, of so many percent and seconds).

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

// How long other work stays, beside its mean.
enum class Stays : std::uint8_t { kExponentially, kEqually, kUnevenly };
constexpr const char* kStays[] = {"exponential", "all equal", "log-normal, sigma 1"};

struct Machine {
  double step_ms = 1000;
  double size = 0.25;
  double busy_s = 8;  // of other work, in the mean; 0 = there is none
  Stays stays = Stays::kExponentially;
  double away = 4;       // times as long
  double wanders = 0;    // its own speed, a standard deviation
  double wanders_s = 1;  // in which that is forgotten
  double at_s = -1;      // of the drift; less than 0: none
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
  const auto away = [&] {
    return machine.busy_s > 0 ? -std::log(1 - random.uniform()) * machine.away * machine.busy_s : 1e12;
  };
  const auto stays = [&] {
    if (machine.stays == Stays::kEqually) return machine.busy_s;
    if (machine.stays == Stays::kUnevenly) return machine.busy_s * std::exp(random.normal() - 0.5);
    return -std::log(1 - random.uniform()) * machine.busy_s;
  };
  const double kept = std::exp(-1.0 / 30);
  double now_s = 0;
  double wander = 0;
  double own = machine.wanders * (machine.wanders > 0 ? random.normal() : 0);
  bool busy = false;
  double until_s = away();
  for (std::int64_t step = 1; now_s < machine.seconds; ++step) {
    for (; until_s <= now_s; until_s += busy ? stays() : away()) busy = !busy;
    wander = kept * wander + 0.01 * std::sqrt(1 - kept * kept) * random.normal();
    if (machine.wanders > 0) {
      const double still = std::exp(-machine.step_ms / 1000 / machine.wanders_s);
      own = still * own + machine.wanders * std::sqrt(1 - still * still) * random.normal();
    }
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

struct Seeds {
  int first = 1;
  int count = 100;
};

void row(Machine machine, double lasting_ms, const Seeds& seeds) {
  constexpr double kAt = 600;
  int alarms = 0;
  int missed = 0;
  int early = 0;
  double sum_s = 0;
  double most_s = 0;
  for (int seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    machine.at_s = -1;
    alarms += watch(machine, lasting_ms, static_cast<std::uint64_t>(seed)).change ? 1 : 0;
    machine.at_s = kAt;
    const auto [change, at_s] = watch(machine, lasting_ms, 100'000 + static_cast<std::uint64_t>(seed));
    early += change && at_s < kAt ? 1 : 0;
    missed += !change ? 1 : 0;
    if (!change || at_s < kAt) continue;
    sum_s += at_s - kAt;
    most_s = std::max(most_s, at_s - kAt);
  }
  const auto share = [&seeds](int of) { return 100.0 * of / seeds.count; };
  const int told = seeds.count - missed - early;
  std::printf(" %.1f s | %.0f %% | %.0f s | %.1f %% | %.1f %% | %.1f %% | %.0f s, %.0f s |\n", machine.step_ms / 1000,
              100 * machine.size, machine.busy_s, share(alarms), share(missed), share(early),
              told > 0 ? sum_s / told : 0, most_s);
}

void head(const char* first) {
  std::printf(
      "| %s | a step | noise and drift | other work | false alarms | missed | alarmed before the drift | told after: "
      "mean, most |\n| %s: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
      first, "---");
}

}  // namespace

int main(int argc, char** argv) {
  Seeds seeds;
  if (argc > 1) seeds.count = std::max(1, std::atoi(argv[1]));
  if (argc > 2) seeds.first = std::max(1, std::atoi(argv[2]));
  head("a change lasts");
  for (const double lasting_ms : {0.0, 60'000.0}) {
    for (const double busy_s : {0.0, 3.0, 8.0, 15.0}) {
      for (const double step_ms : {100.0, 1000.0, 3000.0}) {
        for (const double size : {0.15, 0.25, 0.5}) {
          std::printf("| %.0f s |", lasting_ms / 1000);
          row({step_ms, size, busy_s}, lasting_ms, seeds);
        }
      }
    }
  }
  std::printf("\n");
  head("other work stays, away");
  for (const Stays stays : {Stays::kExponentially, Stays::kEqually, Stays::kUnevenly}) {
    for (const double away : {1.0, 4.0, 20.0}) {
      for (const double busy_s : {15.0, 30.0}) {
        std::printf("| %s, %.0f times |", kStays[static_cast<std::size_t>(stays)], away);
        row({.step_ms = 100, .busy_s = busy_s, .stays = stays, .away = away}, 60'000, seeds);
      }
    }
  }
  std::printf("\n");
  head("its own speed wanders by, in");
  for (const double wanders : {0.02, 0.05, 0.1}) {
    for (const double wanders_s : {20.0, 60.0, 240.0}) {
      for (const double size : {0.15, 0.25, 0.5}) {
        std::printf("| %.0f %%, %.0f s |", 100 * wanders, wanders_s);
        row({.step_ms = 100, .size = size, .busy_s = 0, .wanders = wanders, .wanders_s = wanders_s}, 60'000, seeds);
      }
    }
  }
  return 0;
}
