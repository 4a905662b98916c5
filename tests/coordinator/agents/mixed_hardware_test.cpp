// A job that begins on nodes of several hardware fingerprints.

#include "jobs/cost_needs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "../agents_world.hpp"
#include "../fake_world.hpp"
#include "schema/fingerprint.hpp"
#include "tuning/tuning.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Cost cost(CostKind kind, const std::string& subject, std::int64_t value) {
  Cost one;
  one.key.kind = kind;
  one.key.subject = subject;
  one.key.samples = 2;
  one.statistics.add(value);
  return one;
}

Cluster two_nodes() {
  Cluster two;
  two.nodes.push_back({"n0", "first", 1, 1000, 0});
  two.nodes.push_back({"n1", "second", 1, 1000, 0});
  return two;
}

// A job of a known model; then it is placed on these.
TuningState fresh() {
  TuningState state;
  state.job = fake_job();
  state.job.model_json = "{}";
  return state;
}

void place(Tuning& tuning) {
  (void)tuning.begin({});
  (void)tuning.handle(NodesReady{{{"n0", 0, 1}, {"n1", 1, 1}}, two_nodes(), "first"}, {});
}

}  // namespace

TEST_CASE("how fast other hardware computes is the middle of the model's operators that both were measured for",
          "[hardware]") {
  const std::vector<Cost> here{
      cost(CostKind::kOperatorForward, "a", 100),   cost(CostKind::kOperatorBackward, "a", 200),
      cost(CostKind::kOperatorForward, "b", 50),    cost(CostKind::kOperatorForward, "c", 10),
      cost(CostKind::kOperatorForward, "model", 5), cost(CostKind::kOperatorStoredBytes, "a", 1)};
  const std::vector<Cost> there{
      cost(CostKind::kOperatorForward, "a", 200),     cost(CostKind::kOperatorBackward, "a", 500),
      cost(CostKind::kOperatorForward, "b", 100),     cost(CostKind::kOperatorForward, "d", 1),
      cost(CostKind::kOperatorForward, "model", 500), cost(CostKind::kOperatorStoredBytes, "a", 100)};
  std::vector<CostKey> needed;  // all but what another model has taken
  for (const Cost& one : here) {
    if (one.key.subject != "model") needed.push_back(one.key);
  }
  const MeasuredSpeed there_beside = measured_speed(needed, here, there);
  CHECK(there_beside.speed == Approx(0.5));
  CHECK(there_beside.operators == 3);
  CHECK(there_beside.known == 4);
  CHECK(there_beside.is_sure());
  CHECK(measured_speed(needed, there, here).speed == Approx(2));
  const MeasuredSpeed few = measured_speed(needed, here, {cost(CostKind::kOperatorForward, "c", 1)});
  CHECK(few.operators == 1);
  CHECK_FALSE(few.is_sure());
  CHECK(measured_speed(needed, here, {}).operators == 0);
}

TEST_CASE("an operator's time is known when it is known of all hardware, its memory when it is of one", "[hardware]") {
  const std::vector<Cost> here{cost(CostKind::kOperatorForward, "a", 100), cost(CostKind::kOperatorForward, "b", 100),
                               cost(CostKind::kOperatorStoredBytes, "b", 1)};
  const std::vector<Cost> both = known_of_both(here, {cost(CostKind::kOperatorForward, "a", 7)});
  REQUIRE(both.size() == 2);
  CHECK(both[0].key.subject == "a");
  CHECK(both[0].statistics.mean() == 100);
  CHECK(both[1].key.kind == CostKind::kOperatorStoredBytes);
}

TEST_CASE("a job on mixed hardware is searched with the speed that benchmarks measured of the other", "[hardware]") {
  Tuning tuning(fresh());
  place(tuning);
  CHECK(tuning.state().hardware.unprobed_nodes == std::vector<std::string>{"n1"});
  REQUIRE(tuning.state().phase == Phase::kProfiling);
  const Outcome told = tuning.handle(CostsCounted{10, 0, {}, {}, "", "", {{"n1", 0.4}}}, {});
  CHECK(tuning.state().phase == Phase::kSearching);
  CHECK(tuning.state().hardware.unprobed_nodes.empty());
  CHECK(tuning.search_task().slow_devices == std::map<std::int32_t, double>{{1, 0.4}});
  CHECK(std::ranges::any_of(told.notes, [](const Note& one) {
    return one.text ==
           "node n1, which is of other hardware, computes the model's operators at 40.0 % of the others' speed";
  }));
}

TEST_CASE("nothing is taken of other hardware before the benchmarks have measured it", "[hardware]") {
  Tuning tuning(fresh());
  place(tuning);
  (void)tuning.handle(CostsCounted{1, 9, {"{}"}, {9}, "a", "", {{"n1", 0.9}}}, {});
  CHECK(tuning.state().hardware.unprobed_nodes == std::vector<std::string>{"n1"});
  for (const OutstandingCommand& one : std::vector<OutstandingCommand>(tuning.state().outstanding)) {
    (void)tuning.handle(CommandFinished{one.tag.text, true, "", ""}, {});
  }
  (void)tuning.handle(CostsCounted{10, 0, {}, {}, "", "", {{"n1", 0.4}}}, {});
  CHECK(tuning.search_task().slow_devices == std::map<std::int32_t, double>{{1, 0.4}});
}

TEST_CASE("what computes faster than the costs say is taken as they say, and what has none is left to a probe",
          "[hardware]") {
  Tuning tuning(fresh());
  place(tuning);
  const bool measured = GENERATE(true, false);
  CostsCounted counted{10, 0, {}, {}, "", ""};
  if (measured) counted.speeds = {{"n1", 1.5}};
  (void)tuning.handle(counted, {});
  CHECK(tuning.search_task().slow_devices.empty());
  CHECK(tuning.state().hardware.unprobed_nodes.empty() == measured);
}

TEST_CASE("costs of a job's other hardware are stored as its own, and are not the job's", "[hardware]") {
  World world;
  JobRun& job = world.submit("gpt");
  TuningState profiling = job.state();
  profiling.phase = Phase::kProfiling;
  profiling.fingerprint = "first";
  profiling.cluster = two_nodes();
  JobRun run(job.run(), profiling, {}, world.services.for_jobs);
  run.stored(benchmarked("n1", "second of the job"));
  CHECK(run.state().fingerprint == "first");
  CHECK(world.costs.fact("second", "job_fingerprint/gpt").value() == "\"second of the job\"");
  run.stored(benchmarked("n0", "first of the job"));
  CHECK(run.state().fingerprint == "first of the job");
  // What sets the nodes apart is nothing to this job.
  run.stored(benchmarked("n1", "first of the job"));
  CHECK(world.costs.fact("second", "job_fingerprint/gpt").value() == "\"first of the job\"");
}
