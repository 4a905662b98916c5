#pragma once

// A program that runs scenarios, each decided by a seed alone:
//   PROGRAM [--seeds N] [--first SEED]   N seeds of each scenario; without --first from a random one on
//   PROGRAM --seed SEED [--scenario S]   one again, which failed
// The first that is broken ends the program with 1 and its seed; an assertion in the code that is tested ends it the
// same way.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trimtab::test {

struct Scenario {
  std::string name;
  std::function<void(std::uint64_t seed)> run;
  std::uint64_t share = 1;  // one seed in so many: for scenarios that take longer
};

// Ends the scenario. What it says is printed with the seed.
void expect(bool holds, const std::string& promise);

[[nodiscard]] int run_seeds(int argc, char** argv, std::uint64_t seeds, const std::vector<Scenario>& scenarios);

}  // namespace trimtab::test
