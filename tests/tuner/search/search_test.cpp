#include "tuner/search.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "pricing/evaluator.hpp"
#include "tuner/validate.hpp"
#include "usual_worlds.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

// 12 operators on 4 devices: cheap at the begin, dear at the end, so that even stages are not balanced.
test::World uneven_world() {
  std::vector<test::OperatorTruth> operators;
  for (int i = 0; i < 12; ++i) {
    test::OperatorTruth of;
    of.cost_key = i < 8 ? "light" : "heavy";
    of.forward_ns = i < 8 ? 1000000 : 3000000;
    of.backward_ns = 2 * of.forward_ns;
    of.forward_fixed_ns = 300000;
    of.stored_bytes = 10000;
    of.output_bytes = 500;
    of.parameter_bytes = 20000;
    operators.push_back(of);
  }
  test::World world = test::make_world(operators, 4, 16, {1, 2, 4, 8, 16});
  test::add_links(world, 50000, 20000);
  return world;
}

Result<SearchOutcome> run(const test::World& world, SearchOptions options = {}, Knobs knobs = {}) {
  const CostTable table = world.table();
  return search(NativeCostModel(table), knobs, options);
}

bool fits(const test::World& world) {
  SearchOptions options;
  options.remedies = false;
  return run(world, options).value().infeasible.empty();
}

TEST_CASE("an unknown strategy is refused by naming the known ones") {
  SearchOptions options;
  options.strategy = "guess";
  const auto result = run(uneven_world(), options);
  REQUIRE_FALSE(result.ok());
  CHECK_THAT(result.error().message, Catch::Contains("'guess'"));
  REQUIRE(strategies().size() >= 4);
  for (const std::string_view known : strategies()) {
    CHECK_THAT(result.error().message, Catch::Contains(std::string(known)));
  }
}

TEST_CASE("a search beats the usual guess and leaves a trace of how") {
  const test::World world = uneven_world();
  const SearchOutcome outcome = run(world).value();
  REQUIRE_FALSE(outcome.result.plans.empty());
  const CostTable table = world.table();
  const double guess = NativeCostModel(table).evaluate(usual_guess(world.model, world.cluster, Knobs{})).iteration_ms;
  CHECK(outcome.result.plans[0].prediction.iteration_ms < 0.8 * guess);
  REQUIRE_FALSE(outcome.trace.empty());
  for (const SearchStep& step : outcome.trace) {
    if (step.primitive.empty()) continue;  // found nothing better
    CHECK(step.after_ms < step.before_ms);
    CHECK_THAT(step.bottleneck, Catch::Contains("stage "));
    CHECK_FALSE(step.primitive.empty());
  }
  CHECK(outcome.result.stopped == "converged");
  CHECK(outcome.result.plans.size() == 10);
}

TEST_CASE("the same seed gives the same search, plan by plan and step by step") {
  const test::World world = uneven_world();
  const SearchOutcome a = run(world).value();
  const SearchOutcome b = run(world).value();
  REQUIRE(a.result.plans.size() == b.result.plans.size());
  for (std::size_t i = 0; i < a.result.plans.size(); ++i) CHECK(a.result.plans[i].plan == b.result.plans[i].plan);
  CHECK(a.result.evaluations == b.result.evaluations);
  REQUIRE(a.trace.size() == b.trace.size());
  for (std::size_t i = 0; i < a.trace.size(); ++i) CHECK(a.trace[i].primitive == b.trace[i].primitive);
}

TEST_CASE("an evaluation budget ends a search with the best so far") {
  for (const char* const strategy : {"aceso", "exhaustive"}) {
    SearchOptions options;
    options.strategy = strategy;
    options.max_evaluations = 20;
    const SearchOutcome outcome = run(uneven_world(), options).value();
    CHECK(outcome.result.stopped == "budget");
    CHECK(outcome.result.evaluations <= 21);
    REQUIRE_FALSE(outcome.result.plans.empty());
    // The bound may say all the same that nothing is faster.
    const double best = outcome.result.plans[0].prediction.iteration_ms;
    CHECK(outcome.result.proven == (outcome.result.lower_bound_ms >= best * (1 - 1e-9)));
  }
}

TEST_CASE("a stop callback ends a search soon with the best so far") {
  SearchOptions options;
  int asked = 0;
  options.stop = [&asked] { return ++asked > 50; };
  const SearchOutcome outcome = run(uneven_world(), options).value();
  CHECK(outcome.result.stopped == "cancelled");
  CHECK(asked < 200);
  CHECK_FALSE(outcome.result.plans.empty());
}

TEST_CASE("a search is never worse than the plan it starts from") {
  const test::World world = uneven_world();
  SearchOptions options;
  options.start = run(world).value().result.plans[0].plan;
  options.max_evaluations = 1;
  const SearchOutcome outcome = run(world, options).value();
  REQUIRE_FALSE(outcome.result.plans.empty());
  CHECK(semantic_hash(outcome.result.plans[0].plan) == semantic_hash(*options.start));
}

TEST_CASE("knobs that the job does not honour stay fixed") {
  const test::World world = uneven_world();
  const auto all_valid = [&world](const Knobs& knobs, const std::optional<Plan>& start = {}) {
    SearchOptions options;
    options.start = start;
    const SearchOutcome outcome = run(world, options, knobs).value();
    REQUIRE_FALSE(outcome.result.plans.empty());
    for (const RankedPlan& ranked : outcome.result.plans) {
      CHECK(validate(ranked.plan, world.model, world.cluster, knobs).empty());
      if (start) CHECK(ranked.plan.microbatch == start->microbatch);
    }
  };
  Knobs knobs;
  knobs.pipeline = false;
  all_valid(knobs);
  knobs = {};
  knobs.data_parallel = false;
  all_valid(knobs);
  knobs = {};
  knobs.uneven_stages = false;
  all_valid(knobs);
  knobs = {};
  knobs.recompute = false;
  all_valid(knobs);
  knobs = {};
  knobs.microbatch = false;
  all_valid(knobs, test::make_plan(world.model, 4, {6, 12}, {2, 2}));
}

TEST_CASE("when nothing fits, the answer says which stage, by how much and what would help") {
  test::World world = uneven_world();
  world.cluster.nodes[0].memory_bytes = 100000;  // one heavy operator's states alone are 80,000
  for (const char* const strategy : {"aceso", "exhaustive"}) {
    SearchOptions options;
    options.strategy = strategy;
    options.max_evaluations = 20000;
    const SearchOutcome outcome = run(world, options).value();
    CHECK(outcome.result.plans.empty());
    CHECK_THAT(outcome.infeasible, Catch::Contains("no plan fits; the closest") && Catch::Contains("stage ") &&
                                       Catch::Contains(": memory: needs ") && Catch::Contains(" too much") &&
                                       Catch::Contains("more memory on the device"));
  }
  Knobs knobs;
  knobs.recompute = false;
  CHECK_THAT(run(world, {}, knobs).value().infeasible, Catch::Contains("does not honour knobs.recompute"));
}

TEST_CASE("a search that its budget ended does not say that nothing fits") {
  test::World world = uneven_world();
  world.cluster.nodes[0].memory_bytes = 100000;
  SearchOptions options;
  options.max_evaluations = 20;
  CHECK_THAT(run(world, options).value().infeasible,
             Catch::StartsWith("none of 20 plans fitted before the search had used up its budget; the nearest, ") &&
                 Catch::Contains(" too much") && Catch::Contains("give it more") &&
                 Catch::Contains("more memory on each device") && !Catch::Contains("no plan fits"));
  options.max_evaluations = 0;
  int asked = 0;
  options.stop = [&asked] { return ++asked > 200; };
  CHECK_THAT(run(world, options).value().infeasible, Catch::StartsWith("none of ") &&
                                                         Catch::Contains("fitted before the search was ended") &&
                                                         !Catch::Contains("no plan fits"));
}

// The native model, but for plans that it says do not fit; its inner loop does not know of those.
class Stricter final : public CostModel {
 public:
  Stricter(const CostTable& table, std::vector<std::string> refused) : native_(table), refused_(std::move(refused)) {}

  [[nodiscard]] std::string_view name() const override { return "stricter"; }
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override {
    Prediction prediction = native_.evaluate(plan);
    if (std::find(refused_.begin(), refused_.end(), semantic_hash(plan)) == refused_.end()) return prediction;
    prediction.feasible = false;
    prediction.infeasible_reason = "stage 0: refused";
    return prediction;
  }
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const override { return native_.timeline(plan); }
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override { return native_.unpriced(plan); }
  [[nodiscard]] const Model& model() const override { return native_.model(); }
  [[nodiscard]] const Cluster& cluster() const override { return native_.cluster(); }
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const override {
    return native_.evaluator(space);
  }

 private:
  NativeCostModel native_;
  std::vector<std::string> refused_;
};

TEST_CASE("a plan that the cost model says does not fit is not returned, whatever the search made of it") {
  const test::World world = test::make_world({{"a"}, {"b"}}, 2, 2, {1, 2});
  const CostTable table = world.table(true);
  SearchOptions options;
  options.strategy = "exhaustive";
  const SearchResult all = search(NativeCostModel(table), Knobs{}, options).value().result;
  REQUIRE(all.proven);
  REQUIRE(all.plans.size() > 1);
  std::vector<std::string> refused{semantic_hash(all.plans.front().plan)};
  const SearchResult rest = search(Stricter(table, refused), Knobs{}, options).value().result;
  REQUIRE(rest.plans.size() == all.plans.size() - 1);
  CHECK(rest.plans.front().plan == all.plans[1].plan);
  CHECK(rest.lower_bound_ms <= all.plans.front().prediction.iteration_ms * (1 + 1e-9));
  CHECK(rest.proven == (rest.lower_bound_ms >= rest.plans.front().prediction.iteration_ms * (1 - 1e-9)));
  for (const RankedPlan& plan : all.plans) refused.push_back(semantic_hash(plan.plan));
  const SearchOutcome none = search(Stricter(table, refused), Knobs{}, options).value();
  CHECK(none.result.plans.empty());
  CHECK_FALSE(none.result.proven);
  CHECK_THAT(none.infeasible, Catch::Contains("stage 0: refused"));
}

// "... it would fit with 12.5 KiB more memory on each device ..." as bytes; 0 where it is not said.
double bytes_more(const std::string& text) {
  const std::string before = "it would fit with ";
  const std::size_t at = text.find(" more memory on each device");
  if (at == std::string::npos) return 0;
  const std::size_t begin = text.rfind(before, at) + before.size();
  const double number = std::stod(text.substr(begin));
  return text.find("KiB", begin) < at ? number * 1024 : text.find("MiB", begin) < at ? number * 1048576 : number;
}

TEST_CASE("the changes that are said to make a plan fit do, and a third less memory does not") {
  test::World world = uneven_world();
  world.cluster.nodes[0].memory_bytes = 100000;
  SearchOptions options;
  options.max_evaluations = 20000;
  const std::string text = run(world, options).value().infeasible;
  INFO(text);
  const double more = bytes_more(text);
  REQUIRE(more > 0);
  const auto fits_with = [&](double bytes) {
    test::World larger = world;
    larger.cluster.nodes[0].memory_bytes += static_cast<Bytes>(bytes);
    SearchOptions exact;
    exact.strategy = "exhaustive";
    return !run(larger, exact).value().result.plans.empty();
  };
  CHECK(fits_with(more * 1.005));  // the text has three digits
  CHECK_FALSE(fits_with(more * 0.67));
}

TEST_CASE("what would help is looked for where it is asked for alone") {
  test::World world = uneven_world();
  world.cluster.nodes[0].memory_bytes = 120000;
  SearchOptions options;
  options.remedies = false;
  const std::string brief = run(world, options).value().infeasible;
  CHECK_THAT(brief, Catch::StartsWith("no plan fits; the closest"));
  CHECK_THAT(run(world).value().infeasible, Catch::StartsWith(brief) && Catch::Contains("it would fit with"));
  CHECK_THAT(brief, !Catch::Contains("it would fit with"));
}

TEST_CASE("more devices and knobs are named where they make a plan fit") {
  test::World world = uneven_world();
  for (Bytes memory = 120000; memory < 4000000; memory += memory / (test::all_worlds() ? 10 : 4)) {
    world.cluster.nodes[0].memory_bytes = memory;
    Knobs knobs;
    knobs.recompute = false;
    const std::string text = run(world, {}, knobs).value().infeasible;
    if (text.empty()) return;  // from here on plans fit without recompute
    INFO("memory " << memory << ": " << text);
    const bool named = text.find("knobs.recompute, which would make it fit") != std::string::npos;
    CHECK(named == fits(world));
  }
  FAIL("no memory was enough");
}

TEST_CASE("one more device is named where it makes a plan fit") {
  test::World world = uneven_world();
  world.cluster.nodes[0].devices = 2;
  test::World larger = world;
  larger.cluster.nodes[0].devices = 3;
  int named = 0;
  for (Bytes memory = 120000; memory < 4000000; memory += memory / (test::all_worlds() ? 10 : 4)) {
    world.cluster.nodes[0].memory_bytes = larger.cluster.nodes[0].memory_bytes = memory;
    const std::string text = run(world).value().infeasible;
    if (text.empty()) break;
    INFO("memory " << memory << ": " << text);
    const bool helps = fits(larger);
    CHECK((text.find("it would fit with 1 more device on") != std::string::npos) == helps);
    named += helps;
  }
  CHECK(named > 0);
}

TEST_CASE("when every plan that fits is excluded, the answer says so") {
  test::World world = test::make_world({{"only"}}, 1, 1, {1});
  SearchOptions options;
  for (const bool recompute : {false, true}) {
    const Plan plan =
        test::make_plan(world.model, 1, {1}, {1}, {recompute ? std::vector<Range>{{0, 1}} : std::vector<Range>{}});
    options.excluded.push_back(semantic_hash(plan));
  }
  for (const char* const strategy : {"aceso", "exhaustive"}) {
    options.strategy = strategy;
    const SearchOutcome outcome = run(world, options).value();
    CHECK(outcome.result.plans.empty());
    CHECK_THAT(outcome.infeasible, Catch::Contains("every plan that fits has failed before and is excluded"));
  }
}

TEST_CASE("a search over dozens of devices ends and uses them all") {
  test::World world = uneven_world();
  world.cluster.nodes[0].devices = 32;
  test::add_links(world, 50000, 20000);
  world.model.global_batch = 16;
  const SearchOutcome outcome = run(world).value();
  REQUIRE_FALSE(outcome.result.plans.empty());
  CHECK(validate(outcome.result.plans[0].plan, world.model, world.cluster, Knobs{}).empty());
}

TEST_CASE("devices that no plan can use are said to be the reason") {
  const test::World world = uneven_world();
  Knobs knobs;
  knobs.pipeline = false;
  knobs.data_parallel = false;  // four devices, one stage, one replica
  const SearchOutcome outcome = run(world, {}, knobs).value();
  CHECK(outcome.result.plans.empty());
  CHECK_THAT(outcome.infeasible, Catch::Contains("no plan gives every one of the 4 devices a stage"));
}

TEST_CASE("costs so incomplete that nothing can be priced are named") {
  test::World world = uneven_world();
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.kind == CostKind::kOperatorBackward; });
  const auto result = run(world);
  REQUIRE_FALSE(result.ok());
  CHECK_THAT(result.error().message,
             Catch::Contains("no plan can be priced") && Catch::Contains("operator_backward heavy float32 samples=1"));
}

TEST_CASE("plans that need an unmeasured cost are left out, the others are searched") {
  test::World world = uneven_world();
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.samples == 16 || cost.key.samples == 8; });
  const SearchOutcome outcome = run(world).value();
  REQUIRE_FALSE(outcome.result.plans.empty());
  for (const RankedPlan& ranked : outcome.result.plans) CHECK(ranked.prediction.missing_costs.empty());
}

TEST_CASE("a stage across nodes is priced with the links between them") {
  test::World world = uneven_world();
  Node other = world.cluster.nodes[0];
  world.cluster.nodes[0].devices = other.devices = 2;
  other.name = "n1";
  world.cluster.nodes.push_back(other);
  Link slow;
  slow.level = "inter_node";
  slow.bandwidth_bytes_per_s = 1e6;
  slow.latency_us = 100;
  world.cluster.links.push_back(slow);
  const SearchOutcome outcome = run(world).value();
  REQUIRE_FALSE(outcome.result.plans.empty());
  // 20,000 bytes of gradients an operator over 1 MB/s: replicas stay inside a node.
  for (const Stage& stage : outcome.result.plans[0].plan.stages) {
    CHECK(world.cluster.node_of(stage.devices.front()) == world.cluster.node_of(stage.devices.back()));
  }
  CHECK_FALSE(outcome.result.plans[0].prediction.estimated_costs.empty());
}

}  // namespace
}  // namespace trimtab::tuner
