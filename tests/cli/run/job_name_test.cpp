#include "run/job_name.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::cli;

TEST_CASE("a job is called as its script") {
  CHECK(job_name_of({"python3", "src/train.py", "--config", "other.py"}) == "train");
  CHECK(job_name_of({"torchrun", "--nproc_per_node", "2", "/home/ana/my jobs/pre train.py"}) == "pre-train");
  CHECK(job_name_of({"python3", "-m", "pkg.mod", "train.py"}) == "pkg.mod");
  CHECK(job_name_of({"python3", "-m", "torch.distributed.run", "--nproc_per_node=2", "train.py"}) == "train");
  CHECK(job_name_of({"python3", "-m", "torch.distributed.run", "-m", "pkg.mod"}) == "pkg.mod");
  CHECK(job_name_of({"accelerate", "launch", "--num_processes", "2", "run_clm.py"}) == "run_clm");
  CHECK(job_name_of({"bash", "-x", "./launch.sh", "train"}) == "launch");
  CHECK(job_name_of({"env", "CONFIG=a.py", "/opt/bin/pretrain"}) == "env");
  CHECK(job_name_of({"/opt/bin/pretrain"}) == "pretrain");
}

TEST_CASE("whatever a command is called, its job has a valid name") {
  for (const char* word : {"...", "", "/", "日本", "a b", ".py"}) {
    INFO(word);
    CHECK(check_job_name(job_name_of({word})).ok());
  }
  CHECK(job_name_of({std::string(200, 'x') + ".py"}).size() == 64);
}

TEST_CASE("a name that a person gives is refused with what one is") {
  CHECK(check_job_name("gpt-1.0_a").ok());
  for (const char* name : {"", "..", "a/b", "a b"}) {
    INFO(name);
    CHECK_FALSE(check_job_name(name).ok());
  }
}

TEST_CASE("two jobs at once have two names") {
  CHECK(free_job_name("train", {}) == "train");
  CHECK(free_job_name("train", {"train", "train-2"}) == "train-3");
  const std::string longest(64, 'x');
  CHECK(free_job_name(longest, {longest}) == std::string(62, 'x') + "-2");
}
