// The published programs' predictions of their own plans. They are the same to 1e-6 wherever a plan was printed.

#include <catch2/catch.hpp>
#include <cmath>

#include "papers/galvatron/formulas.hpp"
#include "peer.hpp"
#include "tuner/validate.hpp"

using namespace trimtab;         // NOLINT: a test's own file
using namespace trimtab::tuner;  // NOLINT
namespace peer = trimtab::tuner::galvatron::peer;

TEST_CASE("galvatron: v1 and v2 predict their own plans as the published programs do", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  int predicted = 0;
  for (const peer::Answer& answer : peer::answers()) {
    if (answer.batch == 0 || answer.seconds == 0) continue;
    INFO(answer.name());
    const Model model = peer::model_of(answer.model, answer.batch);
    const Cluster cluster = peer::cluster_of(model, answer.nodes, answer.devices_per_node, answer.gib);
    const auto cost_model = peer::cost_model_of("galvatron:" + answer.version, model, cluster);
    const bool v2 = answer.version == "v2";
    const Plan plan = peer::plan_of(model, answer.devices(), answer.stages, v2 ? answer.microbatches : 1, v2);
    REQUIRE(validate(plan, model, cluster).empty());
    REQUIRE(cost_model->unpriced(plan).empty());
    const Prediction prediction = cost_model->evaluate(plan);
    REQUIRE(prediction.missing_costs.empty());
    CHECK(prediction.iteration_ms == Approx(answer.seconds * 1000).epsilon(1e-6));
    CHECK(prediction.feasible);
    ++predicted;
    // Memory: the published search adds what recomputing takes whenever it may recompute, we to plans that do.
    for (std::size_t s = 0; s < answer.memory_mib.size(); ++s) {
      const double ours = static_cast<double>(prediction.stages[s].memory_bytes) / 1048576;
      const bool recomputes = prediction.stages[s].recompute_ms > 0;
      const bool never = answer.options.find("disable_ckpt") != std::string::npos;
      if (recomputes || never) {
        CHECK(ours == Approx(answer.memory_mib[s]).margin(0.51));
      } else {
        CHECK(ours <= answer.memory_mib[s] + 0.51);
      }
    }
  }
  CHECK(predicted == 38 + 17);
}

TEST_CASE("galvatron: v2 predicts pipelines of many microbatches as the published program does", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  for (const peer::PartitionAnswer& answer : peer::partition_answers()) {
    INFO(answer.model << ", " << answer.even.size() << " stages");
    const Model model = peer::model_of(answer.model, answer.batch);
    const Cluster cluster = peer::cluster_of(model, 1, 8, answer.gib);
    const auto cost_model = peer::cost_model_of("galvatron:v2", model, cluster);
    const auto predict = [&](const auto& stages) {
      return cost_model->evaluate(peer::plan_of(model, 8, stages, answer.microbatches, true));
    };
    CHECK(predict(answer.even).iteration_ms == Approx(answer.even_seconds * 1000).epsilon(1e-6));
    CHECK(predict(answer.best).iteration_ms == Approx(answer.best_seconds * 1000).epsilon(1e-6));
    CHECK(predict(answer.even).feasible);
    CHECK(predict(answer.best).feasible);
  }
}

TEST_CASE("galvatron: knobs that a version does not price are refused by name", "[galvatron][peer]") {
  if (peer::published() == nullptr) return;
  const Model model = peer::model_of("bert-huge-32", 16);
  const Cluster cluster = peer::cluster_of(model, 1, 8, 16);
  Plan plan = peer::plan_of(model, 8, {{"2-2*-2 x16"}, {"2-2*-2 x16"}}, 2, false);
  const auto unpriced = [&](const char* name) { return peer::cost_model_of(name, model, cluster)->unpriced(plan); };
  CHECK(unpriced("galvatron:v1").empty());
  plan.stages[0].segments[0].recompute = {{0, 4}};
  REQUIRE(unpriced("galvatron:v1").size() == 1);
  CHECK(unpriced("galvatron:v1")[0].find("recompute") != std::string::npos);
  CHECK(unpriced("galvatron:paper").empty());
  plan.schedule.sub_batches = 2;
  plan.stages[0].segments[0].cp = 2;
  plan.stages[1].segments[0].sharded = ShardedLevel::kOptimizer;
  plan.stages[1].devices = {4, 5, 7, 6};
  CHECK(unpriced("galvatron:paper").size() == 4);
}
