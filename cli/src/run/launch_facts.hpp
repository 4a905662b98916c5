#pragma once

// What the environment of a command says of the launch that it belongs to: which rank, which node, which step of a
// scheduler. The contract's order of launchers; ranks themselves read the same in client/python/watch_hook. Pure.

#include <cstdint>

#include "run/variables.hpp"

namespace trimtab::cli {

struct RankFacts {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::string launcher;  // whose variables say so: "torchrun", "Slurm", "Open MPI", "PMI"; empty = none: 0 of 1
};
[[nodiscard]] RankFacts rank_facts(const Variables& variables);

struct LaunchFacts {
  RankFacts rank;
  std::string step;            // all processes of one launch share it, others do not; empty = this command is all of it
  std::string node;            // as the scheduler calls this node; empty = it says none
  bool several_nodes = false;  // by the scheduler
  std::optional<bool> first_node = {};
  // A batch script or a shell of an allocation of several nodes: what it starts itself runs on one of them.
  bool before_srun = false;
};
[[nodiscard]] LaunchFacts launch_facts(const Variables& variables);

// Whether a command with this environment is looked after already: by an outer `trimtab run`, or launched by an agent.
[[nodiscard]] bool is_watched(const Variables& variables);
[[nodiscard]] bool is_launched(const Variables& variables);

}  // namespace trimtab::cli
