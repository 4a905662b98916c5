// Launches of a trial: its copy of the checkpoint is made beside the loop, once, and not for a launch that is killed. A
// job's end ends what of it is no rank.

#include "commands/command_runner.hpp"

#include <signal.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>

#include "../../device_memory_cases.hpp"
#include "../../peak_memory.hpp"
#include "../run_loop.hpp"
#include "../temporary_directory.hpp"
#include "agent_database.hpp"
#include "processes/process_identity.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

struct Runner {
  explicit Runner(Bytes device_memory = 0) : memory(device_memory) {
    std::filesystem::create_directories(directory / "saved");
    REQUIRE(write_file(directory / "saved/weights", "job's").ok());
    job.name = "j";
    job.world_size = 1;
    job.steps = 10;
    job.train = {"sleep", "60"};
    job.checkpoint = directory / "saved";
    job.working_directory = "/";
  }
  ~Runner() {
    bool gone = false;
    ranks.end_all(Nanoseconds(0), [&] { gone = true; });
    static_cast<void>(run_until(loop, [&] { return gone; }));
  }

  [[nodiscard]] wire::Command launch(std::uint64_t id) const {
    wire::Command command;
    command.set_id(id);
    auto& asked = *command.mutable_launch();
    asked.set_job_json(to_json(job));
    asked.add_ranks(0);
    asked.set_plan_json("{}");
    asked.set_rendezvous("launch-1");
    asked.set_launch(1);
    asked.set_epoch(1);
    asked.set_variant("trial");
    return command;
  }
  [[nodiscard]] static wire::Command kill(std::uint64_t id) {
    wire::Command command;
    command.set_id(id);
    command.mutable_kill()->set_job("j");
    command.mutable_kill()->set_variant("trial");
    command.mutable_kill()->set_launch(1);
    return command;
  }
  [[nodiscard]] wire::Command benchmark(std::uint64_t id) const {
    wire::Command command;
    command.set_id(id);
    auto& asked = *command.mutable_benchmark();
    asked.set_job_json(to_json(job));
    asked.set_requests_json(R"({"schema":"trimtab.benchmark_requests/1","items":[{}]})");
    asked.add_ranks(0);
    asked.set_rendezvous("benchmark-0");
    asked.set_deadline_s(60);
    return command;
  }
  // Of all launches: the job is over.
  [[nodiscard]] static wire::Command end_job(std::uint64_t id, const std::string& name) {
    wire::Command command;
    command.set_id(id);
    command.mutable_kill()->set_job(name);
    return command;
  }
  [[nodiscard]] const wire::CommandDone& done(std::uint64_t id) {
    const wire::CommandDone* found = nullptr;
    REQUIRE(run_until(loop, [&] {
      for (const auto& one : replies) found = one.id() == id ? &one : found;
      return found != nullptr;
    }));
    return *found;
  }
  [[nodiscard]] std::string weights() const {
    return Scratch(directory.path(), "j", "trial").checkpoint() + "/weights";
  }

  Bytes memory;
  TemporaryDirectory directory;
  Job job;
  net::EventLoop loop;
  Random random{1};
  AgentDatabase state = open_agent_database(directory / "agent.db", random).value();
  LaunchedRanks ranks{loop, RankLedger(state.database), directory.path(), [](const LedgerRank&) {}};
  JobContext jobs{directory.path(), Fingerprint()};
  std::deque<wire::CommandDone> replies;
  CommandRunner runner{{loop,
                        ranks,
                        jobs,
                        {{"PATH", "/usr/bin:/bin"}},
                        {directory / "agent.sock", "", "", "n0"},
                        directory.path(),
                        memory,
                        std::chrono::seconds(1),
                        [this](const wire::FromAgent& message) {
                          if (message.has_command_done()) replies.push_back(message.command_done());
                          return true;
                        },
                        [](const Job&, const std::vector<Cost>&) {},
                        [](const RankIdentity&) {},
                        [] { return false; }},
                       CommandLedger(state.database)};
};

}  // namespace

TEST_CASE("a trial's ranks begin when its checkpoint has been copied, and the loop does not wait for that") {
  Runner one;
  one.runner.run(one.launch(1));
  CHECK(one.ranks.running() == 0);
  CHECK(one.replies.empty());
  const auto& done = one.done(1);
  INFO(done.error());
  CHECK(done.ok());
  CHECK(one.ranks.running() == 1);
  CHECK(read_file(one.weights()).value() == "job's");
}

TEST_CASE("ranks and benchmarks are told what the job's limit and the device both allow") {
  for (const test::DeviceMemoryCase& of : test::kDeviceMemoryCases) {
    Runner one(of.device);
    one.job.memory_limit = of.limit;
    one.job.working_directory = one.directory.path();
    one.job.train = {"sh", "-c", "echo {memory_limit_bytes} > told.part; mv told.part train; exec sleep 60"};
    one.job.benchmark = {"sh", "-c", "echo {memory_limit_bytes} > told; mv told benchmark; exec sleep 60"};
    one.runner.run(one.launch(1));
    one.runner.run(one.benchmark(2));
    for (const char* name : {"train", "benchmark"}) {
      const std::string path = one.directory / name;
      REQUIRE(run_until(one.loop, [&] { return std::filesystem::exists(path); }));
      CHECK(read_file(path).value() == std::to_string(of.memory) + "\n");
    }
    one.runner.stop();
  }
}

TEST_CASE("a launch that Linux does not start fails with the reason, whatever it would take for all its ranks") {
  constexpr int kRanks = 63;
  Runner one;
  one.job.world_size = kRanks;
  one.job.checkpoint.clear();
  SECTION("by an argument with its placeholders filled in") {
    std::string many;
    for (int i = 0; i < 800'000; ++i) many += "{scratch}";
    one.job.train = {"true", many};
  }
  SECTION("by a variable") {
    one.job.environment["DATA"] = std::string(6'800'000, 'x');
  }
  SECTION("by all of its arguments") {
    one.job.train.resize(90'000, "{scratch}");
  }
  wire::Command command = one.launch(1);
  for (int rank = 1; rank < kRanks; ++rank) command.mutable_launch()->add_ranks(static_cast<std::uint32_t>(rank));
  const test::PeakMemory memory;
  one.runner.run(command);
  const auto& done = one.done(1);
  CHECK_FALSE(done.ok());
  CHECK_THAT(done.error(), (Catch::Contains("into a file") && Catch::Contains("Linux")) || Catch::Contains("at most"));
  CHECK(done.error().size() < 1000);
  CHECK(one.ranks.running() == 0);
  CHECK(memory.growth_bytes() < 256 << 20);  // the document is read and written; ranks' 63 copies would take more
}

TEST_CASE("a launch that is killed while its checkpoint is copied starts no rank") {
  Runner one;
  one.runner.run(one.launch(1));
  one.runner.run(Runner::kill(2));
  CHECK(one.done(2).ok());
  CHECK_FALSE(one.done(1).ok());
  CHECK_THAT(one.done(1).error(), Catch::Contains("killed while its checkpoint was copied"));
  CHECK(one.runner.running() == 0);
  CHECK(one.ranks.running() == 0);
}

TEST_CASE("a launch that is asked again by another number leaves the checkpoint of its ranks alone") {
  Runner one;
  one.runner.run(one.launch(1));
  REQUIRE(one.done(1).ok());
  REQUIRE(write_file(one.weights(), "trial's").ok());
  one.runner.run(one.launch(2));
  CHECK(one.done(2).ok());
  CHECK(one.ranks.running() == 1);
  CHECK(read_file(one.weights()).value() == "trial's");
}

TEST_CASE("no checkpoint is copied under ranks of another launch") {
  Runner one;
  one.runner.run(one.launch(1));
  REQUIRE(one.done(1).ok());
  REQUIRE(write_file(one.weights(), "trial's").ok());
  auto later = one.launch(2);
  later.mutable_launch()->set_launch(2);
  one.runner.run(later);
  CHECK_FALSE(one.done(2).ok());
  CHECK(read_file(one.weights()).value() == "trial's");
}

TEST_CASE("a command runs once although its reply could not be written down, and is written down when there is room") {
  Runner one;
  one.job.describe = {"sh", "-c",
                      R"(echo x >> ran; printf '{"schema": "trimtab.model/1", "y": "'; )"
                      R"(head -c 20000 /dev/zero | tr '\0' y; echo '"}')"};
  one.job.working_directory = one.directory.path();
  wire::Command command;
  command.set_id(1);
  command.mutable_describe()->set_job_json(to_json(one.job));
  auto& database = one.state.database;
  const auto pages = as_integer(database.query("PRAGMA page_count").value()[0][0]);
  REQUIRE(database.query("PRAGMA max_page_count = " + std::to_string(pages)).ok());
  one.runner.run(command);
  const std::string output = one.done(1).output();
  REQUIRE(output.size() > 20000);
  CHECK_FALSE(CommandLedger(database).reply(command).value().has_value());
  one.replies.clear();
  one.runner.run(command);
  CHECK(one.done(1).output() == output);
  CHECK(read_file(one.directory / "ran").value() == "x\n");
  REQUIRE(database.query("PRAGMA max_page_count = 100000").ok());
  one.runner.retry();
  REQUIRE(CommandLedger(database).reply(command).value().has_value());
  CHECK(CommandLedger(database).reply(command).value()->output() == output);
}

TEST_CASE("a benchmark that is run again meets in a file of its own, and leaves none") {
  Runner one;
  const std::string told = one.directory / "told";
  one.job.benchmark = {"sh", "-c", "echo {rendezvous} >> " + told + "; touch $(echo {rendezvous} | cut -c8-)"};
  one.runner.run(one.benchmark(1));
  CHECK(one.done(1).ok());
  one.runner.run(one.benchmark(2));  // as by the agent after this one
  CHECK(one.done(2).ok());
  const std::string text = read_file(told).value();
  const std::string first = text.substr(0, text.find('\n'));
  CHECK_THAT(first, Catch::StartsWith("file://") && Catch::Contains("/rendezvous-benchmark-0-"));
  CHECK(text.find(first, first.size()) == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(first.substr(7)));
}

TEST_CASE("of a benchmark's ranks the one that was killed is named, also where another one's exit is heard of first") {
  Runner one;
  one.job.world_size = 2;
  const std::string dead = one.directory / "dead";
  // Its child keeps the end of rank 1 from being told at once.
  one.job.benchmark = {"sh", "-c",
                       "if [ {rank} = 1 ]; then sleep 60 & touch " + dead + "; kill -9 $$; fi; while [ ! -e " + dead +
                           " ]; do sleep 0.01; done; echo connection closed by peer >&2; exit 3"};
  wire::Command command = one.benchmark(1);
  command.mutable_benchmark()->add_ranks(1);
  one.runner.run(command);
  const wire::CommandDone& done = one.done(1);
  CHECK_FALSE(done.ok());
  CHECK(done.killed());
  CHECK_THAT(done.error(), Catch::StartsWith("rank 1 of the benchmark command was ended by signal 9 (Killed)"));
}

TEST_CASE("the end of a job ends its benchmark and its description, and those of no other job") {
  Runner one;
  const std::string pid_file = one.directory / "pid";
  one.job.benchmark = {"sh", "-c", "echo $$ > " + pid_file + "; exec sleep 60"};
  one.job.describe = {"sleep", "60"};
  one.runner.run(one.benchmark(1));
  wire::Command describe;
  describe.set_id(2);
  describe.mutable_describe()->set_job_json(to_json(one.job));
  one.runner.run(describe);
  REQUIRE(run_until(one.loop, [&] {
    const auto text = read_file(pid_file);
    return text.ok() && !text->empty();
  }));
  const auto pid = static_cast<pid_t>(std::stoi(read_file(pid_file).value()));
  one.runner.run(Runner::end_job(3, "another"));
  one.runner.run(Runner::kill(4));  // of launches up to the first: a benchmark is of none
  CHECK(one.done(3).ok());
  CHECK(one.done(4).ok());
  CHECK(one.runner.running() == 2);
  one.runner.run(Runner::end_job(5, "j"));
  CHECK(one.done(5).ok());
  CHECK_THAT(one.done(1).error(), Catch::Contains("its job is over"));
  CHECK_FALSE(one.done(2).ok());
  CHECK(one.runner.running() == 0);
  CHECK(::kill(pid, 0) != 0);  // before anybody was told that the job has ended
}

namespace {

// A restarted job whose own first launch was ended for a trial, which runs.
struct InTrial : Runner {
  InTrial() {
    job.delivery = Delivery::kRestart;
    REQUIRE_FALSE(runs("", 1));
    begin(1, "", 1);
    wire::Command end = kill(2);
    end.mutable_kill()->set_variant("");
    runner.run(end);
    REQUIRE(done(2).ok());
    begin(3, "trial", 2);
    REQUIRE(runs("trial", 2));
  }
  void begin(std::uint64_t id, const std::string& variant, std::uint64_t number) {
    wire::Command command = launch(id);
    command.mutable_launch()->set_variant(variant);
    command.mutable_launch()->set_launch(number);
    command.mutable_launch()->set_epoch(number);
    command.mutable_launch()->set_fresh(variant.empty());
    runner.run(command);
    REQUIRE(done(id).ok());
  }
  [[nodiscard]] bool runs(const std::string& variant, std::uint64_t number) const {
    return std::ranges::any_of(ranks.all(), [&](const LedgerRank& rank) {
      return !rank.ended && rank.id.variant == variant && rank.launch == number;
    });
  }
};

}  // namespace

TEST_CASE("a job that nobody commands is brought back from a trial to the plan that it keeps") {
  InTrial one;
  one.runner.bring_back();
  one.runner.bring_back();
  REQUIRE(run_until(one.loop, [&] { return one.runs("", 3); }));
  CHECK_FALSE(one.runs("trial", 2));
  const auto all = one.ranks.all();
  const auto own = std::ranges::find_if(all, [](const LedgerRank& rank) { return rank.launch == 3; });
  REQUIRE(own != all.end());
  CHECK(own->epoch == 1);
  one.runner.bring_back();
  CHECK(one.ranks.running() == 1);
}

TEST_CASE("a trial that has ended by itself is left for the job's own launch, too") {
  InTrial one;
  one.ranks.end("j", "trial", 0, std::chrono::seconds(1), [] {});
  REQUIRE(run_until(one.loop, [&] { return !one.runs("trial", 2); }));
  one.runner.bring_back();
  CHECK(run_until(one.loop, [&] { return one.runs("", 3); }));
}

TEST_CASE("a job whose trial somebody has ended, or whom a coordinator commands again, is not brought back") {
  InTrial ended;
  wire::Command end = Runner::kill(4);
  end.mutable_kill()->set_launch(2);
  ended.runner.run(end);
  REQUIRE(ended.done(4).ok());
  ended.runner.bring_back();
  InTrial commanded;
  commanded.runner.bring_back();
  commanded.runner.leave_to_coordinator();
  REQUIRE(run_until(commanded.loop, [&] { return commanded.ranks.running() == 0; }));
  CHECK(ended.ranks.running() == 0);
  // What is posted when a launch ends has been done.
  bool later = false;
  commanded.loop.post([&] { commanded.loop.post([&] { later = true; }); });
  REQUIRE(run_until(commanded.loop, [&] { return later; }));
  CHECK(commanded.ranks.running() == 0);
}

TEST_CASE("a rank that must not save is killed at once, with what it has started in sessions of its own") {
  Runner one;
  one.job.delivery = Delivery::kRestart;
  const std::string pid_file = one.directory / "pid";
  const std::string saved = one.directory / "saved/new";
  one.job.train = {"sh", "-c",
                   "trap 'touch " + saved + "; exit' TERM; setsid sleep 60 & echo $! > " + pid_file + "; wait"};
  wire::Command launch = one.launch(1);
  launch.mutable_launch()->set_variant("");
  one.runner.run(launch);
  REQUIRE(one.done(1).ok());
  REQUIRE(run_until(one.loop, [&] {
    const auto text = read_file(pid_file);
    return text.ok() && text->ends_with("\n");
  }));
  const auto apart = static_cast<pid_t>(std::stoi(read_file(pid_file).value()));
  wire::Command end = Runner::kill(2);
  end.mutable_kill()->set_variant("");
  end.mutable_kill()->set_unsaved(true);
  one.runner.run(end);
  REQUIRE(one.done(2).ok());
  CHECK_FALSE(std::filesystem::exists(saved));
  const auto stat = process_stat(apart);
  CHECK((!stat || stat->ended()));
}
