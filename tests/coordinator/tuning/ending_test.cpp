// A job that is asked to stop: whatever of it runs on nodes that can be reached has ended before the job has.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

FakeWorld training_world() {
  Job job = fake_job(JobMode::kObserve);
  job.trials.stop_after = false;
  FakeWorld one(job, three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining && one.state().step > 60; }));
  return one;
}

long kills_on(const FakeWorld& world, const std::string& node) {
  return std::ranges::count(world.kills, node, &KillOn::node);
}

}  // namespace

TEST_CASE("a job that is stopped while a node is away ends its ranks on the others", "[ending]") {
  FakeWorld one = training_world();
  one.lose_node("n1");
  one.feed(Order::kStop);
  CHECK_FALSE(is_final(one.state().phase));  // n0 has not confirmed
  REQUIRE(one.run([] { return false; }, 100));
  INFO(one.history());
  CHECK(one.state().phase == Phase::kStopped);
  CHECK(kills_on(one, "n0") == 1);
  CHECK(kills_on(one, "n1") == 0);
}

TEST_CASE("a node that comes back while a stopped job ends has its ranks ended, too", "[ending]") {
  FakeWorld one = training_world();
  one.lose_node("n1");
  one.feed(Order::kStop);
  one.return_node("n1");
  CHECK_FALSE(is_final(one.state().phase));
  REQUIRE(one.run([] { return false; }, 100));
  CHECK(one.state().phase == Phase::kStopped);
  CHECK(kills_on(one, "n0") == 1);
  CHECK(kills_on(one, "n1") >= 1);  // the same command, maybe asked twice
}

TEST_CASE("a job that is stopped ends though the node that was lost meanwhile never answers", "[ending]") {
  FakeWorld one = training_world();
  one.lose_node("n1");
  one.feed(Order::kStop);
  one.lose_node("n0");
  REQUIRE(one.run([] { return false; }, 1000));
  CHECK(one.state().phase == Phase::kStopped);
}

TEST_CASE("a job that is stopped while it is profiled ends its benchmarks and waits for their end", "[ending]") {
  FakeWorld one(fake_job(), three_plans(), 3, 0.03);
  one.faults.benchmarks_take_long = true;
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kProfiling && !one.state().outstanding.empty(); }));
  one.feed(Order::kStop);
  CHECK_FALSE(is_final(one.state().phase));
  REQUIRE(one.run([] { return false; }, 100));
  INFO(one.history());
  CHECK(one.state().phase == Phase::kStopped);
  REQUIRE(one.kills.size() == 2);
  // Of all launches: there was none yet.
  CHECK(std::ranges::all_of(one.kills, [](const KillOn& kill) { return kill.launch == 0; }));
}

TEST_CASE("a coordinator that restarts while a stopped job's benchmarks end goes on ending them", "[ending]") {
  FakeWorld one(fake_job(), three_plans(), 3, 0.03);
  one.faults.benchmarks_take_long = true;
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kProfiling && !one.state().outstanding.empty(); }));
  one.feed(Order::kStop);
  one.restart_coordinator(true);
  REQUIRE(one.run([] { return false; }, 100));
  CHECK(one.state().phase == Phase::kStopped);
  CHECK(one.kills.size() == 2);
}

TEST_CASE("a job whose tuning is over ends without a node that is lost for good", "[ending]") {
  FakeWorld one(fake_job(), three_plans(), 7, 0.03);
  one.begin();
  const Phase last = GENERATE(Phase::kStopping, Phase::kUntuned);
  REQUIRE(one.run([&] { return one.state().phase == last; }));
  one.lose_node("n1");
  REQUIRE(one.run([] { return false; }, 1000));
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK_THAT(one.state().loss_note, Catch::Contains("a node was lost for good"));
  CHECK(kills_on(one, "n0") >= 1);
}
