// Launches of a trial: its copy of the checkpoint is made beside the loop, once, and not for a launch that is killed. A
// job's end ends what of it is no rank.

#include "command_runner.hpp"

#include <signal.h>
#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>

#include "agent_database.hpp"
#include "run_loop.hpp"
#include "temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

struct Runner {
  Runner() {
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
                        0,
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
  one.job.describe = {"sh", "-c", "echo x >> ran; head -c 20000 /dev/zero | tr '\\0' y"};
  one.job.working_directory = one.directory.path();
  wire::Command command;
  command.set_id(1);
  command.mutable_describe()->set_job_json(to_json(one.job));
  auto& database = one.state.database;
  const auto pages = as_integer(database.query("PRAGMA page_count").value()[0][0]);
  REQUIRE(database.query("PRAGMA max_page_count = " + std::to_string(pages)).ok());
  one.runner.run(command);
  const std::string output = one.done(1).output();
  REQUIRE(output.size() == 20000);
  CHECK_FALSE(CommandLedger(database).reply(command).value().has_value());
  one.replies.clear();
  one.runner.run(command);
  CHECK(one.done(1).output() == output);
  CHECK(read_file(one.directory / "ran").value() == "x\n");
  REQUIRE(database.query("PRAGMA max_page_count = 100000").ok());
  one.runner.link_opened();
  REQUIRE(CommandLedger(database).reply(command).value().has_value());
  CHECK(CommandLedger(database).reply(command).value()->output() == output);
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
