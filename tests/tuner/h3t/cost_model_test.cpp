#include <algorithm>
#include <catch2/catch.hpp>

#include "analytic_documents.hpp"
#include "papers/cost_models.hpp"
#include "papers/h3t/h3t_plan.hpp"
#include "papers/h3t/step_inputs.hpp"
#include "papers/h3t_cost_model.hpp"
#include "random_layers.hpp"
#include "solvers/h3t/exact_solver.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner::h3t {
namespace {

test::Documents documents(std::int32_t layers = 6) {
  test::TransformerSize size = test::sizes().front();
  size.layers = layers;
  test::Documents of = test::analytic_documents(test::machines()[1], size, 8);
  const LayerProfile layer = test::analytic_layer(test::machines()[1], size, 8);
  const std::vector<LayerProfile> all(static_cast<std::size_t>(layers), layer);
  of.cluster.nodes.front().memory_bytes = test::limit_at(all, Fabric::kNvlink, 0.3);
  return of;
}

std::unique_ptr<CostModel> cost_model(const test::Documents& of, const std::string& name = "h3t:nvlink") {
  return make_cost_model(name, of.model, of.cluster, of.costs).value();
}

SearchOutcome searched(const CostModel& model, SearchOptions options = {}) {
  options.strategy = "h3t";
  return search(model, Knobs{}, options).value();
}

bool mentions(const std::vector<std::string>& names, const std::string& text) {
  return std::any_of(names.begin(), names.end(),
                     [&text](const std::string& name) { return name.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("layer profiles come from measured costs and the model", "[h3t]") {
  const test::Documents of = documents();
  const auto built = H3tCostModel::build(of.model, of.cluster, of.costs, Fabric::kNvlink, {});
  const StepInputs inputs = built.value().inputs(8);
  CHECK(inputs.missing.empty());
  CHECK(inputs.estimated.empty());
  REQUIRE(inputs.layers.size() == 6);
  CHECK(std::ranges::all_of(inputs.layers, test::can_be));
  CHECK(inputs.operators[2] == Range{2, 3});
  test::TransformerSize size = test::sizes().front();
  const LayerProfile truth = test::analytic_layer(test::machines()[1], size, 8);
  const LayerProfile& middle = inputs.layers[3];
  CHECK(middle.forward_with_grad == truth.forward_with_grad);
  CHECK(middle.backward == truth.backward);
  CHECK(middle.optimizer_step == truth.optimizer_step);
  CHECK(middle.gather_parameters == truth.gather_parameters);
  CHECK(middle.scatter_gradients == truth.scatter_gradients);
  CHECK(middle.prefetch_parameters == truth.prefetch_parameters);
  CHECK(middle.offload_hidden == truth.offload_hidden);
  CHECK(middle.input == truth.input);
  CHECK(middle.gathered_parameters == truth.gathered_parameters);
  CHECK(middle.partitioned_parameters == truth.partitioned_parameters);
  CHECK(middle.with_grad.delta == truth.with_grad.delta);
  CHECK(middle.host_bytes == truth.partitioned_parameters * 8);
  CHECK(inputs.layers.front().input == 0);
}

TEST_CASE("a missing cost is named with the benchmark that fills it", "[h3t]") {
  test::Documents of = documents();
  std::erase_if(of.costs, [](const Cost& cost) {
    return cost.key.kind == CostKind::kOptimizerStep || cost.key.subject == "device_to_host";
  });
  const std::unique_ptr<CostModel> model = cost_model(of);
  const Plan plan = plan_of(of.model, 8, layers_of(of.model), Switching(6));
  const std::vector<std::string> missing = model->evaluate(plan).missing_costs;
  CHECK(mentions(missing, "optimizer_step transformer-layer float16"));
  CHECK(mentions(missing, "(benchmark: optimizer transformer-layer with placement host)"));
  CHECK(mentions(missing, "(benchmark: copy device_to_host of "));
  SearchOptions options;
  options.strategy = "h3t";
  const auto outcome = search(*model, Knobs{}, options);
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().message.find("benchmark: copy device_to_host") != std::string::npos);
}

TEST_CASE("a copy to the host is no transfer between devices", "[h3t]") {
  const test::Documents of = documents();
  const CostTable table = CostTable::build(of.model, of.cluster, of.costs).value();
  const std::unique_ptr<CostModel> native = make_cost_model("native", of.model, of.cluster, of.costs).value();
  Plan plan;
  plan.model = of.model.name;
  plan.global_batch = plan.microbatch = of.model.global_batch;
  for (std::int32_t s = 0; s < 2; ++s) {
    Segment segment;
    segment.operators = {s * 3, s * 3 + 3};
    segment.dp = 4;
    plan.stages.push_back({{s * 4, s * 4 + 1, s * 4 + 2, s * 4 + 3}, {segment}});
  }
  CHECK(mentions(native->evaluate(plan).missing_costs, "point_to_point send_recv"));
}

TEST_CASE("plans and switches are the same thing twice", "[h3t]") {
  const test::Documents of = documents();
  const std::vector<Range> layers = layers_of(of.model);
  Random random(5);
  const std::unique_ptr<CostModel> model = cost_model(of);
  for (std::int32_t round = 0; round < 200; ++round) {
    Switching switches;
    for (std::size_t i = 0; i < layers.size(); ++i) switches.push_back(all_combinations()[random.below(kCombinations)]);
    const Plan plan = plan_of(of.model, 8, layers, switches);
    CHECK(switching_of(plan, layers) == switches);
    CHECK(model->unpriced(plan).empty());
    CHECK(validate(plan, of.model, of.cluster).empty());
    const Plan read = parse_plan(to_json(plan), "plan").value();
    CHECK(switching_of(read, layers) == switches);
    const StepInputs inputs = dynamic_cast<const H3tCostModel&>(*model).inputs(8);
    const StepOutcome outcome = SegmentSimulator(inputs.layers, Fabric::kNvlink).step(switches);
    const Prediction prediction = model->evaluate(plan);
    CHECK(prediction.iteration_ms == static_cast<double>(outcome.runtime) * 1e-6);
    CHECK(prediction.stages.front().memory_bytes == outcome.peak);
    CHECK(prediction.feasible == (outcome.peak <= of.cluster.nodes.front().memory_bytes));
  }
}

TEST_CASE("what the model does not price is refused by name", "[h3t]") {
  const test::Documents of = documents();
  const std::unique_ptr<CostModel> model = cost_model(of);
  const Plan good = plan_of(of.model, 8, layers_of(of.model), Switching(6, kAllOn));
  const auto refused = [&](auto&& change) {
    Plan plan = good;
    change(plan, plan.stages.front().segments.front());
    return model->unpriced(plan);
  };
  CHECK(mentions(refused([](Plan& plan, Segment&) { plan.microbatch = 8; }), "one microbatch a step"));
  CHECK(mentions(refused([](Plan& plan, Segment&) { plan.schedule.sub_batches = 2; }), "schedule.sub_batches"));
  CHECK(mentions(refused([](Plan& plan, Segment&) { plan.schedule.kind = ScheduleKind::kGPipe; }), "schedule.kind"));
  CHECK(mentions(refused([](Plan&, Segment& s) { s.tp = 2; }), ".tp"));
  CHECK(mentions(refused([](Plan&, Segment& s) { s.sharded = ShardedLevel::kNone; }), ".sharded"));
  CHECK(mentions(refused([](Plan&, Segment& s) { s.switches.offload_optimizer = false; }), "offload_optimizer"));
  CHECK(mentions(refused([](Plan&, Segment& s) { s.recompute.clear(); }), "layer 0 needs recompute"));
  CHECK(mentions(refused([](Plan& plan, Segment&) { plan.stages.push_back(plan.stages.front()); }), "one stage"));
}

TEST_CASE("a switch holds for whole layers", "[h3t]") {
  test::Documents of = documents();
  of.model.operators[1].layer = 0;  // two operators in the first layer
  const std::vector<Range> layers = layers_of(of.model);
  REQUIRE(layers.front() == Range{0, 2});
  Plan plan = plan_of(of.model, 8, layers, Switching(5));
  plan.stages.front().segments.front().switches.lazy_prefetch = {{1, 3}};
  CHECK(
      mentions(unpriced(plan, layers), "lazy_prefetch: a switch holds for whole layers, layer 0 is operators 0 to 1"));
}

TEST_CASE("the search answers with the exact solver's plan and a proof", "[h3t]") {
  const test::Documents of = documents();
  for (const std::string name : {"h3t:nvlink", "h3t:pcie"}) {
    const std::unique_ptr<CostModel> model = cost_model(of, name);
    const auto& own = dynamic_cast<const H3tCostModel&>(*model);
    const StepInputs inputs = own.inputs(8);
    const ExactAnswer exact = solve_exactly(own.problem(inputs, 8));
    REQUIRE(exact.proven);
    const SearchOutcome outcome = searched(*model);
    REQUIRE_FALSE(outcome.result.plans.empty());
    const RankedPlan& best = outcome.result.plans.front();
    CHECK(outcome.result.cost_model == name);
    CHECK(outcome.result.proven);
    CHECK(best.prediction.iteration_ms == static_cast<double>(exact.best.outcome.runtime) * 1e-6);
    CHECK(outcome.result.lower_bound_ms == Approx(best.prediction.iteration_ms).epsilon(1e-12));
    CHECK(best.prediction.feasible);
    CHECK(best.plan.stages.front().segments.front().switches.offload_optimizer);
    CHECK_FALSE(outcome.trace.empty());
    for (const std::string_view solver : h3t_solvers()) {
      SearchOptions options;
      options.h3t.solver = solver;
      const SearchOutcome other = searched(*model, options);
      REQUIRE_FALSE(other.result.plans.empty());
      CHECK(other.result.plans.front().prediction.iteration_ms >= best.prediction.iteration_ms);
      CHECK(other.result.proven == (solver == "exact"));
    }
    SearchOptions options;
    options.h3t.free_synchronization = true;
    const SearchOutcome free = searched(*model, options);
    CHECK(free.result.plans.front().prediction.iteration_ms <= best.prediction.iteration_ms);
    CHECK_FALSE(free.result.proven);
  }
}

TEST_CASE("an excluded plan is not returned and nothing is called proven", "[h3t]") {
  const test::Documents of = documents();
  const std::unique_ptr<CostModel> model = cost_model(of);
  const Plan best = searched(*model).result.plans.front().plan;
  SearchOptions options;
  options.excluded = {semantic_hash(best)};
  const SearchOutcome outcome = searched(*model, options);
  CHECK_FALSE(outcome.result.proven);
  for (const RankedPlan& ranked : outcome.result.plans) CHECK(semantic_hash(ranked.plan) != semantic_hash(best));
}

TEST_CASE("where nothing fits the message says by how much", "[h3t]") {
  test::Documents of = documents();
  of.cluster.nodes.front().memory_bytes = 1 << 20;
  const SearchOutcome outcome = searched(*cost_model(of));
  CHECK(outcome.result.plans.empty());
  INFO(outcome.infeasible);
  CHECK(outcome.infeasible.find("the memory limit is 1.00 MiB") != std::string::npos);
  CHECK(outcome.infeasible.find("more memory on each device") != std::string::npos);
}

TEST_CASE("host memory is a limit of its own", "[h3t]") {
  test::Documents of = documents();
  of.cluster.nodes.front().memory_bytes = 0;
  const std::unique_ptr<CostModel> roomy = cost_model(of);
  const StepInputs inputs = dynamic_cast<const H3tCostModel&>(*roomy).inputs(8);
  const Bytes fixed = host_bytes(inputs.layers, Switching(6));
  of.cluster.nodes.front().host_memory_bytes = 8 * fixed;  // all devices of the node share it
  const std::unique_ptr<CostModel> tight = cost_model(of);
  const SearchOutcome outcome = searched(*tight);
  REQUIRE_FALSE(outcome.result.plans.empty());
  CHECK(outcome.result.plans.front().plan.stages.front().segments.front().switches.offload_hidden.empty());
  const Plan all_on = plan_of(of.model, 8, layers_of(of.model), Switching(6, kAllOn));
  CHECK(tight->evaluate(all_on).infeasible_reason.find("on its host, where it may have") != std::string::npos);
  of.cluster.nodes.front().host_memory_bytes = 4 * fixed;
  const SearchOutcome none = searched(*cost_model(of));
  CHECK(none.result.plans.empty());
  CHECK(none.infeasible.find("offload fewer hidden states, or use more nodes") != std::string::npos);
  CHECK(none.infeasible.find("more memory on each device") == std::string::npos);
}

TEST_CASE("every strategy prices the one shape that the model knows", "[h3t]") {
  const test::Documents of = documents();
  const std::unique_ptr<CostModel> model = cost_model(of);
  const double best = searched(*model).result.plans.front().prediction.iteration_ms;
  for (const std::string strategy : {"aceso", "unified", "exhaustive"}) {
    SearchOptions options;
    options.strategy = strategy;
    options.max_evaluations = 2000;
    const SearchOutcome outcome = search(*model, Knobs{}, options).value();
    INFO(strategy);
    REQUIRE_FALSE(outcome.result.plans.empty());
    CHECK(outcome.result.plans.front().prediction.iteration_ms >= best);
    CHECK(outcome.result.plans.front().prediction.iteration_ms <= best * 1.05);
    CHECK(outcome.result.lower_bound_ms <= best * (1 + 1e-12));
  }
}

TEST_CASE("under the native model a job without memory switches is refused with what to use", "[h3t]") {
  const test::Documents of = documents();
  SearchOptions options;
  options.strategy = "h3t";
  const auto native = search(*cost_model(of, "native"), Knobs{}, options);
  REQUIRE_FALSE(native.ok());
  CHECK(native.error().message.find("use --space all; use --cost-model h3t:nvlink or h3t:pcie") != std::string::npos);
}

TEST_CASE("under the native model switches are found that it prices, and that fit", "[h3t]") {
  const test::Documents of = documents();
  CostTableOptions estimates;
  estimates.allow_estimates = true;
  const std::unique_ptr<CostModel> model = make_cost_model("native", of.model, of.cluster, of.costs, estimates).value();
  SearchOptions options;
  options.strategy = "h3t";
  options.space = "all";
  const Result<SearchOutcome> native = search(*model, Knobs{}, options);
  INFO((native.ok() ? "" : native.error().message));
  REQUIRE(native.ok());
  REQUIRE_FALSE(native->result.plans.empty());
  const RankedPlan& best = native->result.plans.front();
  CHECK(best.prediction.feasible);
  CHECK(model->unpriced(best.plan).empty());
  CHECK(validate(best.plan, of.model, of.cluster).empty());
  CHECK_FALSE(best.plan.stages[0].segments[0].switches == Switches{});
  options.h3t.solver = "greedy";
  const Result<SearchOutcome> greedy = search(*model, Knobs{}, options);
  REQUIRE_FALSE(greedy.ok());
  CHECK(greedy.error().message.find("use --cost-model h3t:nvlink or h3t:pcie") != std::string::npos);
}

TEST_CASE("under the native model a copy that was not measured is named", "[h3t]") {
  test::Documents of = documents();
  std::erase_if(of.costs, [](const Cost& cost) { return cost.key.subject == "host_to_device"; });
  SearchOptions options;
  options.strategy = "h3t";
  options.space = "all";
  const auto native = search(*cost_model(of, "native"), Knobs{}, options);
  REQUIRE_FALSE(native.ok());
  CHECK_THAT(native.error().message, Catch::Contains("missing") && Catch::Contains("host_to_device"));
}

TEST_CASE("a space without the one shape is refused by what it lacks", "[h3t]") {
  test::Documents of = documents();
  of.model.microbatch_total = {8, 16};
  SearchOptions options;
  options.strategy = "h3t";
  const auto outcome = search(*cost_model(of), Knobs{}, options);
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().message.find("one stage of 8 replicas and one microbatch of 64 samples") != std::string::npos);
}

TEST_CASE("the timeline ends with the step and has every pass", "[h3t]") {
  const test::Documents of = documents();
  const std::unique_ptr<CostModel> model = cost_model(of);
  const Plan plan = plan_of(of.model, 8, layers_of(of.model), Switching(6, kAllOn));
  const std::vector<TimelineEvent> events = model->timeline(plan);
  double end = 0;
  std::array<int, 6> kinds{};
  for (const TimelineEvent& event : events) {
    end = std::max(end, event.end_ms);
    ++kinds[static_cast<std::size_t>(event.kind)];
  }
  CHECK(end == model->evaluate(plan).iteration_ms);
  CHECK(kinds[static_cast<std::size_t>(EventKind::kForward)] == 6);
  CHECK(kinds[static_cast<std::size_t>(EventKind::kRecompute)] == 6);
  CHECK(kinds[static_cast<std::size_t>(EventKind::kBackward)] == 6);
  CHECK(kinds[static_cast<std::size_t>(EventKind::kOptimizer)] == 6);
  CHECK(std::is_sorted(events.begin(), events.end(),
                       [](const auto& a, const auto& b) { return a.begin_ms < b.begin_ms; }));
}

}  // namespace trimtab::tuner::h3t
