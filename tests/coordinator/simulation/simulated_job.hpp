#pragma once

// A small simulated job for tests: eight operators on four devices, and memory that some plans lack.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/simulation.hpp"
#include "usual_worlds.hpp"

namespace trimtab::coordinator {

// Devices are on `nodes` nodes, four in all or two on each of more. Plans take what their costs say: how near a job
// comes to the best is then a matter of learning those.
[[nodiscard]] SimulationInput small_input(std::uint64_t seed, int nodes = 1);

// How many of a sample's seeds every run simulates: the first half. TRIMTAB_TEST_LONG=1, as in scripts/test --full,
// simulates all. Of what must be met so often among them, the same share.
[[nodiscard]] inline int usual_seeds(int seeds) {
  return tuner::test::all_worlds() ? seeds : seeds / 2;
}

struct Simulated {
  nlohmann::json verdict;
  std::string transcript;

  [[nodiscard]] bool says(const std::string& text) const { return transcript.find(text) != std::string::npos; }
  // Trials that ended for this reason.
  [[nodiscard]] int trials(const std::string& reason) const;
  // Nobody's mistake has ended the job.
  [[nodiscard]] bool lives() const { return verdict["phase"] == "training" || verdict["phase"] == "finished"; }
};

// Fails the test where the simulation does.
[[nodiscard]] Simulated run(const SimulationInput& input);

}  // namespace trimtab::coordinator
