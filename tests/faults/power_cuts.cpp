// power_cuts: what the daemons have confirmed survives a power cut at any moment. See seeded_runs.hpp for the
// arguments.

#include "power_cuts.hpp"

#include "seeded_runs.hpp"

int main(int argc, char** argv) {
  using namespace trimtab::test;
  return run_seeds(argc, argv, 1000,
                   {{"agent", agent_cuts}, {"coordinator", coordinator_cuts}, {"upgrade", upgrade_cuts}});
}
