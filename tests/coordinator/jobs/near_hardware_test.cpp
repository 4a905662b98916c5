#include "jobs/near_hardware.hpp"

#include <catch2/catch.hpp>

#include "../fake_agent.hpp"
#include "../near_world.hpp"
#include "base/clock.hpp"
#include "jobs/cost_needs.hpp"
#include "tuner/cost_choice.hpp"
#include "tuning/tuning.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using test::near_costs;
using test::near_fingerprint;
using test::near_needed;

namespace {

// Databases of hardware by its driver.
struct Known {
  TemporaryDirectory directory;
  CostDatabase costs = CostDatabase::open(directory.path() + "/costs.db", OpenMode::kCreate).value();
  std::uint64_t batches = 0;

  void add(const Fingerprint& of, const std::vector<Cost>& measured) {
    REQUIRE(costs.add_batch({"o", ++batches}, of, to_text(CostSource{}), measured).ok());
  }
  [[nodiscard]] std::string nearest(const std::string& driver) const {
    const auto found = find_near(costs, near_fingerprint(driver), test::near_model(), test::near_cluster(), Knobs{});
    return found ? found->found.fingerprint : "";
  }
};

const NearFound kFound{"0123456789abcdef", "driver 2 instead of 1", 0.1};

tuner::NearHardware known_hardware() {
  return {kFound.fingerprint, kFound.doubt, near_costs(near_needed())};
}

CostsCounted counted(const std::vector<Cost>& known, bool decided) {
  return count_costs_near(test::near_model(), test::near_cluster(), Knobs{}, known, kFound, known_hardware(), decided);
}

std::vector<CostKey> probes() {
  return tuner::near_probes(test::near_model(), near_needed(), known_hardware());
}

bool is_pass(const CostKey& key) {
  return key.kind == CostKind::kOperatorForward || key.kind == CostKind::kOperatorBackward;
}

// A machine that profiles, and what it does.
struct ProfilingJob {
  ManualClock clock;
  Tuning tuning;
  std::vector<Action> actions;

  explicit ProfilingJob(TuningState state) : tuning(std::move(state)) {
    take(tuning.begin(now()));
    feed(NodesReady{{{"n0", 0, 2}}, test::near_cluster(), "f"});
    feed(CommandFinished{"describe", true, "", to_json(test::near_model())});
  }
  [[nodiscard]] Moment now() const { return {clock.monotonic(), clock.wall()}; }
  void take(const Outcome& told) { std::ranges::copy(told.actions, std::back_inserter(actions)); }
  void feed(const Event& event) { take(tuning.handle(event, now())); }
  template <typename Wanted>
  [[nodiscard]] std::vector<Wanted> take_all() {
    std::vector<Wanted> found;
    for (const Action& action : std::exchange(actions, {})) {
      if (const auto* one = std::get_if<Wanted>(&action)) found.push_back(*one);
    }
    return found;
  }
  [[nodiscard]] const ProfilingState& profiling() const { return tuning.state().profiling; }
};

TuningState profiling_job() {
  TuningState state;
  state.job.name = "small";
  state.job.world_size = 2;
  state.job.describe = {"describe"};
  state.job.benchmark = {"benchmark"};
  state.job.train = {"train"};
  state.tune = false;
  return state;
}

}  // namespace

TEST_CASE("of near hardware the nearest counts that knows enough of what is needed") {
  Known known;
  const std::vector<Cost> all = near_costs(near_needed());
  const std::vector<Cost> few(all.begin(), all.begin() + 3);
  CHECK(known.nearest("560.5").empty());
  Fingerprint other = near_fingerprint("560.4");
  other.device["cpu"] = "another";
  known.add(other, all);
  known.add(near_fingerprint("560.5"), few);  // itself
  CHECK(known.nearest("560.5").empty());
  known.add(near_fingerprint("550.1"), all);
  CHECK(known.nearest("560.5") == hash(near_fingerprint("550.1")));
  known.add(near_fingerprint("560.2"), few);
  CHECK(known.nearest("560.5") == hash(near_fingerprint("550.1")));
  known.add(near_fingerprint("560.2"), all);
  CHECK(known.nearest("560.5") == hash(near_fingerprint("560.2")));
}

TEST_CASE("a few costs are asked for first, then what they leave") {
  const CostsCounted first = counted({}, false);
  CHECK(first.near.probing);
  CHECK(first.near.probes_missing == static_cast<std::int32_t>(probes().size()));
  CHECK(first.missing == static_cast<std::int32_t>(near_needed().size()));
  CHECK(first.requests.size() == 1);
  const CostsCounted measured = counted(near_costs(probes()), false);
  CHECK(measured.near.probing);
  CHECK(measured.near.probes_missing == 0);
  const CostsCounted same = counted(near_costs(probes()), true);
  CHECK_FALSE(same.near.probing);
  CHECK(same.missing == 0);
  CHECK(same.requests.empty());
  CHECK(same.known == static_cast<std::int32_t>(probes().size()));
  CHECK(same.near.taken_over == static_cast<std::int32_t>(near_needed().size() - probes().size()));
  int number = 0;
  const auto scattered = [&number](const CostKey& key) { return is_pass(key) && ++number % 2 == 0 ? 1.6 : 1.0; };
  const CostsCounted other = counted(near_costs(probes(), scattered), true);
  CHECK(other.missing > 0);
  CHECK(other.near.taken_over > 0);
  CHECK(other.missing + other.near.taken_over + other.known == static_cast<std::int32_t>(near_needed().size()));
  CHECK_FALSE(other.requests.empty());
}

TEST_CASE("near hardware that would save little is not asked about") {
  tuner::NearHardware poor{kFound.fingerprint, kFound.doubt, {}};
  const CostsCounted all = count_costs_near(test::near_model(), test::near_cluster(), Knobs{}, {}, kFound, poor, false);
  CHECK_FALSE(all.near.probing);
  CHECK(all.near.found.fingerprint.empty());
  CHECK(all.requests.size() == count_costs(test::near_model(), test::near_cluster(), Knobs{}, {}).requests.size());
}

TEST_CASE("a job measures probes, then what they refute, each under a number of its own") {
  ProfilingJob machine(profiling_job());
  machine.feed(counted({}, false));
  auto benchmarks = machine.take_all<BenchmarkOn>();
  REQUIRE(benchmarks.size() == 1);
  CHECK(benchmarks[0].tag == "benchmark/0/n0");
  CHECK(machine.profiling().costs_wanted == static_cast<std::int32_t>(probes().size()));
  machine.feed(CommandFinished{"benchmark/0/n0", true, "", ""});
  CHECK(machine.take_all<CountCosts>().size() == 1);
  // Its costs are still on their way.
  const auto scattered = [](const CostKey& key) { return is_pass(key) && key.samples > 1 ? 1.6 : 1.0; };
  const std::vector<Cost> measured = near_costs(probes(), scattered);
  machine.feed(counted({measured.begin(), measured.begin() + 2}, false));
  CHECK_FALSE(machine.profiling().near.decided);
  machine.feed(counted(measured, false));
  CHECK(machine.profiling().near.decided);
  CHECK(machine.take_all<CountCosts>().size() == 1);
  const CostsCounted left = counted(measured, true);
  REQUIRE(left.missing > 0);
  machine.feed(left);
  benchmarks = machine.take_all<BenchmarkOn>();
  REQUIRE(benchmarks.size() == 1);
  CHECK(benchmarks[0].tag == "benchmark/1/n0");
  CHECK(machine.profiling().costs_wanted == static_cast<std::int32_t>(probes().size()) + left.missing);
  CHECK(machine.profiling().near.taken_over == left.near.taken_over);
  CHECK(machine.tuning.progress().done == machine.tuning.progress().total - left.missing);
  for (std::int32_t i = 1; std::cmp_less(i, machine.profiling().requests.size()); ++i) {
    machine.feed(CommandFinished{"benchmark/" + std::to_string(i) + "/n0", true, "", ""});
  }
  CostsCounted done = left;
  done.missing = 0;
  machine.feed(done);
  CHECK(machine.tuning.state().phase == Phase::kFinished);
}

TEST_CASE("probes that cannot be measured are given up, and all is measured") {
  ProfilingJob machine(profiling_job());
  machine.feed(counted({}, false));
  machine.feed(CommandFinished{"benchmark/0/n0", false, "no such operator", ""});
  machine.feed(counted({}, false));
  CHECK_FALSE(machine.profiling().near.decided);
  machine.clock.advance(std::chrono::minutes(1));
  machine.feed(counted({}, false));
  CHECK(machine.profiling().near.decided);
  const CostsCounted all = counted({}, true);
  CHECK(all.missing == static_cast<std::int32_t>(near_needed().size()));
  CHECK(all.near.taken_over == 0);
  (void)machine.take_all<BenchmarkOn>();
  machine.feed(all);
  CHECK(machine.take_all<BenchmarkOn>().size() == 1);
}

TEST_CASE("a benchmark that tells no launches is asked once, and the passes' old prices stand") {
  const auto count = [](const std::vector<Cost>& known) {
    return count_costs(test::near_model(), test::near_cluster(), Knobs{}, known, {}, true);
  };
  const CostsCounted old = count(near_costs(near_needed()));
  CHECK(old.missing == static_cast<std::int32_t>(near_needed(true).size() - near_needed().size()));
  CHECK(old.launches_missing == old.missing);
  CHECK(count({}).launches_missing == 0);  // each comes with its pass
  ProfilingJob machine(profiling_job());
  machine.feed(old);
  CHECK(machine.take_all<BenchmarkOn>().size() == 1);
  for (std::int32_t i = 0; std::cmp_less(i, machine.profiling().requests.size()); ++i) {
    machine.feed(CommandFinished{"benchmark/" + std::to_string(i) + "/n0", true, "", ""});
  }
  CHECK(machine.profiling().launches_untold == 0);  // costs may be on their way
  machine.clock.advance(std::chrono::minutes(1));
  machine.feed(old);
  CHECK(machine.tuning.state().phase == Phase::kFinished);
  CHECK(machine.profiling().launches_untold == old.missing);
}

TEST_CASE("a benchmark that failed is not said to tell no launches") {
  const CostsCounted old =
      count_costs(test::near_model(), test::near_cluster(), Knobs{}, near_costs(near_needed()), {}, true);
  ProfilingJob machine(profiling_job());
  machine.feed(old);
  for (std::int32_t i = 0; std::cmp_less(i, machine.profiling().requests.size()); ++i) {
    machine.feed(CommandFinished{"benchmark/" + std::to_string(i) + "/n0", false, "out of memory", ""});
  }
  machine.clock.advance(std::chrono::minutes(1));
  machine.feed(old);
  CHECK(machine.profiling().launches_untold == 0);
}

TEST_CASE("probes whose launches were not told spare the benchmark the question for all others") {
  const tuner::NearHardware near{kFound.fingerprint, kFound.doubt, near_costs(near_needed(true))};
  const auto asked = tuner::near_probes(test::near_model(), near_needed(true), near);
  const auto counted_with = [&](const std::vector<CostKey>& measured, bool decided) {
    return count_costs_near(test::near_model(), test::near_cluster(), Knobs{}, near_costs(measured), kFound, near,
                            decided, true);
  };
  std::vector<CostKey> passes = asked;
  std::erase_if(passes, [](const CostKey& key) { return key.is_launch(); });
  REQUIRE(passes.size() < asked.size());
  CHECK(counted_with(asked, true).missing == 0);
  CHECK(counted_with(asked, true).launches_untold == 0);
  CHECK(counted_with(passes, false).near.probes_missing == static_cast<std::int32_t>(asked.size() - passes.size()));
  const CostsCounted untold = counted_with(passes, true);
  CHECK(untold.missing == 0);
  CHECK(untold.launches_untold == static_cast<std::int32_t>(asked.size() - passes.size()));
  CHECK(untold.near.taken_over > 0);
  // Nothing at all was measured: nobody knows what the benchmark tells.
  CHECK(counted_with({}, true).launches_untold == 0);
  CHECK(counted_with({}, true).missing == static_cast<std::int32_t>(near_needed(true).size()));
}

TEST_CASE("a coordinator that restarts between probes and the rest asks under new numbers") {
  ProfilingJob machine(profiling_job());
  machine.feed(counted({}, false));
  machine.feed(CommandFinished{"benchmark/0/n0", true, "", ""});
  const auto stored = parse_tuning_state(to_json(machine.tuning.state()));
  REQUIRE(stored.ok());
  CHECK(stored->profiling.near.found.fingerprint == kFound.fingerprint);
  Tuning next(*stored);
  (void)next.resume(machine.now());
  const auto scattered = [](const CostKey& key) { return is_pass(key) && key.samples > 1 ? 1.6 : 1.0; };
  const std::vector<Cost> measured = near_costs(probes(), scattered);
  (void)next.handle(counted(measured, false), machine.now());
  std::string tag;
  const Outcome told = next.handle(counted(measured, true), machine.now());
  for (const Action& action : told.actions) {
    if (const auto* benchmark = std::get_if<BenchmarkOn>(&action)) tag = benchmark->tag;
  }
  CHECK(tag == "benchmark/1/n0");
}

TEST_CASE("what a job has taken over survives its coordinator, and states of earlier releases have nothing") {
  TuningState state = profiling_job();
  state.profiling.near.decided = state.profiling.near.counted = true;
  state.profiling.near.hardware = "f";
  state.profiling.near.found = kFound;
  state.profiling.near.taken_over = 12;
  state.profiling.near.findings = {{tuner::NearClass::kInterNode, tuner::NearVerdict::kScaled, 1.2, 0.04, 3}};
  const std::string written = to_json(state);
  const auto read = parse_tuning_state(written);
  REQUIRE(read.ok());
  CHECK(read->profiling.near.found.differences == kFound.differences);
  CHECK(read->profiling.near.taken_over == 12);
  REQUIRE(read->profiling.near.findings.size() == 1);
  CHECK(read->profiling.near.findings[0].verdict == tuner::NearVerdict::kScaled);
  CHECK(read->profiling.near.findings[0].of == tuner::NearClass::kInterNode);
  CHECK(describe(read->profiling.near) ==
        "12 costs are taken over from fingerprint 0123456789abcdef (driver 2 instead of 1): links between nodes 1.20 "
        "times what it was (± 8 %, 3 probes)");
  const std::size_t begin = written.find("\"near\":{");
  REQUIRE(begin != std::string::npos);
  std::string earlier = written;
  earlier.replace(begin, 7, "\"away\":");
  const auto old = parse_tuning_state(earlier);
  REQUIRE(old.ok());
  CHECK(old->profiling.near.found.fingerprint.empty());
  CHECK(old->profiling.near.taken_over == 0);
}

TEST_CASE("databases refuse costs that are taken over") {
  Known known;
  const auto taken = tuner::take_over(known_hardware(), {{tuner::NearClass::kComputation}});
  REQUIRE_FALSE(taken.empty());
  const auto stored = known.costs.add_batch({"o", 1}, near_fingerprint("2"), to_text(taken.front().source), taken);
  REQUIRE_FALSE(stored.ok());
  CHECK(stored.error().message.starts_with("costs that are taken over were not measured on this hardware"));
  CHECK(known.costs.rows()->empty());
}
