#include "rank_command.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::agent;

namespace {

Job example_job() {
  Job job;
  job.name = "gpt-cpu";
  job.world_size = 4;
  job.environment = {{"OPENBLAS_NUM_THREADS", "1"}, {"PATH", "/job/bin"}};
  return job;
}

RankLaunch example_launch() {
  RankLaunch launch;
  launch.rank = 3;
  launch.local_rank = 1;
  launch.plan_path = "/scratch/plan-7.json";
  launch.rendezvous = "file:///r";
  launch.scratch = "/scratch";
  launch.memory_limit = 1024;
  launch.steps = 400;
  launch.epoch = 7;
  return launch;
}

}  // namespace

TEST_CASE("placeholders are filled in, also several in an argument") {
  const auto values = placeholders(example_job(), example_launch());
  const auto expanded = expand({"train", "--rank={rank}/{world_size}", "{plan}", "{scratch}/snapshots",
                                "{steps}{local_rank}", "{memory_limit_bytes}", "{rendezvous}"},
                               values);
  REQUIRE(expanded.ok());
  CHECK(*expanded == std::vector<std::string>{"train", "--rank=3/4", "/scratch/plan-7.json", "/scratch/snapshots",
                                              "4001", "1024", "file:///r"});
}

TEST_CASE("an unknown placeholder is an error that names the nearest, JSON braces are left alone") {
  const auto values = placeholders(example_job(), example_launch());
  const auto wrong = expand({"{rnak}"}, values);
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().message.find("{rank}") != std::string::npos);
  const auto json = expand({R"({"a": {"b": 1}})", "{}", "{", "}{"}, values);
  REQUIRE(json.ok());
  CHECK((*json)[0] == R"({"a": {"b": 1}})");
}

TEST_CASE("a value that looks like a placeholder is not expanded again") {
  CHECK(expand({"{a}"}, {{"a", "{b}"}, {"b", "x"}}).value() == std::vector<std::string>{"{b}"});
}

TEST_CASE("a benchmark has no plan") {
  auto launch = example_launch();
  launch.plan_path.clear();
  launch.requests_path = "/scratch/requests.json";
  const auto values = placeholders(example_job(), launch);
  CHECK_FALSE(expand({"{plan}"}, values).ok());
  CHECK(expand({"{requests}"}, values).value()[0] == "/scratch/requests.json");
}

TEST_CASE("a rank's environment is the agent's, the job's over it, ours over both") {
  const Environment base{{"HOME", "/root"}, {"PATH", "/bin"}, {"TRIMTAB_STATE", "/secret"}, {"TRIMTAB", "0"}};
  const auto environment = rank_environment(base, example_job(), example_launch(), {"/run/a.sock", "/lib/inject.so"});
  CHECK(environment.at("HOME") == "/root");
  CHECK(environment.at("PATH") == "/job/bin");
  CHECK(environment.at("OPENBLAS_NUM_THREADS") == "1");
  CHECK(environment.at("TRIMTAB_SOCKET") == "/run/a.sock");
  CHECK(environment.at("TRIMTAB_JOB") == "gpt-cpu");
  CHECK(environment.at("TRIMTAB_RANK") == "3");
  CHECK(environment.at("TRIMTAB_LOCAL_RANK") == "1");
  CHECK(environment.at("TRIMTAB_WORLD_SIZE") == "4");
  CHECK(environment.at("TRIMTAB_PLAN") == "/scratch/plan-7.json");
  CHECK(environment.at("TRIMTAB_EPOCH") == "7");
  CHECK(environment.at("TRIMTAB_LIBRARY") == "/lib/inject.so");
  CHECK(environment.at("NVTX_INJECTION64_PATH") == "/lib/inject.so");
  CHECK_FALSE(environment.contains("TRIMTAB"));
  CHECK_FALSE(environment.contains("TRIMTAB_STATE"));
}

TEST_CASE("without the library its variables are absent, and describe and benchmark are switched off") {
  CHECK_FALSE(rank_environment({}, example_job(), example_launch(), {"/run/a.sock", ""}).contains("TRIMTAB_LIBRARY"));
  CHECK(command_environment({}, example_job()).at("TRIMTAB") == "0");
}

TEST_CASE("a rendezvous that is a mere name becomes a file in the scratch") {
  CHECK(rendezvous_address("tcp://h:1", "/s") == "tcp://h:1");
  CHECK(rendezvous_address("launch-3", "/s") == "file:///s/rendezvous-launch-3");
}
