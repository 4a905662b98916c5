#include "ranks/rank_command.hpp"

#include <catch2/catch.hpp>

#include "../../peak_memory.hpp"

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
  launch.launch = 12;
  launch.variant = "untuned";
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

TEST_CASE("an argument is too long with its placeholders filled in: that is told before it takes the memory") {
  const auto values = placeholders(example_job(), example_launch());
  std::string many;
  for (int i = 0; i < 800'000; ++i) many += "{scratch}";
  const test::PeakMemory memory;
  const auto long_one = expand({"true", many}, values);
  REQUIRE_FALSE(long_one.ok());
  CHECK_THAT(long_one.error().message,
             Catch::Contains("of 7200000 bytes, has more than 131071 with its placeholders") &&
                 Catch::Contains("Put it into a file"));
  CHECK(long_one.error().message.size() < 600);
  const auto all = expand(std::vector<std::string>(100, std::string(100'000, 'x')), values);
  REQUIRE_FALSE(all.ok());
  CHECK_THAT(all.error().message, Catch::Contains("the command's 100 arguments take more than 2097152 bytes"));
  CHECK(expand({std::string(131'063, 'x') + "{scratch}"}, values).ok());
  CHECK_FALSE(expand({std::string(131'064, 'x') + "{scratch}"}, values).ok());
  CHECK(memory.growth_bytes() < 32 << 20);
}

TEST_CASE("an unknown placeholder in a long argument is told in a short message") {
  const auto wrong = expand({"{rnak}" + std::string(1'000'000, 'x')}, placeholders(example_job(), example_launch()));
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().message.size() < 600);
}

TEST_CASE("what a target says takes the place of one argument, and is no text with placeholders") {
  const std::vector<std::string> of_target{"--tp", "{rank}"};
  const auto values = placeholders(example_job(), example_launch());
  CHECK(expand({"train", "{target_arguments}", "{rank}"}, values, &of_target).value() ==
        std::vector<std::string>{"train", "--tp", "{rank}", "3"});
  CHECK_FALSE(expand({"train", "{target_arguments}"}, values).ok());
}

TEST_CASE("a benchmark has no plan") {
  auto launch = example_launch();
  launch.plan_path.clear();
  launch.requests_path = "/scratch/requests.json";
  const auto values = placeholders(example_job(), launch);
  CHECK_FALSE(expand({"{plan}"}, values).ok());
  CHECK(expand({"{requests}"}, values).value()[0] == "/scratch/requests.json");
}

TEST_CASE("what a plan's target demands of the environment is over the job's, and below ours") {
  const AgentPlaces places{"/run/a.sock", "", "", "n0"};
  Job job = example_job();
  job.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  auto launch = example_launch();
  CHECK(rank_environment({}, job, launch, places).at("CUDA_DEVICE_MAX_CONNECTIONS") == "1");
  launch.target_environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "8"}, {"TRIMTAB_SOCKET", "/other"}};
  CHECK(rank_environment({}, job, launch, places).at("CUDA_DEVICE_MAX_CONNECTIONS") == "8");
  CHECK(rank_environment({}, job, launch, places).at("TRIMTAB_SOCKET") == "/run/a.sock");
}

TEST_CASE("NCCL's profiler is ours, with the job's own behind it; its tuner is ours where the launch has a table") {
  const AgentPlaces places{"/run/a.sock", "/lib/inject.so", "/state/kill-switch", "n0"};
  auto launch = example_launch();
  auto environment = rank_environment({}, example_job(), launch, places);
  CHECK(environment.at("NCCL_PROFILER_PLUGIN") == "/lib/inject.so");
  for (const char* absent : {"TRIMTAB_NCCL_PROFILER_NEXT", "NCCL_TUNER_PLUGIN", "TRIMTAB_NCCL_TABLE"}) {
    CHECK_FALSE(environment.contains(absent));
  }
  launch.nccl_table = "/scratch/nccl-3.table";
  launch.nccl_table_id = "0123456789abcdef";
  Job job = example_job();
  job.environment["NCCL_PROFILER_PLUGIN"] = "inspector";
  environment = rank_environment({}, job, launch, places);
  CHECK(environment.at("NCCL_PROFILER_PLUGIN") == "/lib/inject.so");
  CHECK(environment.at("TRIMTAB_NCCL_PROFILER_NEXT") == "inspector");
  CHECK(environment.at("NCCL_TUNER_PLUGIN") == "/lib/inject.so");
  CHECK(environment.at("TRIMTAB_NCCL_TABLE") == "/scratch/nccl-3.table");
  CHECK(environment.at("TRIMTAB_NCCL_TABLE_ID") == "0123456789abcdef");
  job.environment["NCCL_TUNER_PLUGIN"] = "ofi";
  environment = rank_environment({}, job, launch, places);
  CHECK(environment.at("NCCL_TUNER_PLUGIN") == "ofi");
  CHECK_FALSE(environment.contains("TRIMTAB_NCCL_TABLE"));
  environment = rank_environment({}, example_job(), launch, {"/run/a.sock", "", "/state/kill-switch", "n0"});
  CHECK_FALSE(environment.contains("NCCL_PROFILER_PLUGIN"));
}

TEST_CASE("a rank's environment is the agent's, the job's over it, ours over both") {
  const Environment base{{"HOME", "/root"}, {"PATH", "/bin"}, {"TRIMTAB_STATE", "/secret"}, {"TRIMTAB", "0"}};
  const auto environment = rank_environment(base, example_job(), example_launch(),
                                            {"/run/a.sock", "/lib/inject.so", "/state/kill-switch", "n0"});
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
  CHECK(environment.at("TRIMTAB_LAUNCH") == "12");
  CHECK(environment.at("TRIMTAB_VARIANT") == "untuned");
  CHECK(environment.at("TRIMTAB_LIBRARY") == "/lib/inject.so");
  CHECK(environment.at("NVTX_INJECTION64_PATH") == "/lib/inject.so");
  CHECK(environment.at("CUDA_INJECTION64_PATH") == "/lib/inject.so");
  CHECK(environment.at("TRIMTAB_NCCL_DETAIL") == "sampled");
  CHECK_FALSE(environment.contains("TRIMTAB"));
  CHECK_FALSE(environment.contains("TRIMTAB_STATE"));
}

TEST_CASE("what the job's environment says of another launch does not survive") {
  Job job = example_job();
  const auto names = {"TRIMTAB_LAUNCH", "TRIMTAB_VARIANT", "TRIMTAB_TARGET_CONFIG"};
  for (const char* name : names) job.environment[name] = "another's";
  RankLaunch launch = example_launch();
  launch.variant.clear();
  launch.launch = 0;
  const auto environment = rank_environment({}, job, launch, {"/run/a.sock", "", "", "n0"});
  for (const char* name : names) CHECK_FALSE(environment.contains(name));
}

TEST_CASE("without the library its variables are absent, and describe and benchmark are switched off") {
  CHECK_FALSE(rank_environment({}, example_job(), example_launch(), {"/run/a.sock", "", "/state/kill-switch", "n0"})
                  .contains("TRIMTAB_LIBRARY"));
  CHECK(command_environment({}, example_job()).at("TRIMTAB") == "0");
}

TEST_CASE("rank 0's address is where ranks on several nodes meet, and loopback where they are on one") {
  CHECK(rendezvous_host("tcp://node-7.cluster:20001") == "node-7.cluster");
  CHECK(rendezvous_host("tcp://10.0.0.3:20001") == "10.0.0.3");
  CHECK(rendezvous_host("tcp://[fd00::3]:20001") == "fd00::3");
  CHECK(rendezvous_host("file:///s/rendezvous-launch-3") == "127.0.0.1");
}

TEST_CASE("a rendezvous that is a mere name becomes a file in the scratch") {
  CHECK(rendezvous_address("tcp://h:1", "/s") == "tcp://h:1");
  CHECK(rendezvous_address("launch-3", "/s") == "file:///s/rendezvous-launch-3");
}

TEST_CASE("the command that submits a launch is told of its nodes, and is no rank") {
  RankLaunch launch;
  launch.launch = 7;
  launch.variant = "trial";
  launch.node = "n0";
  launch.nodes = "n0,n1";
  launch.node_count = 2;
  launch.ranks_per_node = 4;
  const auto expanded =
      expand({"{nodes}", "{node_count}", "{ranks_per_node}", "{node}"}, placeholders(example_job(), launch));
  REQUIRE(expanded.ok());
  CHECK(*expanded == std::vector<std::string>{"n0,n1", "2", "4", "n0"});
  launch.ranks_per_node = 0;
  CHECK_FALSE(expand({"{ranks_per_node}"}, placeholders(example_job(), launch)).ok());
  const auto environment = launcher_environment({{"TRIMTAB_RANK", "3"}, {"HOME", "/root"}}, example_job(), launch,
                                                {"/run/a.sock", "/lib/i.so", "", "n0"});
  CHECK(environment.at("TRIMTAB_SOCKET") == "/run/a.sock");
  CHECK(environment.at("TRIMTAB_LAUNCH") == "7");
  CHECK(environment.at("TRIMTAB_VARIANT") == "trial");
  CHECK(environment.at("HOME") == "/root");
  CHECK_FALSE(environment.contains("TRIMTAB_RANK"));
  CHECK_FALSE(environment.contains("NVTX_INJECTION64_PATH"));
}
