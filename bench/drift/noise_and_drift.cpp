// Planted noise and planted drift of the same size: how often other work that comes and goes is taken for a change of
// the machine, how often a change that stays is missed, and after how long it is told. Writes a table for
// bench/results/noise_and_drift.md. Usage: noise_and_drift [SEEDS [FIRST_SEED]]
//
// The machine is that of tests/coordinator/busy_machine.hpp. In a second table other work stays in other ways. In a
// third the machine's own speed wanders.

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "coordinator/busy_machine.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr const char* kStays[] = {"exponential", "all equal", "log-normal, sigma 1"};

struct Seeds {
  int first = 1;
  int count = 100;
};

void row(BusyMachine machine, double lasting_ms, const Seeds& seeds) {
  constexpr double kAt = 600;
  int alarms = 0;
  int missed = 0;
  int early = 0;
  double sum_s = 0;
  double most_s = 0;
  for (int seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    machine.at_s = -1;
    alarms += watched(machine, lasting_ms, static_cast<std::uint64_t>(seed)).change ? 1 : 0;
    machine.at_s = kAt;
    const auto [change, at_s] = watched(machine, lasting_ms, 100'000 + static_cast<std::uint64_t>(seed));
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
  using Stays = BusyMachine::Stays;
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
