#include "tuning/search/planning.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "base/result.hpp"
#include "schema/plan.hpp"
#include "schema/plan_words.hpp"
#include "schema/prediction.hpp"
#include "schema/target.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/cost_table.hpp"
#include "tuner/first_plan.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "tuning/hardware/changed_hardware.hpp"
#include "tuning/search/memory_boundary.hpp"
#include "tuning/search/near_copies.hpp"
#include "tuning/search/own_planning.hpp"
#include "tuning/search/plan_likeness.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {
namespace {

// Parsed inputs of a search, and the two cost models: as published by measurement, and as corrected by trials.
struct Setting {
  Model model;
  Cluster cluster;
  Plan initial;
  Plan incumbent;
};

bool shares_as_allowed(const Plan& plan, const Knobs& knobs) {
  if (!tuner::shares_sequences(plan)) return true;
  const bool context = std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return std::ranges::any_of(stage.segments, [](const Segment& of) { return of.cp > 1; });
  });
  return context ? knobs.context_parallel : knobs.sequence_parallel;
}

Result<Plan> initial_plan(const SearchTask& task, const Model& model, const Cluster& cluster) {
  Plan plan;
  const bool named = !task.initial.empty();
  if (!named) {
    plan = tuner::first_plan(model, cluster, task.knobs, task.target);
  } else {
    TRIMTAB_TRY(plan, task.initial.needed("the job's initial plan"));
  }
  std::vector<std::string> broken = tuner::validate(plan, model, cluster);
  if (task.target.empty() && !shares_as_allowed(plan, task.knobs)) {
    broken.emplace_back(
        "its ranks share sequences (cp above 1, or sequence_parallel beside tp), which the job must name a target for, "
        "or allow by knobs.context_parallel or knobs.sequence_parallel");
  }
  if (broken.empty() && !task.target.empty()) {
    TRIMTAB_TRY(broken, unhonoured(plan, model, task.target));
  }
  if (broken.empty()) return as_run(std::move(plan), task.target);
  std::string message = named ? "the initial plan cannot be executed: "
                              : "the job file names no initial plan, and none is found that " +
                                    std::to_string(cluster.devices()) + " devices can execute: ";
  for (const std::string& one : broken) message += one + "; ";
  return bad_input(message + (named ? "correct it, or leave initial_plan out of the job file: a usual one is used then"
                                    : "name one (initial_plan = \"plan.json\"), or change world_size or the model's "
                                      "global batch so that the devices can share it"));
}

Result<Setting> read_setting(const SearchTask& task) {
  Setting setting;
  TRIMTAB_TRY(setting.model, parse_model(task.model_json, "the job's model"));
  TRIMTAB_TRY(setting.cluster, task.cluster.needed("the job's cluster"));
  TRIMTAB_TRY(setting.initial, initial_plan(task, setting.model, setting.cluster));
  setting.incumbent = setting.initial;
  if (!task.incumbent.empty()) {
    TRIMTAB_TRY(setting.incumbent, task.incumbent.needed("the incumbent"));
  }
  return setting;
}

// The peak of each stage: the most that any of its devices' ranks held.
std::vector<double> stage_peaks(const Plan& plan, const std::vector<double>& by_rank) {
  std::vector<double> peaks;
  if (by_rank.empty()) return peaks;
  for (const Stage& stage : plan.stages) {
    double peak = 0;
    for (const std::int32_t device : stage.devices) {
      if (std::cmp_less(device, by_rank.size())) peak = std::max(peak, by_rank[device]);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

// The passes of each stage: the median of those of its devices' ranks that told of them.
std::vector<double> stage_passes(const Plan& plan, const std::vector<double>& by_rank) {
  std::vector<double> passes;
  if (by_rank.empty()) return passes;
  for (const Stage& stage : plan.stages) {
    std::vector<double> known;
    for (const std::int32_t device : stage.devices) {
      if (std::cmp_less(device, by_rank.size()) && by_rank[device] > 0) known.push_back(by_rank[device]);
    }
    passes.push_back(known.empty() ? 0 : median(std::move(known)));
  }
  return passes;
}

constexpr double kPassNoise = 0.03;  // of what a rank spends in its passes in one step, relative

Result<std::vector<tuner::Observation>> observations(const SearchTask& task, const tuner::CostModel& raw) {
  std::vector<tuner::Observation> all;
  for (const MeasuredPlan& measured : task.observations) {
    TRIMTAB_TRY(Plan plan, measured.plan.needed("a measured plan"));
    Prediction prediction = raw.evaluate(plan);
    auto peaks = stage_peaks(plan, measured.peak_bytes);
    auto passes = stage_passes(plan, measured.pass_ms);
    all.push_back({std::move(plan), std::move(prediction), measured.measured_ms, measured.sigma_ms, std::move(peaks),
                   std::move(passes), kPassNoise / std::sqrt(std::max(measured.pass_steps, 1)), measured.terms});
  }
  return all;
}

// Where learning begins: what earlier jobs learnt, less sure by what may have changed since.
Result<tuner::Calibration> earlier_calibration(const SearchTask& task) {
  if (task.calibration_json.empty()) return tuner::Calibration{};
  TRIMTAB_TRY(const tuner::Calibration earlier, tuner::parse_calibration(task.calibration_json));
  return tuner::aged(earlier, task.shift.computation, task.shift.communication);
}

Predicted predicted(const Prediction& raw, const Prediction& calibrated) {
  if (!raw.priced() || !calibrated.priced()) return {0, 0, 0, 0, false};
  return {raw.iteration_ms, calibrated.iteration_ms, calibrated.interval_low_ms, calibrated.interval_high_ms,
          calibrated.feasible};
}

std::vector<StepTerms> terms_of(const Prediction& prediction) {
  std::vector<StepTerms> terms;
  if (!prediction.priced()) return terms;
  for (const StagePrediction& stage : prediction.stages) terms.push_back(stage.terms);
  return terms;
}

// Of the job's target and its own knobs.
std::string words_of(const Plan& plan, const Model& model, const std::string& target) {
  return words_with_own(plan_words(plan, model, target), plan.own);
}

// `words`: for those who see the plan later.
PricedPlan candidate(const Plan& plan, const std::string& words, const tuner::CostModel& raw,
                     const tuner::CostModel& calibrated) {
  const Prediction prediction = calibrated.evaluate(plan);
  PricedPlan priced{PlanText(plan, words), semantic_hash(layout_of(plan)), predicted(raw.evaluate(plan), prediction),
                    terms_of(prediction)};
  priced.shape = to_json(shape_of(plan));
  return priced;
}

std::vector<Residual> residuals(const std::vector<tuner::Observation>& seen, const tuner::CostModel& calibrated) {
  std::vector<Residual> all;
  for (const tuner::Observation& one : seen) {
    Prediction prediction = calibrated.evaluate(one.plan);
    if (one.measured_ms <= 0 || prediction.iteration_ms <= 0 || !prediction.priced()) continue;
    const double log_ratio = std::log(one.measured_ms / prediction.iteration_ms);
    all.push_back({one.plan, std::move(prediction), log_ratio, one.measured_sigma_ms / one.measured_ms});
  }
  return all;
}

api::Timeline timeline_of(const tuner::CostModel& cost_model, const Plan& plan) {
  api::Timeline bars;
  for (const tuner::TimelineEvent& event : cost_model.timeline(plan)) {
    bars.push_back({event.stage, event.kind, event.microbatch, event.begin_ms, event.end_ms});
  }
  return bars;
}

Bytes fullest(const Prediction& prediction) {
  Bytes most = 0;
  for (const StagePrediction& stage : prediction.stages) most = std::max(most, stage.memory_bytes);
  return most;
}

// Of the plans that ran, where their peaks are known.
std::vector<MemoryNeed> needs(const std::vector<tuner::Observation>& seen, const tuner::NativeCostModel& calibrated) {
  std::vector<MemoryNeed> all;
  for (const tuner::Observation& one : seen) {
    if (one.measured_memory_bytes.empty()) continue;
    all.push_back({fullest(calibrated.evaluate(one.plan)), std::ranges::max(one.measured_memory_bytes)});
  }
  return all;
}

// The largest of those that were predicted to need less than so much.
std::optional<MemoryNeed> largest(const std::vector<MemoryNeed>& ran, Bytes less_than) {
  std::optional<MemoryNeed> most;
  for (const MemoryNeed& need : ran) {
    if (need.predicted < less_than && (!most || need.predicted > most->predicted)) most = need;
  }
  return most;
}

// The search sees smaller devices after plans ran out of memory; nothing where no device shrinks.
Result<std::optional<Cluster>> cluster_to_search(const SearchTask& task, const Setting& setting,
                                                 const std::vector<tuner::Observation>& seen,
                                                 const tuner::NativeCostModel& calibrated) {
  if (task.too_big.empty()) return std::optional<Cluster>();
  const std::vector<MemoryNeed> all_that_ran = needs(seen, calibrated);
  Cluster cluster = setting.cluster;
  bool smaller = false;
  for (const TooBig& one : task.too_big) {
    TRIMTAB_TRY(const Plan plan, one.plan.needed("a plan that ran out of memory"));
    const MemoryNeed too_big{fullest(calibrated.evaluate(plan)), one.peak_bytes};
    if (too_big.predicted <= 1) continue;
    const std::optional<MemoryNeed> ran = largest(all_that_ran, too_big.predicted);
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      const Bytes limit = setting.cluster.nodes[i].memory_bytes;
      const Bytes allowed = allowed_memory(limit, too_big, ran, calibrated.calibration().memory_sigma);
      Bytes& searched = cluster.nodes[i].memory_bytes;
      if (searched != 0 && searched <= allowed) continue;
      searched = allowed;
      smaller = true;
    }
  }
  return smaller ? std::optional(std::move(cluster)) : std::nullopt;
}

constexpr double kMatters = 0.02;         // of a factor: less uncertainty leads to no other plan
constexpr double kExtraTime = 0.2;        // of the time, for each search with other factors
constexpr std::uint64_t kExtraShare = 3;  // of the evaluations, in each search with other factors

// The factors as they are best known, and as they may be: what is best then may be worth a trial now. All classes of
// communication are dear, or all are cheap; copies to and from hosts with them.
std::vector<tuner::Calibration> possible_calibrations(const tuner::Calibration& calibration) {
  std::vector<tuner::Calibration> all{calibration};
  std::array<double, tuner::kCommunicationClasses> sigmas{};
  for (std::size_t k = 0; k < sigmas.size(); ++k) {
    sigmas[k] = tuner::log_sigma(calibration, static_cast<tuner::CommunicationClass>(k));
  }
  if (calibration.observations == 0 || std::ranges::max(sigmas) < kMatters) return all;
  const double common = calibration.communication.log_sigma;
  for (const double luck : {-kLuck, kLuck}) {
    all.push_back(calibration);
    all.back().communication.value *= std::exp(luck * common);
    for (std::size_t k = 0; k < sigmas.size(); ++k)
      all.back().classes[k].value *= std::exp(luck * (sigmas[k] - common));
  }
  return all;
}

// Of the whole task's: `spent` goes from 0 to 1, and stays 0 where only evaluations are limited.
struct Limits {
  std::function<bool()> stop;
  std::function<double()> spent;
};

// From one share of the time to another.
Limits part_of(const Limits& whole, double from, double until) {
  const auto spent = [whole, from, until] { return std::clamp((whole.spent() - from) / (until - from), 0.0, 1.0); };
  return {[whole, spent] { return whole.stop() || spent() >= 1; }, spent};
}

tuner::SearchOptions options_of(const SearchTask& task, const Setting& setting) {
  tuner::SearchOptions options;
  options.strategy = task.strategy.empty() ? kUsualStrategy : task.strategy;
  if (options.strategy == kUsualStrategy) options.first = "aceso";  // which unified is then never worse than
  options.seed = task.seed;
  options.max_evaluations = task.max_evaluations;
  options.start = without_own(setting.incumbent);
  options.plans = task.plans;
  options.distinct = kLeastDifference;
  options.of_a_shape = task.of_a_shape;
  options.excluded = task.excluded;
  options.target = task.target;
  if (limits_plans(task.target)) {
    options.strategy = "target";
    options.first.clear();
    options.space = "all";
    options.live = task.live && changes_live(task.target);
  }
  return options;
}

// What the target itself says of a plan was searched with the target; the rest is the job's to honour.
bool honoured(const SearchTask& task, const Setting& setting, Plan plan) {
  if (limits_plans(task.target)) {
    if (semantic_hash(plan) == semantic_hash(setting.incumbent)) return true;  // whatever it is, it runs
    plan.target_knobs.clear();
  }
  return tuner::validate(plan, setting.model, setting.cluster, task.knobs).empty();
}

// Own knobs have no price: what ran under other settings than the incumbent's teaches nothing of plans.
std::vector<tuner::Observation> under(const OwnSettings& own, const std::vector<tuner::Observation>& seen) {
  std::vector<tuner::Observation> alike;
  std::ranges::copy_if(seen, std::back_inserter(alike),
                       [&](const tuner::Observation& one) { return one.plan.own == own; });
  return alike;
}

// The most promising first: the least time that each may take if it is lucky. As they were found where the incumbent,
// which they are compared to, is not priced.
void rank(const Plan& incumbent, const Residuals& known, const tuner::NativeCostModel& calibrated,
          std::vector<std::pair<Plan, PricedPlan>>& found) {
  const Prediction of_incumbent = calibrated.evaluate(incumbent);
  if (!of_incumbent.priced()) return;
  for (auto& [plan, candidate] : found) {
    const Gain gain = known.gain(incumbent, of_incumbent, plan, calibrated.evaluate(plan));
    candidate.log_gain = gain.log_ratio;
    candidate.gain_sigma = gain.sigma;
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& one) { return promise(one.second); });
}

Status search(const SearchTask& task, const Setting& setting, const tuner::CostTable& table,
              const tuner::CostModel& raw, const tuner::NativeCostModel& calibrated, const Residuals& known,
              const Limits& limits, SearchReply& reply) {
  tuner::SearchOptions options = options_of(task, setting);
  std::vector<std::pair<Plan, PricedPlan>> found;
  std::set<std::string> hashes;
  const std::vector<tuner::Calibration> possibilities = possible_calibrations(calibrated.calibration());
  const double extras = static_cast<double>(possibilities.size() - 1) * kExtraTime;
  double from = 0;
  for (const tuner::Calibration& possible : possibilities) {
    const double until = from == 0 ? 1 - extras : from + kExtraTime;
    const Limits part = part_of(limits, from, until);
    options.stop = part.stop;
    options.spent = part.spent;
    from = until;
    TRIMTAB_TRY(const tuner::SearchOutcome outcome,
                tuner::search(tuner::NativeCostModel(table, possible), task.knobs, options));
    for (const RankedPlan& ranked : outcome.result.plans) {
      Plan plan = ranked.plan;
      plan.own = setting.incumbent.own;
      if (!honoured(task, setting, plan)) continue;
      PricedPlan one = candidate(plan, words_of(plan, setting.model, task.target), raw, calibrated);
      if (hashes.insert(one.plan.hash).second) found.emplace_back(std::move(plan), std::move(one));
    }
    const bool first = reply.evaluations == 0;
    reply.evaluations += outcome.result.evaluations;
    options.max_evaluations = task.max_evaluations / kExtraShare;
    if (!first) continue;
    reply.infeasible = outcome.infeasible;
    reply.stopped = outcome.result.stopped;
    if (!outcome.result.plans.empty()) reply.explanation = tuner::explain(outcome, setting.model);
  }
  if (!task.observations.empty()) rank(setting.incumbent, known, calibrated, found);
  for (auto& [plan, one] : found) reply.candidates.push_back(std::move(one));
  return {};
}

Result<SearchReply> plan_all(const SearchTask& task, const Limits& limits) {
  TRIMTAB_TRY(Setting setting, read_setting(task));
  std::vector<Cost> costs = task.costs;
  const std::int32_t stale = change_links(as_measured(task.link_changes, task.measured_again), setting.cluster, costs);
  supersede(task.measured_again, costs);
  slow_devices(task.slow_devices, setting.cluster);
  // Gaps that benchmarks could not fill are estimated; predictions name them.
  TRIMTAB_TRY(const tuner::CostTable table, tuner::CostTable::build(setting.model, setting.cluster, costs, {true}));
  const tuner::NativeCostModel raw(table);
  TRIMTAB_TRY(const std::vector<tuner::Observation> seen, observations(task, raw));
  TRIMTAB_TRY(const tuner::Calibration earlier, earlier_calibration(task));
  const std::vector<tuner::Observation> alike = under(setting.incumbent.own, seen);
  const tuner::Calibration calibration = tuner::calibrate(table, alike, earlier);
  const tuner::NativeCostModel calibrated(table, calibration);
  const Residuals known(residuals(alike, calibrated), calibration);
  SearchReply reply;
  reply.costs_known = static_cast<std::int32_t>(costs.size());
  reply.costs_stale = stale;
  reply.calibration_json = tuner::to_json(calibration);
  const auto words = [&](const Plan& plan) { return words_of(plan, setting.model, task.target); };
  reply.initial = candidate(setting.initial, words(setting.initial), raw, calibrated);
  reply.incumbent = candidate(setting.incumbent, words(setting.incumbent), raw, calibrated);
  for (const tuner::Observation& one : seen) {
    reply.observed.push_back(
        {semantic_hash(layout_of(one.plan)), predicted(one.prediction, calibrated.evaluate(one.plan))});
  }
  if (task.price_only) {
    reply.initial_timeline = timeline_of(calibrated, setting.initial);
    reply.incumbent_timeline = timeline_of(calibrated, setting.incumbent);
    return reply;
  }
  TRIMTAB_TRY(const std::optional<Cluster> smaller, cluster_to_search(task, setting, alike, calibrated));
  if (!smaller) {
    TRIMTAB_TRY_STATUS(search(task, setting, table, raw, calibrated, known, limits, reply));
  } else {
    TRIMTAB_TRY(const tuner::CostTable smaller_table, tuner::CostTable::build(setting.model, *smaller, costs, {true}));
    TRIMTAB_TRY_STATUS(search(task, setting, smaller_table, raw, calibrated, known, limits, reply));
  }
  TRIMTAB_TRY_STATUS(add_own_plans(task, setting.incumbent, words(without_own(setting.incumbent)), reply.candidates));
  return reply;
}

}  // namespace

SearchReply plan_search(const SearchTask& task, const Clock& clock, const std::function<bool()>& stop) {
  const Nanoseconds begin = clock.monotonic();
  const auto budget = static_cast<double>(task.time_budget.count());
  const auto spent = [&] {
    return budget > 0 ? static_cast<double>((clock.monotonic() - begin).count()) / budget : 0.0;
  };
  auto result = task.model_json.empty() ? plan_own_alone(task) : plan_all(task, {stop, spent});
  SearchReply reply;
  if (result.ok()) {
    reply = std::move(result).value();
  } else {
    reply.error = result.error().message;
  }
  reply.seconds = std::chrono::duration<double>(clock.monotonic() - begin).count();
  return reply;
}

}  // namespace trimtab::coordinator
