#include "tuning/trial/pass_times.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "../fake_world.hpp"
#include "report.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

TEST_CASE("a plan's pass times are means by rank, of the fewest steps that a rank told of", "[passes]") {
  PassTimes times;
  MeasuredPlan plan;
  plan.plan.hash = "a";
  times.tell(plan);
  CHECK(plan.pass_ms.empty());
  times.add("a", 0, 3, 10);
  times.add("a", 0, 3, 30);
  times.add("a", 2, 3, 7);
  times.add("b", 1, 3, 1000);
  times.tell(plan);
  CHECK(plan.pass_ms == std::vector<double>{20, 0, 7});
  CHECK(plan.pass_steps == 1);
  times.clear();
  times.tell(plan);
  CHECK(plan.pass_ms.size() == 3);  // what was known of it remains
}

TEST_CASE("what ranks spend in their passes goes with the plan that they ran, and survives the coordinator",
          "[passes]") {
  FakeWorld one(fake_job(), {{"initial", 100, 110}, {"best", 70, 80}}, 3, 0.02);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kMeasuring; }));
  const std::uint64_t launch = one.state().launch;
  const std::uint64_t epoch = one.state().launch_epoch;
  one.feed(FromRank{0, launch, RankPasses{epoch, 40}});
  one.feed(FromRank{1, launch, RankPasses{epoch, 60}});
  one.feed(FromRank{1, launch, RankPasses{epoch, 1e12}});     // cannot be
  one.feed(FromRank{1, launch, RankPasses{epoch + 77, 10}});  // of nobody's plan
  one.feed(FromRank{1, launch + 1, RankPasses{epoch, 10}});   // of no launch that there is
  REQUIRE(one.run([&] { return !one.state().trials.empty(); }));
  REQUIRE(!one.state().observations.empty());
  CHECK(one.state().observations[0].pass_ms == std::vector<double>{40, 60});
  const auto stored = parse_tuning_state(to_json(one.state()));
  REQUIRE(stored.ok());
  CHECK(stored->observations[0].pass_ms == std::vector<double>{40, 60});
  CHECK(stored->observations[0].pass_steps == 1);
  CHECK(one.tuning().search_task().observations[0].pass_ms.size() == 2);
}

namespace {

Plan plan_of(const std::vector<std::vector<std::int32_t>>& devices) {
  Plan plan;
  plan.global_batch = plan.microbatch = 1;
  std::int32_t at = 0;
  for (const auto& of : devices) {
    Segment segment;
    segment.operators = {at, at + 1};
    segment.dp = static_cast<std::int32_t>(of.size());
    plan.stages.push_back({of, {segment}});
    ++at;
  }
  return plan;
}

}  // namespace

TEST_CASE("where steps went is a mean by rank, and of a stage by its ranks that told of it", "[passes]") {
  PassTimes times;
  MeasuredPlan measured;
  measured.plan = {to_json(plan_of({{0, 1}, {2}})), "a"};
  times.add("a", 0, 3, 10);
  measured.terms = {{1, 0, 0, 0, 0}};
  times.tell(measured);
  CHECK(measured.terms.size() == 1);  // an agent of an earlier release: what was told before stays
  times.add_terms("a", 0, 3, {10, 0, 1, 2, 3}, {});
  times.add_terms("a", 0, 3, {20, 0, 3, 4, 5}, {});
  times.add_terms("a", 1, 3, {25, 0, 4, 0, 4}, {});
  times.tell(measured);
  CHECK(measured.terms == std::vector<StepTerms>{{20, 0, 3, 1.5, 4}, {}});
  const std::vector<StepTerms> by_rank{{15, 0, 2, 3, 4}, {25, 0, 4, 0, 4}, {}};
  CHECK(stage_terms(plan_of({{0, 1}, {2}}), {}).empty());
  CHECK(stage_terms(plan_of({{0, 7}}), by_rank) == std::vector<StepTerms>{{15, 0, 2, 3, 4}});  // more ranks than told
  // A device's step is all of its stages'.
  CHECK(stage_terms(plan_of({{0}, {1}, {0}}), by_rank) == std::vector<StepTerms>{{}, {25, 0, 4, 0, 4}, {}});
}

TEST_CASE("where steps went is stored with the plan and with its trial, and nonsense is not", "[passes]") {
  const std::string initial = to_json(plan_of({{0}, {1}}));
  const std::string best = to_json(plan_of({{1}, {0}}));
  FakeWorld one(fake_job(), {{initial, 100, 110}, {best, 70, 80}}, 3, 0.02);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kMeasuring; }));
  const std::uint64_t launch = one.state().launch;
  const std::uint64_t epoch = one.state().launch_epoch;
  one.feed(FromRank{0, launch, RankPasses{epoch, 40, StepTerms{40, 0, 10, 20, 30}}});
  one.feed(FromRank{0, launch, RankPasses{epoch, 40, StepTerms{40, 0, 1e12, 20, 30}}});  // cannot be
  one.feed(FromRank{1, launch, RankPasses{epoch, 60}});
  REQUIRE(one.run([&] { return !one.state().trials.empty(); }));
  const std::vector<StepTerms> wanted{{40, 0, 10, 20, 30}, {}};
  REQUIRE(!one.state().observations.empty());
  CHECK(one.state().observations[0].terms == wanted);
  const auto stored = parse_tuning_state(to_json(one.state()));
  REQUIRE(stored.ok());
  CHECK(stored->observations[0].terms == wanted);

  REQUIRE(one.run([&] { return one.running_plan() == best; }));
  const std::uint64_t tried = one.state().committed_epoch;
  const TermParts parts{2.0, 9.0, 12.0, std::nullopt};
  one.feed(FromRank{0, launch, RankPasses{tried, 30, StepTerms{30, 0, 5, 15, 20}, parts}});
  REQUIRE(one.run([&] { return one.state().trials.back().state == TrialState::kAdopted; }));
  const std::vector<StepTerms> of_trial{{}, {30, 0, 5, 15, 20}};
  CHECK(one.state().trials.back().measured_terms == of_trial);
  CHECK(parse_tuning_state(to_json(one.state()))->trials.back().measured_terms == of_trial);
  const std::vector<TermParts> parts_of_trial{{}, parts};
  CHECK(one.state().trials.back().measured_parts == parts_of_trial);
  CHECK(parse_tuning_state(to_json(one.state()))->trials.back().measured_parts == parts_of_trial);
}

TEST_CASE("parts of a step's terms are means over steps and ranks, each only where all tell it", "[passes]") {
  PassTimes times;
  const StepTerms terms{40, 0, 10, 20, 30};
  times.add_terms("p", 0, 3, terms, {1.0, 4.0, 6.0, std::nullopt});
  times.add_terms("p", 0, 3, terms, {3.0, 8.0, std::nullopt, std::nullopt});
  times.add_terms("p", 1, 3, terms, {4.0, std::nullopt, 8.0, std::nullopt});
  times.add_terms("p", 2, 3, terms, {});
  MeasuredPlan plan;
  plan.plan = {to_json(plan_of({{0, 1}, {2}})), "p"};
  times.tell(plan);
  REQUIRE(plan.parts.size() == 2);
  CHECK(plan.parts[0] == TermParts{3.0, std::nullopt, std::nullopt, std::nullopt});
  CHECK_FALSE(plan.parts[1].known());
  PassTimes untold;
  untold.add_terms("p", 0, 3, terms, {});
  plan.parts.clear();
  untold.tell(plan);
  CHECK(plan.parts.empty());
}

TEST_CASE("a trial's stages show what was predicted beside what was measured", "[passes]") {
  Trial trial;
  CHECK(trial_stages(trial).empty());
  trial.predicted_terms = {{40, 0, 10, 20, 30}, {50, 1, 2, 3, 4}};
  trial.measured_terms = {{41, 0, 11, 21, 31}, {}};
  trial.measured_parts = {{1.5, 7.0, std::nullopt, 0.0}, {}};
  const std::vector<api::TrialStage> stages = trial_stages(trial);
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].predicted.value().transfers_ms == 20);
  CHECK(stages[0].measured.value().transfers_ms == 21);
  CHECK(stages[0].measured.value().bubble_ms == 7.0);
  CHECK_FALSE(stages[0].measured.value().launch_bound_ms);
  CHECK(stages[0].measured.value().data_ms == 0.0);
  CHECK_FALSE(stages[0].predicted.value().bubble_ms);
  CHECK_FALSE(stages[0].predicted.value().launch_bound_ms);
  trial.predicted_terms[0].launching_ms = 12;
  CHECK(trial_stages(trial)[0].predicted.value().launch_bound_ms == 12);
  CHECK(stages[1].predicted.value().collectives_ms == 1);
  CHECK_FALSE(stages[1].measured);
}
