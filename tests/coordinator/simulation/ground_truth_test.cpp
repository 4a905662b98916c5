// What plans truly take beside what their costs say.

#include "simulation/ground_truth.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "simulated_job.hpp"
#include "simulation/unmodelled_planner.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct Laboratory {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;

  [[nodiscard]] GroundTruth truth(double way, double plan, std::uint64_t seed = 7) const {
    TruthSettings settings;
    settings.way = way;
    settings.plan = plan;
    return std::move(GroundTruth::make(model, cluster, costs, settings, seed)).value();
  }
};

Laboratory laboratory() {
  const SimulationInput input = small_input(1);
  return {input.model, input.cluster, input.costs};
}

double deviation(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

TEST_CASE("plans differ from what their true costs say by as much as the scenario says", "[ground_truth]") {
  const Laboratory of = laboratory();
  GroundTruth by_costs = of.truth(0, 0);
  GroundTruth each = of.truth(0, 0.05);
  GroundTruth ways = of.truth(0.05, 0);
  std::vector<double> own, of_ways;
  for (const Plan& plan : plain_plans(of.model, of.cluster, Knobs{}, 3)) {
    own.push_back(std::log(each.price(plan).ms / by_costs.price(plan).ms));
    of_ways.push_back(std::log(ways.price(plan).ms / by_costs.price(plan).ms));
    // Only the step's time: neither memory nor what ranks tell of their passes.
    CHECK(each.price(plan).pass_ms == by_costs.price(plan).pass_ms);
    CHECK(each.price(plan).peak_bytes == by_costs.price(plan).peak_bytes);
  }
  REQUIRE(own.size() > 100);
  CHECK(deviation(own) == Approx(0.05).epsilon(0.2));
  CHECK(deviation(of_ways) == Approx(0.05).epsilon(0.5));  // there are fewer of them
}

TEST_CASE("plans that run operators in one way share what no cost explains, and another seed draws it anew",
          "[ground_truth]") {
  const Laboratory of = laboratory();
  GroundTruth by_costs = of.truth(0, 0);
  GroundTruth ways = of.truth(0.05, 0);
  const auto factor = [&](GroundTruth& truth, const Plan& plan) {
    return truth.price(plan).ms / by_costs.price(plan).ms;
  };
  Plan plan = plain_plans(of.model, of.cluster, Knobs{}, 3).back();
  const double first = factor(ways, plan);
  CHECK(first != Approx(1).epsilon(1e-6));
  Plan recomputed = plan;
  Segment& segment = recomputed.stages.back().segments.back();
  segment.recompute = segment.recompute.empty() ? std::vector<Range>{segment.operators} : std::vector<Range>{};
  CHECK(factor(ways, recomputed) == Approx(first));
  Plan others = plan;
  others.microbatch = plan.microbatch == of.model.global_batch ? plan.microbatch / 2 : plan.microbatch * 2;
  CHECK(factor(ways, others) != Approx(first).epsilon(1e-6));
  GroundTruth again = of.truth(0.05, 0, 8);
  GroundTruth again_by_costs = of.truth(0, 0, 8);
  CHECK(again.price(plan).ms / again_by_costs.price(plan).ms != Approx(first).epsilon(1e-6));
}

TEST_CASE("a plan keeps what no cost explains when the cluster changes and is as it was again", "[ground_truth]") {
  const Laboratory of = laboratory();
  GroundTruth truth = of.truth(0.05, 0.05);
  const Plan plan = plain_plans(of.model, of.cluster, Knobs{}, 3).back();
  const double before = truth.price(plan).ms;
  REQUIRE(truth.set_device(0, 0.5).ok());
  CHECK(truth.price(plan).ms > before);
  REQUIRE(truth.set_device(0, 1).ok());
  CHECK(truth.price(plan).ms == Approx(before));
}
