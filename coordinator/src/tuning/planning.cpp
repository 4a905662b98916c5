#include "tuning/planning.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/result.hpp"
#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "schema/target.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/cost_table.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "tuning/near_copies.hpp"

namespace trimtab::coordinator {
namespace {

// Parsed inputs of a search, and the two cost models: as published by measurement, and as corrected by trials.
struct Setting {
  Model model;
  Cluster cluster;
  Plan initial;
  Plan incumbent;
};

bool limited(const std::string& target) {
  return !target.empty() && target != "trainer";
}

Result<Plan> initial_plan(const SearchTask& task, const Model& model, const Cluster& cluster) {
  Plan plan;
  if (task.initial_plan_json.empty()) {
    plan = tuner::usual_guess(model, cluster, task.knobs);
    // Targets recompute layers alone, if anything; nothing recomputed is what every target runs.
    if (limited(task.target)) plan = layout_of(plan);
  } else {
    TRIMTAB_TRY(plan, parse_plan(task.initial_plan_json, "the job's initial plan"));
  }
  std::vector<std::string> broken = tuner::validate(plan, model, cluster);
  if (broken.empty() && !task.target.empty()) {
    TRIMTAB_TRY(broken, unhonoured(plan, model, task.target));
  }
  if (broken.empty()) return plan;
  std::string message = "the initial plan cannot be executed: ";
  for (const std::string& one : broken) message += one + "; ";
  return bad_input(message + "correct it, or leave initial_plan out of the job file");
}

Result<Setting> read_setting(const SearchTask& task) {
  Setting setting;
  TRIMTAB_TRY(setting.model, parse_model(task.model_json, "the job's model"));
  TRIMTAB_TRY(setting.cluster, parse_cluster(task.cluster_json, "the job's cluster"));
  TRIMTAB_TRY(setting.initial, initial_plan(task, setting.model, setting.cluster));
  setting.incumbent = setting.initial;
  if (!task.incumbent_json.empty()) {
    TRIMTAB_TRY(setting.incumbent, parse_plan(task.incumbent_json, "the incumbent"));
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

Result<std::vector<tuner::Observation>> observations(const SearchTask& task, const tuner::CostModel& raw) {
  std::vector<tuner::Observation> all;
  for (const MeasuredPlan& measured : task.observations) {
    TRIMTAB_TRY(Plan plan, parse_plan(measured.plan.json, "a measured plan"));
    Prediction prediction = raw.evaluate(plan);
    auto peaks = stage_peaks(plan, measured.peak_bytes);
    all.push_back({std::move(plan), std::move(prediction), measured.measured_ms, measured.sigma_ms, std::move(peaks)});
  }
  return all;
}

Result<tuner::Calibration> calibration_for(const SearchTask& task, const std::vector<tuner::Observation>& seen) {
  if (!seen.empty()) return tuner::calibrate(seen);
  if (task.calibration_json.empty()) return tuner::Calibration{};
  return tuner::parse_calibration(task.calibration_json);
}

Predicted predicted(const Prediction& raw, const Prediction& calibrated) {
  return {raw.iteration_ms, calibrated.iteration_ms, calibrated.interval_low_ms, calibrated.interval_high_ms,
          calibrated.feasible};
}

Candidate candidate(const Plan& plan, const tuner::CostModel& raw, const tuner::CostModel& calibrated) {
  const Prediction prediction = calibrated.evaluate(plan);
  return {{to_json(plan), semantic_hash(plan)},
          semantic_hash(layout_of(plan)),
          predicted(raw.evaluate(plan), prediction),
          to_json(prediction)};
}

std::string timeline_json(const tuner::CostModel& cost_model, const Plan& plan) {
  nlohmann::json events = nlohmann::json::array();
  for (const tuner::TimelineEvent& event : cost_model.timeline(plan)) {
    events.push_back({{"stage", event.stage},
                      {"kind", to_string(event.kind)},
                      {"microbatch", event.microbatch},
                      {"begin_ms", event.begin_ms},
                      {"end_ms", event.end_ms}});
  }
  return events.dump();
}

// The peaks of plans that are predicted alike differ by this share of them, and so do those of one plan's ranks.
constexpr double kPeakNoise = 0.015;

// The most memory that a plan may be predicted to need, of `limit`, once another that was predicted to need `predicted`
// ran out of it: less than that one, and as much less than the limit as the prediction was too hopeful, with room for
// noise: a plan at the very edge would run out every second time.
Bytes allowed_after(Bytes limit, Bytes predicted, double peak) {
  const Bytes less = limit == 0 ? predicted - 1 : std::min(limit, predicted - 1);
  if (limit == 0 || peak <= static_cast<double>(predicted)) return less;
  const double hopeful = static_cast<double>(limit) * static_cast<double>(predicted) / peak;
  return std::min(less, static_cast<Bytes>(hopeful * (1 - kPeakNoise)));
}

// The search sees smaller devices after plans ran out of memory; nothing where no device shrinks.
Result<std::optional<Cluster>> cluster_to_search(const SearchTask& task, const Setting& setting,
                                                 const tuner::CostModel& calibrated) {
  Cluster cluster = setting.cluster;
  bool smaller = false;
  for (const TooBig& one : task.too_big) {
    TRIMTAB_TRY(const Plan plan, parse_plan(one.plan_json, "a plan that ran out of memory"));
    Bytes predicted = 0;
    for (const StagePrediction& stage : calibrated.evaluate(plan).stages) {
      predicted = std::max(predicted, stage.memory_bytes);
    }
    if (predicted <= 1) continue;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      const Bytes limit = setting.cluster.nodes[i].memory_bytes;
      const Bytes allowed = allowed_after(limit, predicted, one.peak_bytes);
      Bytes& searched = cluster.nodes[i].memory_bytes;
      if (searched != 0 && searched <= allowed) continue;
      searched = allowed;
      smaller = true;
    }
  }
  return smaller ? std::optional(std::move(cluster)) : std::nullopt;
}

Status search(const SearchTask& task, const Setting& setting, const tuner::CostModel& raw,
              const tuner::CostModel& calibrated, const std::function<bool()>& stop, SearchReply& reply) {
  tuner::SearchOptions options;
  options.seed = task.seed;
  options.max_evaluations = task.max_evaluations;
  options.stop = stop;
  options.start = setting.incumbent;
  options.plans = task.plans;
  options.distinct = kLeastDifference;
  options.excluded = task.excluded;
  options.target = task.target;
  if (limited(task.target)) {
    options.strategy = "target";
    options.space = "all";
  }
  TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(calibrated, task.knobs, options));
  for (const RankedPlan& ranked : outcome.result.plans) {
    if (!limited(task.target) && !tuner::validate(ranked.plan, setting.model, setting.cluster, task.knobs).empty()) {
      continue;
    }
    reply.candidates.push_back(candidate(ranked.plan, raw, calibrated));
  }
  reply.infeasible = outcome.infeasible;
  reply.evaluations = outcome.result.evaluations;
  reply.stopped = outcome.result.stopped;
  if (!outcome.result.plans.empty()) reply.explanation = tuner::explain(outcome, setting.model);
  return {};
}

Result<SearchReply> plan_all(const SearchTask& task, const std::function<bool()>& stop) {
  TRIMTAB_TRY(const Setting setting, read_setting(task));
  // Gaps that benchmarks could not fill are estimated; predictions name them.
  TRIMTAB_TRY(const tuner::CostTable table,
              tuner::CostTable::build(setting.model, setting.cluster, task.costs, {true}));
  const tuner::NativeCostModel raw(table);
  TRIMTAB_TRY(const std::vector<tuner::Observation> seen, observations(task, raw));
  TRIMTAB_TRY(const tuner::Calibration calibration, calibration_for(task, seen));
  const tuner::NativeCostModel calibrated(table, calibration);
  SearchReply reply;
  reply.calibration_json = tuner::to_json(calibration);
  reply.initial = candidate(setting.initial, raw, calibrated);
  reply.incumbent = candidate(setting.incumbent, raw, calibrated);
  for (const tuner::Observation& one : seen) {
    reply.observed.push_back(
        {semantic_hash(layout_of(one.plan)), predicted(one.prediction, calibrated.evaluate(one.plan))});
  }
  if (task.price_only) {
    reply.initial_timeline_json = timeline_json(calibrated, setting.initial);
    reply.incumbent_timeline_json = timeline_json(calibrated, setting.incumbent);
    return reply;
  }
  TRIMTAB_TRY(const std::optional<Cluster> smaller, cluster_to_search(task, setting, calibrated));
  if (!smaller) {
    TRIMTAB_TRY_STATUS(search(task, setting, raw, calibrated, stop, reply));
    return reply;
  }
  TRIMTAB_TRY(const tuner::CostTable table_of_smaller,
              tuner::CostTable::build(setting.model, *smaller, task.costs, {true}));
  TRIMTAB_TRY_STATUS(search(task, setting, raw, tuner::NativeCostModel(table_of_smaller, calibration), stop, reply));
  return reply;
}

}  // namespace

SearchReply plan_search(const SearchTask& task, const Clock& clock, const std::function<bool()>& stop) {
  const Nanoseconds begin = clock.monotonic();
  const auto out_of_time = [&] {
    return stop() || (task.time_budget.count() > 0 && clock.monotonic() - begin > task.time_budget);
  };
  auto result = plan_all(task, out_of_time);
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
