#include "run/launch_facts.hpp"

#include <array>

namespace trimtab::cli {

namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* world_size;
};
// The first that says a rank counts: torchrun's variables are nearer to the process than those of srun around it.
constexpr std::array<Launcher, 5> kLaunchers{{{"torchrun", "RANK", "WORLD_SIZE"},
                                              {"Slurm", "SLURM_PROCID", "SLURM_NTASKS"},
                                              {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                              {"PMI", "PMI_RANK", "PMI_SIZE"},
                                              {"PMI", "PMIX_RANK", "PMI_SIZE"}}};

// Of mpirun: the processes that one of them started.
constexpr std::array<const char*, 3> kJobNames{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"};

}  // namespace

RankFacts rank_facts(const Variables& variables) {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = number_of(variables, launcher.rank);
    if (!rank) continue;
    return {*rank, number_of(variables, launcher.world_size).value_or(*rank + 1), launcher.name};
  }
  return {};
}

LaunchFacts launch_facts(const Variables& variables) {
  LaunchFacts facts{rank_facts(variables), "", "", false, {}, false};
  const std::string job = value_of(variables, "SLURM_JOB_ID");
  const std::string step = value_of(variables, "SLURM_STEP_ID");
  if (job.empty()) {
    for (const char* name : kJobNames) {
      if (facts.step.empty()) facts.step = value_of(variables, name);
    }
    return facts;
  }
  const auto allocated = number_of(variables, "SLURM_NNODES").value_or(1);
  if (step.empty()) {
    // A batch script's SLURM_PROCID is no rank.
    if (facts.rank.launcher == "Slurm") facts.rank = {};
    facts.before_srun = allocated > 1;
    return facts;
  }
  facts.step = job + "." + step;
  facts.node = value_of(variables, "SLURMD_NODENAME");
  facts.several_nodes = number_of(variables, "SLURM_STEP_NUM_NODES").value_or(allocated) > 1;
  if (const auto number = number_of(variables, "SLURM_NODEID")) facts.first_node = *number == 0;
  return facts;
}

bool is_watched(const Variables& variables) {
  return value_of(variables, "TRIMTAB_WATCH") == "1" && !value_of(variables, "TRIMTAB_SOCKET").empty();
}

bool is_launched(const Variables& variables) {
  return !value_of(variables, "TRIMTAB_RANK").empty();
}

}  // namespace trimtab::cli
