#pragma once

// A program that runs scenarios, each decided by a seed alone:
//   PROGRAM [--seeds N] [--first SEED]   N seeds of each scenario; without --first from a random one on
//   PROGRAM --seed SEED [--scenario S]   one again, which failed
// The first that is broken ends the program with 1 and its seed; an assertion in the code that is tested ends it the
// same way. Else each scenario ends with a line: its seeds, its time, and which faults it met how often.

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

// A fault has come, which the scenario's line counts.
void met(const char* fault);

[[nodiscard]] int run_seeds(int argc, char** argv, std::uint64_t seeds, const std::vector<Scenario>& scenarios);

}  // namespace trimtab::test
