// Whole predictions of every cost model, against the texts of tests/tuner/golden: plans that a search finds, the usual
// guess, a plan that does not fit, and for the native model a plan with each knob that it prices.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "golden/answer_text.hpp"
#include "golden/golden_file.hpp"
#include "golden/worlds.hpp"
#include "papers/h3t/h3t_plan.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner::golden {
namespace {

std::string section(const std::string& what, const NamedWorld& of, const CostModel& model, const Plan& plan) {
  return "== " + std::string(model.name()) + ", " + what + ": " + of.name + "\n" + prediction_text(model, plan);
}

std::vector<RankedPlan> plans_of(const CostModel& model, const std::string& strategy, const std::string& space,
                                 std::size_t plans, std::vector<std::string> without = {}) {
  SearchOptions options;
  options.strategy = strategy;
  options.space = space;
  options.max_evaluations = 4000;
  options.plans = plans;
  options.without = std::move(without);
  return search(model, Knobs{}, options).value().result.plans;
}

// With a tenth of the memory that the plan's fullest stage needs.
NamedWorld tight(NamedWorld of, const Prediction& prediction) {
  Bytes most = 0;
  for (const StagePrediction& stage : prediction.stages) most = std::max(most, stage.memory_bytes);
  for (Node& node : of.world.cluster.nodes) node.memory_bytes = std::max<Bytes>(1, most / 10);
  return of;
}

std::string predictions(const Worlds& worlds, const std::string& cost_model, const std::string& strategy,
                        const std::string& space) {
  std::string text;
  std::size_t found = 0;
  for (const NamedWorld& of : worlds) {
    const std::unique_ptr<CostModel> model = of.model(cost_model);
    const std::vector<RankedPlan> plans = plans_of(*model, strategy, space, 10);
    if (plans.empty()) continue;
    ++found;
    const Plan& best = plans.front().plan;
    text += section("best", of, *model, best);
    text += section("tenth or last", of, *model, plans.back().plan);
    text += section("usual guess", of, *model, usual_guess(of.world.model, of.world.cluster, Knobs{}));
    const NamedWorld little = tight(of, plans.front().prediction);
    text += section("best with little memory", little, *little.model(cost_model), best);
  }
  INFO(cost_model);
  CHECK(2 * found >= worlds.size());
  return text;
}

// Something that a plan sets.
struct Feature {
  const char* name;
  bool (*has)(const Plan& plan);
};

template <typename Has>
bool any_segment(const Plan& plan, Has&& has) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return std::any_of(stage.segments.begin(), stage.segments.end(), has);
  });
}

template <ShardedLevel kLevel>
bool is_sharded(const Plan& plan) {
  return any_segment(plan, [](const Segment& segment) { return segment.sharded == kLevel; });
}

constexpr Feature kFeatures[] = {
    {"stages", [](const Plan& plan) { return plan.stages.size() > 1; }},
    {"tp", [](const Plan& plan) { return any_segment(plan, [](const Segment& of) { return of.tp > 1; }); }},
    {"recompute",
     [](const Plan& plan) { return any_segment(plan, [](const Segment& of) { return !of.recompute.empty(); }); }},
    {"alternate dimension",
     [](const Plan& plan) {
       return any_segment(plan, [](const Segment& of) { return !of.alternate_dimension.empty(); });
     }},
    {"mixed splits",
     [](const Plan& plan) {
       return std::any_of(plan.stages.begin(), plan.stages.end(),
                          [](const Stage& stage) { return stage.segments.size() > 1; });
     }},
    {"sharded optimizer", is_sharded<ShardedLevel::kOptimizer>},
    {"sharded gradients", is_sharded<ShardedLevel::kGradients>},
    {"sharded parameters", is_sharded<ShardedLevel::kParameters>},
    {"sliced", [](const Plan& plan) { return plan.schedule.sliced_microbatches > 0; }},
    {"sub-batches", [](const Plan& plan) { return plan.schedule.sub_batches > 1; }},
    {"cross pass", [](const Plan& plan) { return plan.schedule.cross_pass; }},
    {"recompute after communication", [](const Plan& plan) { return plan.schedule.recompute_after_communication; }},
};

struct Found {
  NamedWorld of;
  std::vector<RankedPlan> plans;
};

// Of worlds so small that a search meets every knob but the switches.
std::vector<Found> many_plans() {
  std::vector<Found> all;
  for (NamedWorld& of : split_worlds(7901, 6, {3, 2, 2})) {
    std::vector<RankedPlan> plans = plans_of(*of.model("native"), "exhaustive", "all", 1500, {"memory_switches"});
    all.push_back({std::move(of), std::move(plans)});
  }
  return all;
}

// The fastest plan with the feature, of the first `most` worlds that have one.
std::string featured(const std::vector<Found>& all, const Feature& feature, int most) {
  std::string text;
  for (const Found& found : all) {
    const auto first = std::find_if(found.plans.begin(), found.plans.end(),
                                    [&](const RankedPlan& ranked) { return feature.has(ranked.plan); });
    if (first == found.plans.end() || most == 0) continue;
    --most;
    text += section(feature.name, found.of, *found.of.model("native"), first->plan);
  }
  return text;
}

TEST_CASE("golden: the native model predicts as recorded", "[golden]") {
  std::string text = predictions(random_worlds(7902, 4, {6, 4, 4}), "native", "unified", "job");
  text += predictions(gpt_worlds(7903, 1), "native", "aceso", "all");
  const std::vector<Found> all = many_plans();
  for (const Feature& feature : kFeatures) {
    const std::string found = featured(all, feature, 2);
    INFO(feature.name);
    CHECK_FALSE(found.empty());
    text += found;
  }
  check_golden("predictions_native.txt", text);
}

TEST_CASE("golden: the native model predicts other schedules as recorded", "[golden]") {
  std::string text;
  for (NamedWorld& of : gpt_worlds(7904, 1)) {
    of.world.cluster.nodes.front().memory_bytes *= 4;
    const std::unique_ptr<CostModel> model = of.model("native");
    Plan plan = test::make_plan(of.world.model, 4, {7, 14}, {2, 2}, {{{0, 2}}, {}});
    text += section("two stages of two replicas", of, *model, plan);
    plan.schedule.transfers = Transfers::kEager;
    text += section("eager", of, *model, plan);
    plan.schedule.sliced_microbatches = 1;
    text += section("eager and sliced", of, *model, plan);
    plan.schedule = {};
    plan.schedule.kind = ScheduleKind::kGPipe;
    text += section("gpipe", of, *model, plan);
    plan.schedule.kind = ScheduleKind::kInterleaved;
    text += section("interleaved", of, *model, plan);
    plan.schedule = {};
    for (Stage& stage : plan.stages) std::swap(stage.segments[0].dp, stage.segments[0].cp);
    text += section("context-parallel ranks", of, *model, plan);
  }
  check_golden("predictions_schedules.txt", text);
}

TEST_CASE("golden: the native model predicts each memory switch as recorded", "[golden]") {
  using Layer = h3t::LayerSwitches;
  const std::pair<const char*, Layer> switches[] = {{"no switch", {}},
                                                    {"partitioned parameters", {.partition_parameters = true}},
                                                    {"lazy prefetch", {.lazy_prefetch = true}},
                                                    {"recompute", {.rematerialize = true}},
                                                    {"offloaded", {.rematerialize = true, .offload_hidden = true}},
                                                    {"economical forward", {.economical_forward = true}},
                                                    {"economical backward", {.economical_backward = true}},
                                                    {"segments apart", {.segment_sync = false}},
                                                    {"all", h3t::kAllOn}};
  const NamedWorld of = h3t_worlds().front();
  const std::unique_ptr<CostModel> model = of.model("native");
  const auto operators = static_cast<std::int32_t>(of.world.model.operators.size());
  std::vector<Range> layers;
  for (std::int32_t i = 0; i < operators; ++i) layers.push_back({i, i + 1});
  std::string text;
  for (const auto& [name, one] : switches) {
    // Of the layers in the middle: layers beside each other differ.
    h3t::Switching all(layers.size());
    std::fill(all.begin() + 1, all.end() - 2, one);
    text += section(name, of, *model, h3t::plan_of(of.world.model, of.world.cluster.devices(), layers, all));
  }
  check_golden("predictions_switches.txt", text);
}

TEST_CASE("golden: the aceso model predicts as recorded", "[golden]") {
  check_golden("predictions_aceso.txt", predictions(aceso_worlds(7911, 2), "aceso", "aceso", "aceso-free"));
}

TEST_CASE("golden: the autopipe models predict as recorded", "[golden]") {
  const Worlds worlds = pipeline_worlds(7914, 2);
  check_golden("predictions_autopipe.txt", predictions(worlds, "autopipe:blocking", "autopipe", "autopipe-whole") +
                                               predictions(worlds, "autopipe:eager", "autopipe", "autopipe-whole"));
}

TEST_CASE("golden: the galvatron models predict as recorded", "[golden]") {
  std::string text;
  for (const char* const name : {"galvatron:v1", "galvatron:v2", "galvatron:paper"}) {
    text += predictions(galvatron_worlds(7915, 2, kGalvatronContext), name, "galvatron", "galvatron");
  }
  check_golden("predictions_galvatron.txt", text);
}

TEST_CASE("golden: the h3t models predict as recorded", "[golden]") {
  std::string text;
  for (const char* const name : {"h3t:nvlink", "h3t:pcie"})
    text += predictions(first(2, h3t_worlds()), name, "h3t", "job");
  check_golden("predictions_h3t.txt", text);
}

TEST_CASE("golden: the oases models predict as recorded", "[golden]") {
  std::string text;
  for (const char* const name : {"oases:paper", "oases:published"}) {
    text += predictions(first(2, oases_worlds()), name, "oases", "oases");
  }
  check_golden("predictions_oases.txt", text);
}

}  // namespace
}  // namespace trimtab::tuner::golden
