// After a drift the ranks measure again what it has made doubtful, between two steps; then plans are searched.

#include <algorithm>
#include <catch2/catch.hpp>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

DoubtfulItem message_item(std::int64_t bytes, double before_ns) {
  CostKey key;
  key.kind = CostKind::kCollective;
  key.subject = "all_reduce";
  key.bytes = bytes;
  key.group_size = 2;
  key.placement = "inter_node";
  return {{{key, before_ns, 2 * before_ns}}, {}, {}, -1};
}

DoubtfulItem operator_item(std::int32_t device) {
  CostKey key;
  key.kind = CostKind::kOperatorForward;
  key.subject = "attention";
  key.samples = 2;
  return {{{key, 4e6, 8e6}}, {}, {}, device};
}

Doubtful doubtful_link() {
  return {5, {message_item(1 << 20, 10e6), message_item(1 << 10, 1e6)}, "{\"items\":[]}"};
}

FakeWorld training_world(Nanoseconds pause = TrialSettings().measure_again) {
  Job job = fake_job();
  job.trials.measure_again = pause;
  job.trials.stop_after = false;
  job.steps = 6000;
  FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}}, 5, 0.01);
  one.faults.probes = {
      {0, "n0", "", "", 10, "clock"}, {1, "n1", "", "", 10, "clock"}, {-1, "n0", "n1", "inter_node", 10}};
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; }));
  const std::int64_t known = one.state().step + 100;
  REQUIRE(one.run([&] { return one.state().step >= known; }));
  return one;
}

void slow_link(FakeWorld& one) {
  one.faults.slowdown = 1.5;
  one.faults.probes.back().ms = 20;
  one.faults.doubtful = doubtful_link();
}

bool tuned_again(const FakeWorld& one) {
  const auto& state = one.state();
  return state.hardware.retuned_step > 0 && state.phase == Phase::kTraining && state.doing == Doing::kNothing;
}

}  // namespace

TEST_CASE("ranks measure once, before the same step, and the search is priced with it", "[again]") {
  FakeWorld one = training_world();
  slow_link(one);
  one.faults.measured_times = 1.5;
  bool searched_before = false;
  one.after_event = [&] {
    const bool searches = one.state().phase == Phase::kTrials && one.state().doing == Doing::kSearching;
    searched_before = searched_before || (searches && one.pauses().empty());
  };
  REQUIRE(one.run([&] { return tuned_again(one); }));
  INFO(one.history());
  CHECK_FALSE(searched_before);
  REQUIRE(one.pauses().size() == 1);
  const Drift& drift = one.state().hardware.drifts.back();
  CHECK(drift.again.doubtful == 5);
  CHECK(drift.again.step == one.pauses().front());
  CHECK(drift.again.took_ms == Approx(800));
  REQUIRE(drift.again.costs.size() == 2);
  CHECK(drift.again.costs[0].now_ns() == Approx(30e6));
  CHECK(drift.again.costs[0].values.size() == 4);
  CHECK(one.search_task().measured_again.size() == 2);
  CHECK(one.state().hardware.measurings_ms == Approx(800));
  CHECK(one.state().overhead_ms() >= 800);
  CHECK(one.history().find("2 of 5 doubtful costs were measured again before step") != std::string::npos);
  CHECK(one.history().find("30.0 ms (20.0 ms expected, 10.0 ms before)") != std::string::npos);
}

TEST_CASE("what was measured survives the coordinator, and ends with the next change", "[again]") {
  FakeWorld one = training_world();
  slow_link(one);
  REQUIRE(one.run([&] { return tuned_again(one); }));
  one.restart_coordinator(false);
  REQUIRE(one.search_task().measured_again.size() == 2);
  CHECK(one.search_task().measured_again[1].now_ns() == Approx(2e6));
  const std::int64_t known = one.state().step + 600;
  REQUIRE(one.run([&] { return one.state().step >= known; }));
  one.faults.slowdown = 1;
  one.faults.probes.back().ms = 10;
  one.faults.doubtful = {};
  REQUIRE(one.run([&] { return one.state().hardware.drifts.size() == 2 && tuned_again(one); }));
  INFO(one.history());
  CHECK(one.search_task().measured_again.empty());
  CHECK(one.pauses().size() == 1);
}

TEST_CASE("where ranks cannot measure, or do not, plans are searched with what is known", "[again]") {
  FakeWorld one = training_world();
  const std::string what = GENERATE("a rank cannot", "a rank does not hear", "nothing fits");
  slow_link(one);
  if (what == "a rank cannot") one.faults.no_measures = {1};
  if (what == "a rank does not hear") one.faults.unasked = {0};
  if (what == "nothing fits") one.faults.doubtful.items.clear();
  REQUIRE(one.run([&] { return tuned_again(one); }));
  INFO(what << "\n" << one.history());
  CHECK(one.pauses().empty());
  const Drift& drift = one.state().hardware.drifts.back();
  CHECK(drift.again.doubtful == 5);
  CHECK(drift.again.costs.empty());
  CHECK(drift.again.left.find("The job's benchmark command (benchmark) measures them") != std::string::npos);
  CHECK(std::ranges::any_of(one.decisions, [](const Decision& of) { return of.what == "search with doubtful costs"; }));
  CHECK(one.state().trials.size() == 3);  // one since
}

TEST_CASE("where no pause is wanted nothing is measured again, nor told of", "[again]") {
  FakeWorld one = training_world(Nanoseconds{0});
  slow_link(one);
  REQUIRE(one.run([&] { return tuned_again(one); }));
  INFO(one.history());
  CHECK(one.pauses().empty());
  CHECK_FALSE(one.state().hardware.drifts.back().doubts);
  CHECK(one.history().find("doubtful") == std::string::npos);
}

TEST_CASE("a coordinator that goes while ranks measure asks the next ones again, and they measure once more",
          "[again]") {
  FakeWorld one = training_world();
  slow_link(one);
  one.faults.unasked = {0};
  REQUIRE(one.run([&] { return one.state().hardware.measurings == 1; }));
  REQUIRE(one.state().doing == Doing::kProbing);
  one.restart_coordinator(GENERATE(true, false));
  one.faults.unasked.clear();
  REQUIRE(one.run([&] { return tuned_again(one); }));
  INFO(one.history());
  CHECK(one.pauses().size() == 1);
  CHECK(one.state().hardware.measurings == 2);
  CHECK(one.state().hardware.drifts.back().again.costs.size() == 2);
}

TEST_CASE("a device is priced as its operators have shown it, and not as slow where they take what they took",
          "[again]") {
  const bool is_slow = GENERATE(true, false);
  Machine machine{TuningState{}};
  machine.state.hardware.slow_devices = {{0, 0.7}, {1, 0.5}};
  machine.state.hardware.drifts.emplace_back();
  const DoubtfulCost cost = operator_item(1).costs.front();
  Remeasured again{4, 9, 800, {{cost.key, {}, 1, 4e6, 8e6, {is_slow ? 10'000'000 : 4'000'000}, 4e6}}, ""};
  machine.hardware.take_measured(again);
  const auto& slow = machine.state.hardware.slow_devices;
  CHECK(slow.at(0) == 0.7);
  CHECK(slow.contains(1) == is_slow);
  if (is_slow) CHECK(slow.at(1) == Approx(0.4));
  const bool told = machine.out.notes.back().text.find("device 1 is not slow") == 0;
  CHECK(told != is_slow);
}

TEST_CASE("a freeze in the pause leaves the job training", "[again]") {
  FakeWorld one = training_world();
  slow_link(one);
  one.faults.unasked = {0};
  REQUIRE(one.run([&] { return one.state().hardware.measurings == 1; }));
  one.feed(Order::kFreeze);
  const std::int64_t later = one.state().step + 50;
  REQUIRE(one.run([&] { return one.state().step >= later; }));
  CHECK(one.pauses().empty());
  CHECK(one.running_plan() == one.state().incumbent.hash);
  one.feed(Order::kUnfreeze);
  REQUIRE(one.run([&] { return tuned_again(one); }));
  INFO(one.history());
  CHECK(one.state().hardware.drifts.back().again.left.find("did not answer") != std::string::npos);
}
