// The agent's program dies and another one takes over: nothing is lost, nothing runs twice.

#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>
#include <string>

#include "commands/scratch.hpp"
#include "fake_coordinator.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using wire::RankEvent;

namespace {

bool is_batch(const wire::FromAgent& message) {
  return message.has_cost_batch();
}

pid_t connected_pid(FakeCoordinator& coordinator, std::uint32_t rank) {
  const auto& event = coordinator.wait_for("a connection", rank_event(RankEvent::kConnected, rank)).rank_event();
  return static_cast<pid_t>(event.connected().pid());
}

// How many steps the rank has written down; they are one process's, one after the other.
std::size_t steps_of(const FakeCoordinator& coordinator, pid_t pid) {
  std::istringstream lines(read_file(coordinator.directory / "steps").value());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    REQUIRE(line == std::to_string(++count) + " " + std::to_string(pid));
  }
  return count;
}

}  // namespace

TEST_CASE("ranks train on while the agent is killed, and the next agent knows them") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello(1);
  coordinator.launch(1, coordinator.job(), {0, 1}, 1);
  const pid_t pid = connected_pid(coordinator, 0);
  connected_pid(coordinator, 1);
  const auto instance = coordinator.last_hello().instance();
  coordinator.kill_agent(SIGKILL);
  CHECK(coordinator.wait_for_agent() == -SIGKILL);
  CHECK(FakeCoordinator::is_alive(pid));
  coordinator.forget();
  coordinator.start_agent();
  coordinator.wait_for_hello(2);
  const auto hello = coordinator.last_hello();
  CHECK(hello.instance() == instance);
  REQUIRE(hello.running_size() == 2);
  CHECK(hello.running(0).job() == "fake");
  CHECK(hello.running(0).pid() == pid);
  CHECK(hello.running(0).launch() == 1);
  CHECK(hello.running(0).epoch() == 3);
  CHECK(connected_pid(coordinator, 0) == pid);
  const auto& step = coordinator.wait_for("a step", rank_event(RankEvent::kStep, 0)).rank_event();
  CHECK(step.launch() == 1);
  // The same launch again starts nothing: the command was done.
  coordinator.launch(1, coordinator.job(), {0, 1}, 1);
  CHECK(coordinator.wait_for_done(1).ok());
  coordinator.kill(2, "fake", 1);
  CHECK(coordinator.wait_for_done(2).ok());
  CHECK_FALSE(FakeCoordinator::is_alive(pid));
  coordinator.wait_for("the end", rank_event(RankEvent::kExited, 0));
  const auto trace = read_file(coordinator.directory / "trace").value();
  CHECK(trace.size() == std::string("train 0\ntrain 1\n").size());
}

TEST_CASE("ranks train on without a gap while their agent is replaced by one of another release") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello(1);
  const std::string release = coordinator.last_hello().release();
  Job job = coordinator.job();
  job.train.insert(job.train.end(), {"--step-log", coordinator.directory / "steps"});
  coordinator.launch(1, job, {0}, 1);
  const pid_t pid = connected_pid(coordinator, 0);
  coordinator.wait_for("a step", rank_event(RankEvent::kStep, 0));
  coordinator.kill_agent(SIGTERM);
  CHECK(coordinator.wait_for_agent() == 0);
  const std::size_t before = steps_of(coordinator, pid);
  coordinator.wait("steps without an agent", [&] { return steps_of(coordinator, pid) > before + 20; });
  coordinator.forget();
  coordinator.program = OTHER_AGENT_PROGRAM;
  coordinator.start_agent();
  coordinator.wait_for_hello(2);
  CHECK(coordinator.last_hello().release() != release);
  REQUIRE(coordinator.last_hello().running_size() == 1);
  CHECK(coordinator.last_hello().running(0).pid() == pid);
  CHECK(connected_pid(coordinator, 0) == pid);
  coordinator.wait_for("a step", rank_event(RankEvent::kStep, 0));
  // It does what it is told with ranks that the other one launched.
  coordinator.kill(2, "fake", 1);
  CHECK(coordinator.wait_for_done(2).ok());
  CHECK_FALSE(FakeCoordinator::is_alive(pid));
  CHECK(steps_of(coordinator, pid) > before + 20);
}

TEST_CASE("a batch that was not acknowledged comes again under its number after the agent was killed") {
  FakeCoordinator coordinator;
  coordinator.acknowledge_batches = false;
  coordinator.start_agent();
  coordinator.wait_for_hello(1);
  coordinator.benchmark(1, coordinator.job(), {0, 1});
  const auto first = coordinator.wait_for("a batch", is_batch).cost_batch();
  coordinator.wait_for_done(1);
  coordinator.kill_agent(SIGKILL);
  coordinator.wait_for_agent();
  coordinator.forget();
  coordinator.acknowledge_batches = true;
  coordinator.start_agent();
  coordinator.wait_for_hello(2);
  const auto second = coordinator.wait_for("the batch again", is_batch).cost_batch();
  CHECK(second.batch() == first.batch());
  CHECK(second.SerializeAsString() == first.SerializeAsString());
}

TEST_CASE("an agent that is told to stop leaves its ranks alone, unless it is to end them") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello(1);
  coordinator.launch(1, coordinator.job(), {0}, 1);
  const pid_t pid = connected_pid(coordinator, 0);
  coordinator.kill_agent(SIGTERM);
  CHECK(coordinator.wait_for_agent() == 0);
  CHECK(FakeCoordinator::is_alive(pid));
  coordinator.start_agent({{"--stop-ranks-on-exit", ""}});
  coordinator.wait_for_hello(2);
  coordinator.kill_agent(SIGTERM);
  CHECK(coordinator.wait_for_agent() == 0);
  CHECK_FALSE(FakeCoordinator::is_alive(pid));
}

TEST_CASE("a benchmark does not outlive the agent, and is run again when it is asked again") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello(1);
  auto job = coordinator.job();
  job.benchmark.push_back("--hang");
  coordinator.benchmark(1, job, {0}, 1.0);
  coordinator.wait_for("progress", [](const auto& message) { return message.has_command_progress(); });
  coordinator.kill_agent(SIGKILL);
  coordinator.wait_for_agent();
  coordinator.start_agent();
  coordinator.wait_for_hello(2);
  coordinator.benchmark(1, job, {0}, 1.0);
  CHECK_FALSE(coordinator.wait_for_done(1).ok());
  CHECK(read_file(coordinator.directory / "trace").value() == "benchmark 0\nbenchmark 0\n");
}

TEST_CASE("a second agent on the same state ends with one error and exit code 3") {
  FakeCoordinator coordinator;
  coordinator.start_agent();
  coordinator.wait_for_hello(1);
  FakeCoordinator other;
  other.start_agent({{"--state", coordinator.directory / "state"}});
  CHECK(other.wait_for_agent() == 3);
  FakeCoordinator third;
  third.start_agent({{"--socket", coordinator.directory / "agent.sock"}});
  CHECK(third.wait_for_agent() == 3);
}

TEST_CASE("wrong usage ends with exit code 2") {
  FakeCoordinator coordinator;
  coordinator.start_agent({{"--devices", "none"}});
  CHECK(coordinator.wait_for_agent() == 2);
}
