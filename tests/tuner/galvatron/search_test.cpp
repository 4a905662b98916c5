// The whole search as a user runs it, against the published programs' answers.

#include <algorithm>
#include <catch2/catch.hpp>

#include "peer.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

using namespace trimtab;         // NOLINT: a test's own file
using namespace trimtab::tuner;  // NOLINT
namespace peer = trimtab::tuner::galvatron::peer;

namespace {

SearchOutcome search_with(const CostModel& cost_model, const std::string& space,
                          const std::vector<std::string>& without = {}) {
  SearchOptions options;
  options.without = without;
  options.strategy = "galvatron";
  options.space = space;
  auto outcome = search(cost_model, Knobs{}, options);
  REQUIRE(outcome.ok());
  return std::move(outcome).value();
}

}  // namespace

TEST_CASE("galvatron: every published answer is met or beaten by its own cost model", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  int better = 0;
  for (const peer::Answer& answer : peer::answers()) {
    if (answer.batch == 0 || answer.seconds == 0) continue;
    INFO(answer.name());
    const Model model = peer::model_of(answer.model, answer.batch);
    const Cluster cluster = peer::cluster_of(model, answer.nodes, answer.devices_per_node, answer.gib);
    const auto cost_model = peer::cost_model_of("galvatron:" + answer.version, model, cluster);
    const SearchOutcome outcome = search_with(*cost_model, "galvatron");
    REQUIRE_FALSE(outcome.result.plans.empty());
    const RankedPlan& best = outcome.result.plans.front();
    CHECK(best.prediction.iteration_ms <= answer.seconds * 1000 * (1 + 1e-6));
    CHECK(best.prediction.feasible);
    CHECK(validate(best.plan, model, cluster).empty());
    CHECK(cost_model->unpriced(best.plan).empty());
    CHECK(best.plan.global_batch == answer.batch);  // another batch is advice
    if (best.prediction.iteration_ms < answer.seconds * 1000 * (1 - 1e-6)) ++better;
  }
  CHECK(better > 0);
}

TEST_CASE("galvatron: balanced partitions and more microbatches beat the published even ones", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  for (const peer::PartitionAnswer& answer : peer::partition_answers()) {
    INFO(answer.model << ", " << answer.even.size() << " stages");
    const Model model = peer::model_of(answer.model, answer.batch);
    const Cluster cluster = peer::cluster_of(model, 1, 8, answer.gib);
    const auto cost_model = peer::cost_model_of("galvatron:v2", model, cluster);
    const SearchOutcome outcome = search_with(*cost_model, "galvatron");
    REQUIRE_FALSE(outcome.result.plans.empty());
    CHECK(outcome.result.plans.front().prediction.iteration_ms <= answer.best_seconds * 1000 * (1 + 1e-6));
  }
}

TEST_CASE("galvatron: another batch is advised, never adopted; balance degrees are told", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("bert-huge-32", 8);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 16);
  const auto cost_model = peer::cost_model_of("galvatron:paper", model, cluster);
  const SearchOutcome outcome = search_with(*cost_model, "galvatron");
  for (const RankedPlan& plan : outcome.result.plans) CHECK(plan.plan.global_batch == 8);
  REQUIRE_FALSE(outcome.trace.empty());
  CHECK(outcome.trace.back().bottleneck == "advice, not adopted");
  CHECK(outcome.trace.front().primitive.find("alpha_t") != std::string::npos);
  CHECK(outcome.trace.front().primitive.find("alpha_m") != std::string::npos);
  CHECK(outcome.result.proven);
}

TEST_CASE("galvatron: the space of a job is kept to", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("vit-huge-32", 64);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 16);
  const auto cost_model = peer::cost_model_of("galvatron:paper", model, cluster);
  SearchOptions options;
  options.strategy = "galvatron";
  Knobs knobs;
  knobs.recompute = false;
  const auto outcome = search(*cost_model, knobs, options);
  REQUIRE(outcome.ok());
  for (const RankedPlan& ranked : outcome.value().result.plans) {
    for (const Stage& stage : ranked.plan.stages) {
      for (const Segment& segment : stage.segments) {
        CHECK(segment.tp == 1);
        CHECK(segment.sharded == ShardedLevel::kNone);
        CHECK(segment.recompute.empty());
      }
    }
  }
}

TEST_CASE("galvatron: nothing fits is said with what is missing", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("gpt-6.7b", 8);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 4);
  for (const char* name : {"galvatron:v2", "galvatron:paper"}) {
    const SearchOutcome outcome = search_with(*peer::cost_model_of(name, model, cluster), "galvatron");
    CHECK(outcome.result.plans.empty());
    CHECK_FALSE(outcome.infeasible.empty());
  }
}

TEST_CASE("galvatron: the walk runs over native prices, one strategy a stage", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("bert-huge-32", 16);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 12);
  const auto native = peer::cost_model_of("native", model, cluster, true);
  const SearchOutcome outcome = search_with(*native, "galvatron");
  REQUIRE_FALSE(outcome.result.plans.empty());
  const RankedPlan& best = outcome.result.plans.front();
  CHECK(best.prediction.feasible);
  CHECK(validate(best.plan, model, cluster).empty());
  CHECK(native->evaluate(best.plan).iteration_ms == best.prediction.iteration_ms);
}

TEST_CASE("galvatron: costs that a model lacks are named", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("bert-huge-32", 16);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 12);
  SearchOptions options;
  options.strategy = "galvatron";
  options.space = "galvatron";
  const auto outcome = search(*peer::cost_model_of("native", model, cluster, false), Knobs{}, options);
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().message.find("costs are missing") != std::string::npos);
}

TEST_CASE("galvatron: the same search twice gives the same plans", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("swin-huge-32", 64);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 12);
  const auto cost_model = peer::cost_model_of("galvatron:v1", model, cluster);
  const SearchOutcome one = search_with(*cost_model, "galvatron");
  const SearchOutcome two = search_with(*cost_model, "galvatron");
  REQUIRE(one.result.plans.size() == two.result.plans.size());
  for (std::size_t i = 0; i < one.result.plans.size(); ++i) CHECK(one.result.plans[i].plan == two.result.plans[i].plan);
}

TEST_CASE("galvatron: replicas of shards are searched where the space has them, and may pay", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  struct Setting {
    const char* model;
    std::int32_t nodes, gib, batch;
  };
  int quicker = 0;
  int mixed = 0;
  for (const Setting& of : {Setting{"gpt-1.5b", 1, 16, 16}, {"llama-7b", 1, 24, 8}, {"bert-huge-48", 2, 8, 16}}) {
    INFO(of.model);
    const Model model = peer::model_of(of.model, of.batch);
    const Cluster cluster = peer::cluster_of(model, of.nodes, 8, of.gib);
    const auto cost_model = peer::cost_model_of("galvatron:paper", model, cluster);
    const SearchOutcome narrow = search_with(*cost_model, "galvatron");
    const SearchOutcome wide = search_with(*cost_model, "galvatron-mixed");
    REQUIRE_FALSE(wide.result.plans.empty());
    CHECK(wide.result.proven);
    const RankedPlan& best = wide.result.plans.front();
    const double without = narrow.result.plans.front().prediction.iteration_ms;
    CHECK(best.prediction.iteration_ms <= without * (1 + 1e-9));
    CHECK(validate(best.plan, model, cluster).empty());
    CHECK(cost_model->unpriced(best.plan).empty());
    if (best.prediction.iteration_ms < without * (1 - 1e-9)) ++quicker;
    for (const Stage& stage : best.plan.stages) {
      for (const Segment& segment : stage.segments) {
        if (segment.sharded_degree > 0 && segment.sharded_degree < segment.dp) ++mixed;
      }
    }
  }
  CHECK(quicker > 0);
  CHECK(mixed > 0);
}

TEST_CASE("galvatron: a space without mixed splits has one split a stage, proven too", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("bert-huge-32", 16);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 8);
  const auto cost_model = peer::cost_model_of("galvatron:v1", model, cluster);
  const SearchOutcome mixed = search_with(*cost_model, "galvatron");
  const SearchOutcome single = search_with(*cost_model, "galvatron", {"mixed_splits"});
  for (const RankedPlan& ranked : single.result.plans) {
    for (const Stage& stage : ranked.plan.stages) CHECK(stage.segments.size() == 1);
  }
  if (mixed.result.plans.empty() || single.result.plans.empty()) return;
  CHECK(mixed.result.plans.front().prediction.iteration_ms <=
        single.result.plans.front().prediction.iteration_ms * (1 + 1e-9));
}
