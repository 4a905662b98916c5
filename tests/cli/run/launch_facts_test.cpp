#include "run/launch_facts.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::cli;

TEST_CASE("a rank is known from whichever launcher has started it") {
  CHECK(rank_facts({}).launcher.empty());
  CHECK(rank_facts({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "0"}}).rank == 3);
  CHECK(rank_facts({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}}).world_size == 8);
  CHECK(rank_facts({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).launcher == "Open MPI");
  CHECK(rank_facts({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).world_size == 3);
  CHECK(rank_facts({{"PMIX_RANK", "1"}}).world_size == 2);
  CHECK(rank_facts({{"RANK", "node7"}}).launcher.empty());
}

TEST_CASE("a step of Slurm on several nodes is one launch, and says which node is first") {
  const Variables task{{"SLURM_JOB_ID", "77"},   {"SLURM_STEP_ID", "0"}, {"SLURM_NNODES", "2"},
                       {"SLURM_PROCID", "1"},    {"SLURM_NODEID", "1"},  {"SLURM_STEP_NUM_NODES", "2"},
                       {"SLURMD_NODENAME", "n1"}};
  const LaunchFacts facts = launch_facts(task);
  CHECK(facts.step == "77.0");
  CHECK(facts.node == "n1");
  CHECK(facts.several_nodes);
  CHECK(facts.first_node == false);
  Variables narrow = task;
  narrow["SLURM_STEP_NUM_NODES"] = "1";
  CHECK_FALSE(launch_facts(narrow).several_nodes);
}

TEST_CASE("a batch script of several nodes is no rank, and what it starts runs on one of them") {
  const LaunchFacts facts =
      launch_facts({{"SLURM_JOB_ID", "77"}, {"SLURM_NNODES", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}});
  CHECK(facts.before_srun);
  CHECK_FALSE(facts.several_nodes);
  CHECK(facts.step.empty());
  CHECK(facts.rank.launcher.empty());
  CHECK_FALSE(launch_facts({{"SLURM_JOB_ID", "77"}, {"SLURM_NNODES", "1"}}).before_srun);
}

TEST_CASE("processes of one mpirun belong together") {
  CHECK(launch_facts({{"PMIX_NAMESPACE", "12345"}, {"OMPI_COMM_WORLD_RANK", "1"}}).step == "12345");
}

TEST_CASE("a command inside another run, or launched by an agent, is looked after already") {
  CHECK(is_watched({{"TRIMTAB_WATCH", "1"}, {"TRIMTAB_SOCKET", "/s"}}));
  CHECK_FALSE(is_watched({{"TRIMTAB_SOCKET", "/s"}}));
  CHECK(is_launched({{"TRIMTAB_RANK", "0"}}));
  CHECK_FALSE(is_launched({}));
}
