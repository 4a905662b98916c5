// What a link's own counters say beside a change of the steps: who is named, and what is measured again.

#include "tuning/hardware/link_faults.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "../fake_world.hpp"
#include "tuning/search/search_task.hpp"
#include "tuning/state.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

LinkFault fault_of(const std::string& node, const std::string& link) {
  LinkFault fault;
  fault.node = node;
  fault.link = link;
  fault.reading = "up";
  fault.what = "is not active, and was";
  fault.confidence = 0.999;
  fault.across = true;
  return fault;
}

FakeWorld training_world() {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.steps = 20'000;
  FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}}, 5, 0.01);
  one.faults.probes = {{-1, "n0", "n1", "inter_node", 10}};
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; }));
  const std::int64_t known = one.state().step + 100;
  REQUIRE(one.run([&] { return one.state().step >= known; }));
  return one;
}

const Drift& drift_of(FakeWorld& one, double slowdown) {
  one.faults.slowdown = slowdown;
  const std::size_t before = one.state().hardware.drifts.size();
  const auto is_handled = [&] {
    const auto& drifts = one.state().hardware.drifts;
    return drifts.size() > before && drifts.back().handled;
  };
  REQUIRE(one.run(is_handled, 400'000));
  return one.state().hardware.drifts.back();
}

}  // namespace

TEST_CASE("a fault keeps the step at which it was told first, as long as it stands", "[link_faults]") {
  std::vector<LinkFault> known;
  const LinkFault one = fault_of("n0", "port 1 of mlx5_0");
  CHECK(take_faults({one}, 10, known).size() == 1);
  known[0].doubts = true;
  CHECK(take_faults({fault_of("n1", "port 1 of mlx5_0"), one}, 20, known).size() == 1);
  CHECK(known[0].step == 20);
  CHECK(known[1].step == 10);
  CHECK(known[1].doubts);
  CHECK(take_faults({}, 30, known).empty());
  CHECK(known.empty());
  CHECK(take_faults({one}, 40, known).size() == 1);
  CHECK(known[0].step == 40);
}

TEST_CASE("the links of exactly the nodes that have a fault are doubtful", "[link_faults]") {
  LinkFault across = fault_of("n1", "port 1 of mlx5_0");
  LinkFault within = fault_of("n2", "NVLink 0 of GPU 5");
  within.across = false;
  within.within = true;
  within.device = 5;
  const std::vector<std::string> nodes{"n0", "n1", "n2"};
  CHECK(doubtful_pairs({across, within}, nodes).empty());
  across.doubts = within.doubts = true;
  const std::map<NodePair, std::int32_t> wanted{{{"n0", "n1"}, -1}, {{"n1", "n2"}, -1}, {{"n2", "n2"}, 5}};
  CHECK(doubtful_pairs({across, within}, nodes) == wanted);
  CHECK(doubtful_pairs({across}, {"n0", "n2"}).empty());  // the job has left n1
}

TEST_CASE("a drift names the link whose counters got worse with it, and what goes over it is doubtful",
          "[link_faults]") {
  FakeWorld one = training_world();
  one.faults.links = {fault_of("n1", "port 1 of mlx5_0")};
  const Drift& drift = drift_of(one, 1.5);
  INFO(one.history());
  CHECK(drift.what == "port 1 of mlx5_0 of node n1 is not active, and was");
  CHECK(drift.confidence == 0.999);
  CHECK(drift.doubts);
  CHECK(one.history().find("99.9 % sure: port 1 of mlx5_0 of node n1") != std::string::npos);
  CHECK(std::ranges::any_of(one.decisions, [](const Decision& of) {
    return of.what == "tune again" && of.why.find("port 1 of mlx5_0 of node n1") != std::string::npos;
  }));
  const SearchTask task = search_task(one.state());
  CHECK(task.doubted == std::map<NodePair, std::int32_t>{{{"n0", "n1"}, -1}});
  CHECK(task.link_changes.pairs == std::map<NodePair, LinkChange>{{{"n0", "n1"}, LinkChange{}}});
  const auto kept = parse_tuning_state(to_json(one.state()));
  REQUIRE(kept.ok());
  CHECK(search_task(*kept).doubted == task.doubted);
  // It is what it was: nobody doubts it any longer.
  one.faults.links.clear();
  (void)drift_of(one, 1);
  CHECK(search_task(one.state()).doubted.empty());
}

TEST_CASE("a probe and counters that agree are told together", "[link_faults]") {
  FakeWorld one = training_world();
  one.faults.links = {fault_of("n1", "port 1 of mlx5_0")};
  one.faults.probes.back().ms = 20;
  const Drift& drift = drift_of(one, 1.5);
  CHECK(drift.what ==
        "the link of node n0 to n1 is at 50 % of its bandwidth; port 1 of mlx5_0 of node n1 is not active, and was");
  CHECK(drift.links);
}

TEST_CASE("a fault that was there before, or steps that got faster, blame no link", "[link_faults]") {
  const bool was_there = GENERATE(true, false);
  FakeWorld one = training_world();
  if (!was_there) (void)drift_of(one, 2);
  one.faults.links = {fault_of("n1", "port 1 of mlx5_0")};
  if (was_there) {
    one.feed(HardwareProbed{one.faults.probes, "", one.state().incumbent.hash, one.faults.links});
    CHECK(one.history().find("a link's own counters call it worse than it was") != std::string::npos);
    const std::int64_t later = one.state().step + 100;
    REQUIRE(one.run([&] { return one.state().step >= later; }));
  }
  const Drift& drift = drift_of(one, was_there ? 1.5 : 1);
  INFO(one.history());
  CHECK(drift.what.empty());
  CHECK(search_task(one.state()).doubted.empty());
}
