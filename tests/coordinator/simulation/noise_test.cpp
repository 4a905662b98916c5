// Planted noise and planted drift of the same size, in whole simulated jobs: other work that comes and goes, beside a
// device, all devices or a link that is slower from a step on.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>

#include "simulated_job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr std::int64_t kAt = 4000;

SimulationInput noisy_input(std::uint64_t seed) {
  SimulationInput input = small_input(seed);
  input.evaluations = 300;
  input.best_evaluations = 300;
  input.job.steps = 8000;
  input.job.trials.max_trials = 1;
  input.job.trials.lasting = std::chrono::minutes(1);
  input.scenario.noise.tail = 0.02;
  return input;
}

DriftSettings slower(const std::string& kind, std::int32_t device) {
  DriftSettings drift;
  drift.at_step = kAt;
  drift.kind = kind;
  drift.device = device;
  drift.share = 0.7;
  return drift;
}

}  // namespace

TEST_CASE("other work beside whole jobs is no drift, and a device that stays slower is named", "[simulation]") {
  const int seeds = usual_seeds(12);
  int alarms = 0;
  int missed = 0;
  int named = 0;
  for (std::uint64_t seed = 1; std::cmp_less_equal(seed, seeds); ++seed) {
    SimulationInput noise = noisy_input(seed);
    noise.scenario.noise.busy_every_s = 32;
    noise.scenario.noise.busy_s = 8;
    noise.scenario.noise.busy_slowdown = 1 / 0.7;
    alarms += run(noise).verdict["changes"].empty() ? 0 : 1;
    SimulationInput drift = noisy_input(seed);
    drift.scenario.drift = {slower("device", 0)};
    const auto changes = run(drift).verdict["changes"];
    missed += changes.empty() ? 1 : 0;
    for (const auto& one : changes) {
      named += one["what"].get<std::string>().find("device 0 of node n0") != std::string::npos ? 1 : 0;
    }
  }
  INFO(alarms << " false alarms, " << missed << " missed, " << named << " rightly named of " << seeds);
  CHECK(alarms == 0);
  CHECK(missed == 0);
  CHECK(named >= seeds);
}
