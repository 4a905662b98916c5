// The agent's program beside a coordinator: what it is commanded, it does.

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../hollow_frames.hpp"
#include "commands/scratch.hpp"
#include "fake_coordinator.hpp"
#include "schema/fingerprint.hpp"
#include "schema/statistics.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using wire::RankEvent;

namespace {

const std::string kDescribed = R"({"schema": "trimtab.model/1", "described": "0"})";

bool is_batch(const wire::FromAgent& message) {
  return message.has_cost_batch();
}

// What a container's runtime does before a rank's command: users, PIDs and IPC of its own.
const std::vector<std::string> kInContainer{"unshare",      "--user", "--map-root-user", "--pid", "--fork",
                                            "--mount-proc", "--ipc"};

bool makes_containers() {
  std::string command;
  for (const auto& word : kInContainer) command += word + " ";
  return std::system((command + "true 2>/dev/null").c_str()) == 0;
}

}  // namespace

TEST_CASE("an agent introduces itself, and keeps telling that it lives") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  const auto& hello = coordinator.last_hello();
  CHECK(hello.protocol_version() == 1);
  CHECK(hello.oldest_version() == 1);
  CHECK(hello.node() == "n0");
  CHECK(hello.instance().size() == 16);
  CHECK(hello.devices() == 2);
  CHECK(hello.memory_bytes() == std::uint64_t{1} << 30);
  CHECK(parse_fingerprint(hello.fingerprint_json(), "hello").ok());
  CHECK(hello.running_size() == 0);
  coordinator.wait_for("a heartbeat", [](const auto& message) { return message.has_heartbeat(); });
  coordinator.kill_agent(SIGTERM);
  CHECK(coordinator.wait_for_agent() == 0);
}

TEST_CASE("an agent does not serve a coordinator of a version that it does not speak, and asks again later") {
  FakeCoordinator coordinator;
  coordinator.protocol_version = 9;
  coordinator.start_agent();
  coordinator.wait_for_hello(2);
  CHECK(coordinator.count([](const auto& message) { return message.has_heartbeat(); }) == 0);
  coordinator.protocol_version = 1;
  coordinator.wait_for("a heartbeat", [](const auto& message) { return message.has_heartbeat(); });
}

TEST_CASE("describe returns the model that the command prints, not what is around it, and asked twice it runs once") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  coordinator.describe(1, coordinator.job());
  coordinator.describe(1, coordinator.job());
  const auto& done = coordinator.wait_for_done(1);
  CHECK(done.ok());
  CHECK(done.output() == kDescribed);
  coordinator.forget();
  coordinator.describe(1, coordinator.job());
  CHECK(coordinator.wait_for_done(1).output() == kDescribed);
  CHECK(read_file(coordinator.directory / "trace").value() == "describe 0\n");
}

TEST_CASE("a command that does not exist or fails says why") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  auto job = coordinator.job();
  job.describe = {"no-such-program"};
  coordinator.describe(1, job);
  const auto missing = coordinator.wait_for_done(1);
  CHECK_FALSE(missing.ok());
  CHECK(missing.error().find("'no-such-program'") != std::string::npos);
  CHECK(missing.error().find("PATH") != std::string::npos);
  CHECK(missing.error().find(coordinator.directory.path()) != std::string::npos);
  job.describe = {"ls", "/nonexistent-path"};
  coordinator.describe(2, job);
  const auto failed = coordinator.wait_for_done(2);
  CHECK_FALSE(failed.ok());
  CHECK(failed.exit_code() == 2);
  CHECK(failed.error().find("nonexistent-path") != std::string::npos);
  job.describe = {"echo", "building the model"};
  coordinator.describe(5, job);
  const auto without = coordinator.wait_for_done(5);
  CHECK_FALSE(without.ok());
  CHECK(without.error().find("printed no model.json") != std::string::npos);
  CHECK(without.error().find("building the model") != std::string::npos);
  job.train = {"no-such-program"};
  coordinator.launch(3, job, {0, 1}, 1);
  CHECK(coordinator.wait_for_done(3).error().find("no-such-program") != std::string::npos);
  job.train = {"train", "{paln}"};
  coordinator.launch(4, job, {0, 1}, 2);
  CHECK(coordinator.wait_for_done(4).error().find("{plan}") != std::string::npos);
}

TEST_CASE("a benchmark's costs come as one active batch before it is done, with progress and the items' errors") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  coordinator.benchmark(1, coordinator.job(), {0, 1});
  const auto& done = coordinator.wait_for_done(1);
  CHECK(done.ok());
  CHECK(done.error().find("item 2 on rank 0: cannot measure that") != std::string::npos);
  const auto& messages = coordinator.messages;
  const auto batch = std::ranges::find_if(messages, is_batch);
  REQUIRE(batch != messages.end());
  CHECK(batch < std::ranges::find_if(
                    messages, [](const auto& message) { return message.has_command_done(); }));
  CHECK(batch->cost_batch().job() == "fake");
  REQUIRE(batch->cost_batch().entries_size() == 2);
  const auto& entry = batch->cost_batch().entries(0);
  CHECK(entry.source() == "active");
  const auto statistics = Statistics::decode(entry.statistics()).value();
  CHECK(statistics.count() == 4);
  CHECK(statistics.max() == 111);
  const auto fingerprint = parse_fingerprint(batch->cost_batch().fingerprint_json(), "batch").value();
  CHECK(fingerprint.environment.at("OPENBLAS_NUM_THREADS") == "1");
  const auto& progress =
      coordinator.wait_for("progress", [](const auto& message) { return message.has_command_progress(); });
  CHECK(progress.command_progress().total() == 3);
}

TEST_CASE("a benchmark whose rank fails keeps what was measured, ends the others, and says why") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  auto job = coordinator.job();
  job.benchmark.push_back("--fail");
  coordinator.benchmark(1, job, {0, 1});
  const auto& done = coordinator.wait_for_done(1);
  CHECK_FALSE(done.ok());
  CHECK(done.error().find("it broke") != std::string::npos);
  CHECK(coordinator.count(is_batch) == 1);
}

TEST_CASE("a benchmark that hangs is ended at its deadline") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  auto job = coordinator.job();
  job.benchmark.push_back("--hang");
  coordinator.benchmark(1, job, {0}, 0.5);
  CHECK(coordinator.wait_for_done(1).error().find("did not end within") != std::string::npos);
}

TEST_CASE("a job runs, changes its plan, stops, and all of it is told") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  coordinator.launch(1, coordinator.job(), {0, 1}, 1);
  CHECK(coordinator.wait_for_done(1).ok());
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto& connected = coordinator.wait_for("a connection", rank_event(RankEvent::kConnected, rank)).rank_event();
    CHECK(connected.job() == "fake");
    CHECK(connected.launch() == 1);
    CHECK(connected.connected().epoch() == 3);
    const auto& step = coordinator.wait_for("a step", rank_event(RankEvent::kStep, rank)).rank_event().step();
    CHECK(step.wall_ns() == 5000000);
    CHECK(step.loss() == 1.0);
  }
  wire::ToAgent message;
  message.mutable_plan_propose()->set_job("fake");
  message.mutable_plan_propose()->set_epoch(4);
  message.mutable_plan_propose()->set_plan_json("{\"a\":1}");
  coordinator.send(message);
  for (const std::uint32_t rank : {0U, 1U}) coordinator.wait_for("an ack", rank_event(RankEvent::kPlanAck, rank));
  message.mutable_plan_commit()->set_job("fake");
  message.mutable_plan_commit()->set_epoch(4);
  message.mutable_plan_commit()->set_step(50);
  coordinator.send(message);
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto& active = coordinator.wait_for("activation", rank_event(RankEvent::kPlanActive, rank)).rank_event();
    CHECK(active.plan_active().epoch() == 4);
    CHECK(active.plan_active().switch_ns() == 7);
    CHECK(active.plan_active().save_ns() == 4);
    CHECK(active.plan_active().move_ns() == 3);
  }
  message.mutable_stop_job()->set_job("fake");
  message.mutable_stop_job()->set_step(1);
  coordinator.send(message);
  for (const std::uint32_t rank : {0U, 1U}) {
    coordinator.wait_for("goodbye", rank_event(RankEvent::kBye, rank));
    const auto& exited = coordinator.wait_for("the end", rank_event(RankEvent::kExited, rank)).rank_event().exited();
    CHECK(exited.exit_code() == 0);
    CHECK(exited.last_output() == "bye");
  }
}

TEST_CASE("a thrown kill switch is told, refuses trials' plans and launches, and lets the job itself run") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  coordinator.launch(1, coordinator.job(), {0}, 1);
  CHECK(coordinator.wait_for_done(1).ok());
  coordinator.wait_for("a connection", rank_event(RankEvent::kConnected, 0));
  std::ofstream(coordinator.directory / "state/kill-switch").close();
  coordinator.wait_for("the kill switch", [](const auto& message) { return message.heartbeat().kill_switch(); });
  wire::ToAgent message;
  message.mutable_plan_propose()->set_job("fake");
  message.mutable_plan_propose()->set_epoch(4);
  message.mutable_plan_propose()->set_plan_json("{\"a\":1}");
  coordinator.send(message);
  const auto& refused = coordinator.wait_for("a refusal", rank_event(RankEvent::kPlanRefuse, 0)).rank_event();
  CHECK(refused.plan_refuse().reason() == "kill_switch");
  wire::ToAgent trial;
  trial.mutable_command()->set_id(2);
  trial.mutable_command()->mutable_launch()->set_job_json(to_json(coordinator.job()));
  trial.mutable_command()->mutable_launch()->add_ranks(1);
  trial.mutable_command()->mutable_launch()->set_launch(2);
  trial.mutable_command()->mutable_launch()->set_of_trial(true);
  coordinator.send(trial);
  const auto& done = coordinator.wait_for_done(2);
  CHECK_FALSE(done.ok());
  CHECK(done.error().find("kill-switch is removed") != std::string::npos);
}

TEST_CASE("a tenant's next launch finds what the last one left, and another tenant's of the name nothing") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  const std::string left = coordinator.directory / "state/jobs/fake/left";
  const char* const tenants[] = {"ana", "ana", "bob"};
  for (std::uint64_t number = 1; number <= std::size(tenants); ++number) {
    coordinator.tenant = tenants[number - 1];
    coordinator.launch(2 * number, coordinator.job(), {0}, number);
    REQUIRE(coordinator.wait_for_done(2 * number).ok());
    CHECK(std::filesystem::exists(left) == (number == 2));
    std::ofstream(left).close();
    coordinator.kill(2 * number + 1, "fake", number);
    REQUIRE(coordinator.wait_for_done(2 * number + 1).ok());
  }
}

TEST_CASE("with no coordinator a thrown kill switch ends a restarted job's trial, and the job itself runs again") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  Job job = coordinator.job();
  job.delivery = Delivery::kRestart;
  job.checkpoint = coordinator.directory / "saved";
  coordinator.launch(1, job, {0, 1}, 1);
  REQUIRE(coordinator.wait_for_done(1).ok());
  coordinator.kill(2, "fake", 1);
  REQUIRE(coordinator.wait_for_done(2).ok());
  wire::ToAgent trial;
  trial.mutable_command()->set_id(3);
  auto& launch = *trial.mutable_command()->mutable_launch();
  launch.set_job_json(to_json(job));
  launch.set_plan_json("{\"tried\":1}");
  launch.add_ranks(0);
  launch.add_ranks(1);
  launch.set_rendezvous("launch-2");
  launch.set_launch(2);
  launch.set_epoch(4);
  launch.set_variant("trial");
  launch.set_of_trial(true);
  coordinator.send(trial);
  REQUIRE(coordinator.wait_for_done(3).ok());
  coordinator.leave();
  std::ofstream(coordinator.directory / "state/kill-switch").close();
  const std::string log = coordinator.directory / "state/jobs/fake/rank-1.log.previous";
  coordinator.wait("the job's own launch", [&] { return std::filesystem::exists(log); });
  coordinator.forget();
  coordinator.come_back();
  const auto is_hello = [](const wire::FromAgent& message) { return message.has_hello(); };
  const auto& hello = coordinator.wait_for("a hello", is_hello).hello();
  CHECK(hello.kill_switch());
  REQUIRE(hello.running_size() == 2);
  for (const auto& rank : hello.running()) {
    CHECK(rank.launch() == 3);
    CHECK(rank.epoch() == 3);
    CHECK(rank.has_variant());
    CHECK(rank.variant().empty());
  }
}

TEST_CASE("killing a launch ends its ranks before it is done") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  coordinator.launch(1, coordinator.job(), {0, 1}, 1);
  std::vector<pid_t> pids;
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto& event = coordinator.wait_for("a connection", rank_event(RankEvent::kConnected, rank)).rank_event();
    pids.push_back(static_cast<pid_t>(event.connected().pid()));
  }
  coordinator.kill(2, "fake", 1);
  CHECK(coordinator.wait_for_done(2).ok());
  for (const auto pid : pids) CHECK_FALSE(FakeCoordinator::is_alive(pid));
  const auto& exited = coordinator.wait_for("the end", rank_event(RankEvent::kExited, 0)).rank_event().exited();
  CHECK(exited.signal() == SIGTERM);
}

TEST_CASE(
    "a rank in a container is the rank that it says it is, although its PID there is 1, and ends with its launch") {
  if (!makes_containers()) {
    WARN("this machine makes no containers with unshare: nothing was shown");
    return;
  }
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello();
  auto job = coordinator.job();
  job.train.insert(job.train.begin(), kInContainer.begin(), kInContainer.end());
  coordinator.launch(1, job, {0, 1}, 1);
  std::vector<pid_t> pids;
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto& event = coordinator.wait_for("a connection", rank_event(RankEvent::kConnected, rank)).rank_event();
    pids.push_back(static_cast<pid_t>(event.connected().pid()));
    CHECK(FakeCoordinator::is_alive(pids.back()));  // as it is called outside
    coordinator.wait_for("a step", rank_event(RankEvent::kStep, rank));
  }
  CHECK(pids[0] != pids[1]);
  coordinator.kill(2, "fake", 1);
  CHECK(coordinator.wait_for_done(2).ok());
  for (const auto pid : pids) CHECK_FALSE(FakeCoordinator::is_alive(pid));
  coordinator.wait_for("the end", rank_event(RankEvent::kExited, 0));
}

TEST_CASE("what the coordinator sends is bounded: a frame of empty entries ends the link, and the log says why") {
  FakeCoordinator coordinator;
  const std::string log = coordinator.directory / "agent.log";
  coordinator.start_agent({{"--log-file", log}, {"--log-level", "debug"}});
  coordinator.wait_for_hello();
  coordinator.send_bytes(test::hollow_of_8_mib({"UnfinishedJobs.jobs", 40, 2}));
  coordinator.wait_for_hello(2);
  const std::string not_utf8 = test::tag(2) + std::string("\x02\xff\xfe");
  coordinator.send_bytes(test::tag(3) + test::varint(not_utf8.size()) + not_utf8);
  coordinator.wait_for_hello(3);
  const std::string said = read_file(log).value();
  CHECK_THAT(said, Catch::Contains("what it sends is refused: a frame of 838") &&
                       Catch::Contains("has more than 65536 entries of UnfinishedJobs.jobs"));
  CHECK_THAT(said, Catch::Contains(" debug protobuf: ") && Catch::Contains("bytes is not a message"));
}
