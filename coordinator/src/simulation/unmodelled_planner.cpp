#include "simulation/unmodelled_planner.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "schema/plan.hpp"
#include "tuner/cost_model.hpp"
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
  TRIMTAB_TRY(setting.cluster, parse_cluster(task.cluster_json, "the cluster"));
  setting.initial = tuner::usual_guess(setting.model, setting.cluster, task.knobs);
  if (!task.initial_plan_json.empty()) {
    TRIMTAB_TRY(setting.initial, parse_plan(task.initial_plan_json, "the initial plan"));
  }
  setting.incumbent = setting.initial;
  if (!task.incumbent_json.empty()) {
    TRIMTAB_TRY(setting.incumbent, parse_plan(task.incumbent_json, "the incumbent"));
  }
  TRIMTAB_TRY(tuner::CostTable table, tuner::CostTable::build(setting.model, setting.cluster, task.costs, {true}));
  setting.cost_model.emplace(std::move(table));
  return setting;
}

// A plan of few words: what a person or a grid would write down.
struct Sketch {
  std::int32_t microbatch = 1;
  std::vector<std::int32_t> begins;   // of each stage's operators
  std::vector<std::int32_t> devices;  // of each stage
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
    segment.dp = sketch.devices[s] / sketch.tp[s];
    if (segment.dp > 1) segment.sharded = sketch.sharded;
    if (sketch.recompute[s]) segment.recompute = {segment.operators};
    Stage stage;
    for (std::int32_t i = 0; i < sketch.devices[s]; ++i) stage.devices.push_back(device++);
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
  for (std::int32_t s = 0; s < stages; ++s) {
    sketch.begins.push_back(s == 0 ? 0 : cut_near(model, s, stages, 0));
    sketch.devices.push_back(cluster.devices() / stages);
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
  for (std::int32_t s = 0; s < stages; ++s) {
    const double shift = 0.8 * (random.uniform() - 0.5);
    sketch.begins.push_back(s == 0 ? 0 : cut_near(model, s, stages, shift));
    sketch.devices.push_back(cluster.devices() / stages);
    sketch.tp.push_back(tensor_parallel ? power_up_to(sketch.devices.back(), random) : 1);
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

Candidate candidate(const Plan& plan, double ms) {
  const std::string hash = semantic_hash(plan);
  return {{to_json(plan), hash}, hash, {ms, ms, ms, ms, true}, "{}"};
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

std::vector<Plan> grid_of(const Setting& setting, const SearchTask& task, bool fast) {
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

using Listing = std::function<std::vector<Plan>(const Setting&, const SearchTask&)>;

// The first of a list that has not been tried.
SearchReply next_of(const SearchTask& task, double incumbent_ms, const Listing& listing) {
  auto setting = read(task);
  SearchReply failed;
  if (!setting.ok()) failed.error = setting.error().message;
  if (!setting.ok()) return failed;
  const std::string incumbent = semantic_hash(setting->incumbent);
  const std::string initial = semantic_hash(setting->initial);
  for (const Plan& plan : listing(*setting, task)) {
    const std::string hash = semantic_hash(plan);
    if (hash == incumbent || hash == initial || !usable(plan, *setting, task)) continue;
    return reply_of(*setting, task, {plan}, incumbent_ms);
  }
  return reply_of(*setting, task, {}, incumbent_ms);
}

}  // namespace

SearchReply grid_plans(const SearchTask& task, double incumbent_ms, bool fast) {
  return next_of(task, incumbent_ms,
                 [fast](const Setting& setting, const SearchTask& of) { return grid_of(setting, of, fast); });
}

SearchReply swept_plans(const SearchTask& task, double incumbent_ms) {
  return next_of(task, incumbent_ms, sweep_of);
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

SearchReply random_plans(const SearchTask& task, double incumbent_ms) {
  auto setting = read(task);
  SearchReply failed;
  if (!setting.ok()) failed.error = setting.error().message;
  if (!setting.ok()) return failed;
  Random random(task.seed * 7919 + 17);
  std::vector<Plan> plans;
  for (int i = 0; i < kAttempts && plans.empty(); ++i) {
    Sketch sketch = random_sketch(setting->model, setting->cluster, task.knobs.tensor_parallel, random);
    if (task.knobs.sharded) sketch.sharded = kLevels[random.below(kLevels.size())];
    const Plan plan = plan_of(sketch, setting->model);
    if (usable(plan, *setting, task)) plans.push_back(plan);
  }
  return reply_of(*setting, task, plans, incumbent_ms);
}

SearchReply neighbouring_plans(const SearchTask& task, double incumbent_ms) {
  auto setting = read(task);
  SearchReply failed;
  if (!setting.ok()) failed.error = setting.error().message;
  if (!setting.ok()) return failed;
  const Model& model = setting->model;
  const Plan& from = setting->incumbent;
  const auto stages = static_cast<std::int32_t>(from.stages.size());
  const Segment& segment = from.stages.front().segments.front();
  const bool recompute = !segment.recompute.empty();
  const std::int32_t mb = from.microbatch;
  const auto sketch = [&](std::int32_t s, std::int32_t tp, std::int32_t m, bool rc) {
    return even_sketch(model, setting->cluster, s, tp, m, rc);
  };
  std::vector<Sketch> sketches{sketch(stages, segment.tp, mb, !recompute),
                               sketch(stages, segment.tp, mb * 2, recompute)};
  if (mb > 1) sketches.push_back(sketch(stages, segment.tp, mb / 2, recompute));
  const bool deeper = setting->cluster.devices() % (2 * stages) == 0;
  for (const std::int32_t m : {mb, mb * 2, mb * 4}) {
    if (stages % 2 == 0) sketches.push_back(sketch(stages / 2, segment.tp, m, recompute));
  }
  if (deeper) sketches.push_back(sketch(stages * 2, 1, mb, recompute));
  sketches.push_back(sketch(stages, segment.tp * 2, mb, recompute));
  std::vector<Plan> plans;
  for (const Sketch& one : sketches) {
    const bool divides = one.tp.front() >= 1 && one.devices.front() % one.tp.front() == 0;
    if (!divides) continue;
    const Plan plan = plan_of(one, model);
    if (usable(plan, *setting, task)) plans.push_back(plan);
  }
  return reply_of(*setting, task, plans, incumbent_ms);
}

}  // namespace trimtab::coordinator
