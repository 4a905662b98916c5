#include "simulation/unmodelled_planner.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::coordinator {
namespace {

constexpr int kAttempts = 4000;
constexpr double kHope = 0.9;  // of the incumbent's time: every plan looks equally promising

struct Setting {
  Model model;
  Cluster cluster;
  Plan initial;
  Plan incumbent;
  std::optional<tuner::NativeCostModel> cost_model;
};

Result<Setting> read(const SearchTask& task) {
  Setting setting;
  TRIMTAB_TRY(setting.model, parse_model(task.model_json, "the model"));
  TRIMTAB_TRY(setting.cluster, task.cluster.needed("the cluster"));
  setting.initial = tuner::usual_guess(setting.model, setting.cluster, task.knobs);
  if (!task.initial.empty()) {
    TRIMTAB_TRY(setting.initial, task.initial.needed("the initial plan"));
  }
  setting.incumbent = setting.initial;
  if (!task.incumbent.empty()) {
    TRIMTAB_TRY(setting.incumbent, task.incumbent.needed("the incumbent"));
  }
  TRIMTAB_TRY(tuner::CostTable table, tuner::CostTable::build(setting.model, setting.cluster, task.costs, {true}));
  setting.cost_model.emplace(std::move(table));
  return setting;
}

// A plan of few words: what a person or a grid would write down.
struct Sketch {
  std::int32_t microbatch = 1;
  std::int32_t devices = 1;          // of a stage
  std::vector<std::int32_t> begins;  // of each stage's operators
  std::vector<std::int32_t> tp;
  std::vector<bool> recompute;
  ShardedLevel sharded = ShardedLevel::kNone;
};

Plan plan_of(const Sketch& sketch, const Model& model) {
  Plan plan;
  plan.model = model.name;
  plan.global_batch = model.global_batch;
  plan.microbatch = sketch.microbatch;
  std::int32_t device = 0;
  for (std::size_t s = 0; s < sketch.begins.size(); ++s) {
    Segment segment;
    const auto operators = static_cast<std::int32_t>(model.operators.size());
    segment.operators = {sketch.begins[s], s + 1 < sketch.begins.size() ? sketch.begins[s + 1] : operators};
    segment.tp = sketch.tp[s];
    segment.dp = sketch.devices / sketch.tp[s];
    if (segment.dp > 1) segment.sharded = sketch.sharded;
    if (sketch.recompute[s]) segment.recompute = {segment.operators};
    Stage stage;
    for (std::int32_t i = 0; i < sketch.devices; ++i) stage.devices.push_back(device++);
    stage.segments = {std::move(segment)};
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

// The first place to cut at or after an even share of the operators, moved by `shift` of a stage.
std::int32_t cut_near(const Model& model, std::int32_t stage, std::int32_t stages, double shift) {
  const auto operators = static_cast<double>(model.operators.size());
  auto at = static_cast<std::int32_t>(operators * (stage + shift) / stages);
  at = std::clamp(at, stage, static_cast<std::int32_t>(operators) - 1);
  while (at + 1 < static_cast<std::int32_t>(operators) && !model.operators[at].cut_before) ++at;
  return at;
}

Sketch even_sketch(const Model& model, const Cluster& cluster, std::int32_t stages, std::int32_t tp,
                   std::int32_t microbatch, bool recompute) {
  Sketch sketch;
  sketch.microbatch = microbatch;
  sketch.devices = cluster.devices() / stages;
  for (std::int32_t s = 0; s < stages; ++s) {
    sketch.begins.push_back(s == 0 ? 0 : cut_near(model, s, stages, 0));
    sketch.tp.push_back(tp);
    sketch.recompute.push_back(recompute);
  }
  return sketch;
}

std::int32_t power_up_to(std::int32_t most, Random& random) {
  std::int32_t powers = 0;
  while ((2 << powers) <= most) ++powers;
  return 1 << random.below(static_cast<std::uint64_t>(powers) + 1);
}

std::int32_t any_microbatch(const Model& model, Random& random) {
  if (model.microbatch_total.empty()) return power_up_to(model.global_batch, random);
  return model.microbatch_total[random.below(model.microbatch_total.size())];
}

Sketch random_sketch(const Model& model, const Cluster& cluster, bool tensor_parallel, Random& random) {
  const std::int32_t most = std::min(cluster.devices(), static_cast<std::int32_t>(model.operators.size()));
  const std::int32_t stages = power_up_to(most, random);
  Sketch sketch;
  sketch.microbatch = any_microbatch(model, random);
  sketch.devices = cluster.devices() / stages;
  for (std::int32_t s = 0; s < stages; ++s) {
    const double shift = 0.8 * (random.uniform() - 0.5);
    sketch.begins.push_back(s == 0 ? 0 : cut_near(model, s, stages, shift));
    sketch.tp.push_back(tensor_parallel ? power_up_to(sketch.devices, random) : 1);
    sketch.recompute.push_back(random.below(2) == 1);
  }
  return sketch;
}

constexpr int kPlainAtRandom = 300;

bool executable(const Plan& plan, const Model& model, const Cluster& cluster, const Knobs& knobs) {
  const auto empty = [](const Stage& stage) { return stage.operators().size() < 1; };
  if (std::any_of(plan.stages.begin(), plan.stages.end(), empty)) return false;
  return tuner::validate(plan, model, cluster, knobs).empty();
}

bool usable(const Plan& plan, const Setting& setting, const SearchTask& task) {
  if (!executable(plan, setting.model, setting.cluster, task.knobs)) return false;
  const std::string hash = semantic_hash(plan);
  if (std::find(task.excluded.begin(), task.excluded.end(), hash) != task.excluded.end()) return false;
  return setting.cost_model->evaluate(plan).feasible;
}

PricedPlan candidate(const Plan& plan, double ms) {
  PlanText text(plan);
  std::string hash = text.hash;
  return {std::move(text), std::move(hash), {ms, ms, ms, ms, true}};
}

SearchReply reply_of(const Setting& setting, const SearchTask& task, const std::vector<Plan>& plans,
                     double incumbent_ms) {
  SearchReply reply;
  reply.initial = candidate(setting.initial, incumbent_ms);
  reply.incumbent = candidate(setting.incumbent, incumbent_ms);
  for (const MeasuredPlan& one : task.observations) reply.observed.push_back({one.plan.hash, {}});
  for (const Plan& plan : plans) reply.candidates.push_back(candidate(plan, kHope * incumbent_ms));
  return reply;
}

constexpr std::array kLevels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                                ShardedLevel::kParameters};

// Of all replicas together, ascending.
std::vector<std::int32_t> microbatches(const Model& model) {
  if (!model.microbatch_total.empty()) return {model.microbatch_total.begin(), model.microbatch_total.end()};
  std::vector<std::int32_t> all;
  for (std::int32_t m = 1; m <= model.global_batch; m *= 2) all.push_back(m);
  return all;
}

bool fits(const Plan& plan, const Setting& setting, const SearchTask& task) {
  return executable(plan, setting.model, setting.cluster, task.knobs) && setting.cost_model->evaluate(plan).feasible;
}

// Of one level, fewest samples first.
std::vector<Plan> grid_of_level(const Setting& setting, const SearchTask& task, ShardedLevel level) {
  const bool recompute = !setting.initial.stages.front().segments.front().recompute.empty();
  std::vector<Plan> plans;
  for (const std::int32_t microbatch : microbatches(setting.model)) {
    Sketch sketch = even_sketch(setting.model, setting.cluster, 1, 1, microbatch, recompute);
    sketch.sharded = level;
    Plan plan = plan_of(sketch, setting.model);
    if (fits(plan, setting, task)) plans.push_back(std::move(plan));
  }
  return plans;
}

template <bool fast>
std::vector<Plan> grid_of(const Setting& setting, const SearchTask& task) {
  std::vector<Plan> grid;
  std::int32_t most = 0;
  for (const ShardedLevel level : kLevels) {
    std::vector<Plan> plans = grid_of_level(setting, task, level);
    if (plans.empty()) continue;
    if (fast) {
      if (plans.back().microbatch < most) continue;
      most = plans.back().microbatch;
      plans = {plans.front(), plans.back(), plans[plans.size() / 2]};
    }
    grid.insert(grid.end(), plans.begin(), plans.end());
  }
  return grid;
}

std::vector<Plan> sweep_of(const Setting& setting, const SearchTask& task) {
  std::vector<Plan> plans;
  const Cluster& cluster = setting.cluster;
  for (std::int32_t stages = 1; stages <= cluster.devices(); stages *= 2) {
    if (cluster.devices() % stages != 0 || std::cmp_greater(stages, setting.model.operators.size())) continue;
    for (std::int32_t tp = 1; tp <= cluster.devices() / stages; tp *= 2) {
      for (const ShardedLevel level : kLevels) {
        if (level != ShardedLevel::kNone && tp * stages == cluster.devices()) continue;
        for (const std::int32_t microbatch : microbatches(setting.model)) {
          for (const bool recompute : {false, true}) {
            Sketch sketch = even_sketch(setting.model, cluster, stages, tp, microbatch, recompute);
            sketch.sharded = level;
            Plan plan = plan_of(sketch, setting.model);
            if (fits(plan, setting, task)) plans.push_back(std::move(plan));
          }
        }
      }
    }
  }
  return plans;
}

std::vector<Plan> random_plans(const Setting& setting, const SearchTask& task) {
  Random random(task.seed * 7919 + 17);
  for (int i = 0; i < kAttempts; ++i) {
    Sketch sketch = random_sketch(setting.model, setting.cluster, task.knobs.tensor_parallel, random);
    if (task.knobs.sharded) sketch.sharded = kLevels[random.below(kLevels.size())];
    Plan plan = plan_of(sketch, setting.model);
    if (usable(plan, setting, task)) return {std::move(plan)};
  }
  return {};
}

std::vector<Plan> neighbouring_plans(const Setting& setting, const SearchTask& task) {
  const Model& model = setting.model;
  const Plan& from = setting.incumbent;
  const auto stages = static_cast<std::int32_t>(from.stages.size());
  const Segment& segment = from.stages.front().segments.front();
  const bool recompute = !segment.recompute.empty();
  const std::int32_t mb = from.microbatch;
  const auto sketch = [&](std::int32_t s, std::int32_t tp, std::int32_t m, bool rc) {
    return even_sketch(model, setting.cluster, s, tp, m, rc);
  };
  std::vector<Sketch> sketches{sketch(stages, segment.tp, mb, !recompute),
                               sketch(stages, segment.tp, mb * 2, recompute)};
  if (mb > 1) sketches.push_back(sketch(stages, segment.tp, mb / 2, recompute));
  const bool deeper = setting.cluster.devices() % (2 * stages) == 0;
  for (const std::int32_t m : {mb, mb * 2, mb * 4}) {
    if (stages % 2 == 0) sketches.push_back(sketch(stages / 2, segment.tp, m, recompute));
  }
  if (deeper) sketches.push_back(sketch(stages * 2, 1, mb, recompute));
  sketches.push_back(sketch(stages, segment.tp * 2, mb, recompute));
  std::vector<Plan> plans;
  for (const Sketch& one : sketches) {
    const bool divides = one.tp.front() >= 1 && one.devices % one.tp.front() == 0;
    if (!divides) continue;
    const Plan plan = plan_of(one, model);
    if (usable(plan, setting, task)) plans.push_back(plan);
  }
  return plans;
}

// The first of a list that has not been tried.
template <std::vector<Plan> (*list)(const Setting&, const SearchTask&)>
std::vector<Plan> next_of(const Setting& setting, const SearchTask& task) {
  const std::string incumbent = semantic_hash(setting.incumbent);
  const std::string initial = semantic_hash(setting.initial);
  for (const Plan& plan : list(setting, task)) {
    const std::string hash = semantic_hash(plan);
    if (hash != incumbent && hash != initial && usable(plan, setting, task)) return {plan};
  }
  return {};
}

struct Planner {
  std::string_view name;
  std::vector<Plan> (*plans)(const Setting&, const SearchTask&);
};
constexpr Planner kPlanners[] = {{"random", random_plans},
                                 {"hill-climb", neighbouring_plans},
                                 {"grid", next_of<grid_of<false>>},
                                 {"grid-fast", next_of<grid_of<true>>},
                                 {"sweep", next_of<sweep_of>}};

constexpr double kCautious = 0.92;      // of a device's memory: what people leave free
constexpr std::uint64_t kByHand = 300;  // plans that somebody may have looked at
constexpr std::size_t kPlansByHand = 20;
constexpr std::uint64_t kLonger = 4;           // times as many, where nothing has fitted so far
constexpr std::uint64_t kMostTried = 100'000;  // then the other strategy

tuner::SearchOptions options_of(const SimulationInput& input, std::uint64_t evaluations) {
  tuner::SearchOptions options;
  options.seed = input.seed;
  options.max_evaluations = evaluations;
  options.plans = kPlansByHand;
  return options;
}

// The worst first: it is the tuner's to find the others.
std::vector<Plan> worst_first(const SearchResult& result) {
  std::vector<Plan> plans;
  for (const RankedPlan& ranked : result.plans) plans.insert(plans.begin(), ranked.plan);
  return plans;
}

// What a short search with the costs that the tuner has finds on devices with less memory.
Result<std::vector<Plan>> plans_by_hand(const SimulationInput& input) {
  Cluster cluster = input.cluster;
  for (Node& node : cluster.nodes) {
    node.memory_bytes = static_cast<Bytes>(kCautious * static_cast<double>(node.memory_bytes));
  }
  TRIMTAB_TRY(tuner::CostTable table, tuner::CostTable::build(input.model, cluster, input.costs, {true}));
  TRIMTAB_TRY(const tuner::SearchOutcome outcome,
              tuner::search(tuner::NativeCostModel(std::move(table)), input.job.knobs, options_of(input, kByHand)));
  return worst_first(outcome.result);
}

std::optional<Plan> first_that_fits(const std::vector<Plan>& plans, GroundTruth& truth) {
  for (const Plan& plan : plans) {
    if (truth.price(plan).fits) return plan;
  }
  return std::nullopt;
}

// Whoever trains this job has found a plan that lives, however long that took. Searches that know how much memory is
// truly needed, the shortest first, so that it is no better a plan than it must be.
Result<Plan> plan_by_trying(const SimulationInput& input, GroundTruth& truth) {
  std::string why;
  for (const char* strategy : {"aceso", "unified"}) {
    const bool is_first = std::string_view(strategy) == "aceso";
    for (std::uint64_t tried = is_first ? kByHand : kMostTried; tried <= kMostTried; tried *= kLonger) {
      tuner::SearchOptions options = options_of(input, tried);
      options.strategy = strategy;
      TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(truth.cost_model(), input.job.knobs, options));
      if (auto plan = first_that_fits(worst_first(outcome.result), truth)) return *std::move(plan);
      why = outcome.infeasible;
      if (outcome.result.stopped != "budget") break;
    }
  }
  return no("no plan to begin with was found that truly fits into memory: " + why +
            ". Give the job more devices or memory, or name a plan in the job file: initial_plan = ...");
}

}  // namespace

std::vector<std::string_view> unmodelled_planners() {
  std::vector<std::string_view> names;
  for (const Planner& one : kPlanners) names.push_back(one.name);
  return names;
}

SearchReply unmodelled_plans(std::string_view planner, const SearchTask& task, double incumbent_ms) {
  const auto setting = read(task);
  SearchReply failed;
  if (!setting.ok()) failed.error = setting.error().message;
  if (!setting.ok()) return failed;
  const auto* const one = std::ranges::find(kPlanners, planner, &Planner::name);
  TRIMTAB_ASSERT(one != std::end(kPlanners), "a planner that there is");
  return reply_of(*setting, task, one->plans(*setting, task), incumbent_ms);
}

std::vector<Plan> plain_plans(const Model& model, const Cluster& cluster, const Knobs& knobs, std::uint64_t seed) {
  std::vector<Plan> plans{tuner::usual_guess(model, cluster, knobs)};
  for (std::int32_t stages = cluster.devices(); stages >= 1; --stages) {
    if (cluster.devices() % stages != 0 || std::cmp_greater(stages, model.operators.size())) continue;
    for (std::int32_t microbatch = 1; microbatch <= model.global_batch; microbatch *= 2) {
      plans.push_back(plan_of(even_sketch(model, cluster, stages, 1, microbatch, true), model));
    }
  }
  Random random(seed);
  for (int i = 0; i < kPlainAtRandom; ++i)
    plans.push_back(plan_of(random_sketch(model, cluster, false, random), model));
  std::erase_if(plans, [&](const Plan& plan) { return !executable(plan, model, cluster, knobs); });
  return plans;
}

Result<std::string> initial_plan(const SimulationInput& input, GroundTruth& truth) {
  if (!input.job.initial_plan_json.empty()) {
    const PlanText text(input.job.initial_plan_json, "");
    const Plan* const plan = text.said();
    // A plan that breaks a rule is the tuning machine's to refuse.
    if (plan == nullptr || !tuner::validate(*plan, input.model, input.cluster).empty())
      return input.job.initial_plan_json;
    const Prediction prediction = truth.cost_model().evaluate(*plan);
    if (prediction.priced()) return input.job.initial_plan_json;
    return bad_input("the job's initial plan is not priced, so nothing can be simulated: " +
                     prediction.missing_costs.front());
  }
  if (const auto plan = first_that_fits(plain_plans(input.model, input.cluster, input.job.knobs, input.seed), truth)) {
    return to_json(*plan);
  }
  TRIMTAB_TRY(const std::vector<Plan> by_hand, plans_by_hand(input));
  if (const auto plan = first_that_fits(by_hand, truth)) return to_json(*plan);
  TRIMTAB_TRY(const Plan tried, plan_by_trying(input, truth));
  return to_json(tried);
}

}  // namespace trimtab::coordinator
