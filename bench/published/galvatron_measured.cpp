// The paper's measurements beside predictions of the same plans: Galvatron's own, `galvatron:v1`, and the native model,
// uncalibrated and calibrated by what the paper measured of other systems on the same cluster (replicas, sharded
// replicas, tensor parallelism; none of the rows that are predicted); then of Galvatron with fewer dimensions, whose
// plans `galvatron:v1` finds. Prints Markdown. Needs ../shared/peers (or $TRIMTAB_PEERS).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "../../tests/tuner/galvatron/peer.hpp"
#include "../prediction_errors.hpp"
#include "papers/cost_models.hpp"
#include "papers/galvatron/layerwise_search.hpp"
#include "plan/plan_space.hpp"
#include "skipping.hpp"
#include "tuner/calibration.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT
namespace peer = trimtab::tuner::galvatron::peer;

namespace {

constexpr const char* kWhole = "-whole";  // a published model with embedding and head as operators

// What the published runtime does: parameters are gathered when a layer begins, and microbatches but the last leave
// gradients whole.
void set_target(Plan& plan) {
  plan.schedule.kind = ScheduleKind::kGPipe;
  plan.target_knobs["parameter_prefetch"] = "false";
  plan.target_knobs["gradient_accumulation"] = "\"whole\"";
}

// Over all devices of the stage, as replicas where the microbatch allows it, else as its neighbour.
Segment end_segment(const Stage& stage, const Segment& neighbour, std::int32_t microbatch, std::int32_t op) {
  Segment segment;
  segment.operators = {op, op + 1};
  const auto devices = static_cast<std::int32_t>(stage.devices.size());
  const bool replicas = microbatch % devices == 0;
  segment.dp = replicas ? devices : neighbour.dp;
  segment.tp = devices / segment.dp;
  return segment;
}

// A plan of layers with embedding and head around them.
void add_ends(Plan& plan) {
  plan.model += kWhole;
  std::int32_t last = 0;
  for (Stage& stage : plan.stages) {
    for (Segment& segment : stage.segments) {
      segment.operators = {segment.operators.begin + 1, segment.operators.end + 1};
      last = segment.operators.end;
    }
  }
  Stage& first = plan.stages.front();
  first.segments.insert(first.segments.begin(), end_segment(first, first.segments.front(), plan.microbatch, 0));
  Stage& end = plan.stages.back();
  end.segments.push_back(end_segment(end, end.segments.back(), plan.microbatch, last));
}

// The peer's plan at another batch, and the samples that its last microbatch lacks: the runtime divides a replica's
// samples into as many equal parts as the peer says, the last one smaller. Ranks are neighbours.
struct RowPlan {
  Plan plan;
  std::int32_t lacking = 0;
  bool turned = false;
};

RowPlan native_plan(const peer::Answer& answer, const std::string& model, std::int32_t batch) {
  RowPlan row;
  row.plan = peer::plan_of(peer::model_of(model, batch), answer.devices(), answer.stages, 1, false);
  std::int32_t widest = 1;
  for (Stage& stage : row.plan.stages) {
    for (Segment& segment : stage.segments) {
      widest = std::max(widest, segment.dp);
      row.turned = row.turned || !segment.tp_consecutive;
      segment.tp_consecutive = true;
    }
  }
  const std::int32_t local = (batch + widest - 1) / widest;
  const std::int32_t parts = std::min(answer.stages.size() > 1 ? answer.microbatches : 1, local);
  row.plan.microbatch = (local + parts - 1) / parts * widest;
  row.plan.global_batch = row.plan.microbatch * parts;
  row.lacking = row.plan.global_batch - batch;
  add_ends(row.plan);
  set_target(row.plan);
  return row;
}

// What the plan's step takes, less what the slowest stage would do for the samples that are not there.
double step_ms(const CostModel& cost_model, const RowPlan& row, Prediction& prediction) {
  prediction = cost_model.evaluate(row.plan);
  double slowest = 0;
  for (const StagePrediction& stage : prediction.stages) {
    slowest = std::max(slowest, (stage.forward_ms + stage.backward_ms) / row.plan.microbatch);
  }
  return prediction.iteration_ms - row.lacking * slowest;
}

// One of the other systems: the whole batch at once on all devices.
Plan system_plan(const peer::SystemMeasurement& row, const Model& whole) {
  Plan plan;
  plan.model = whole.name;
  plan.global_batch = plan.microbatch = row.batch;
  Segment segment;
  segment.operators = {0, static_cast<std::int32_t>(whole.operators.size())};
  (row.system == peer::System::kTensor ? segment.tp : segment.dp) = row.devices;
  if (row.system == peer::System::kSharded) segment.sharded = ShardedLevel::kParameters;
  Stage stage;
  for (std::int32_t d = 0; d < row.devices; ++d) stage.devices.push_back(d);
  stage.segments = {segment};
  plan.stages = {stage};
  set_target(plan);
  return plan;
}

// Passes on several ranks were never measured: the profile's formulas share one rank's time perfectly. Without them the
// native model's own estimates count.
std::vector<Cost> measured_costs(const Cluster& cluster) {
  std::vector<Cost> costs = peer::costs_of(cluster);
  std::erase_if(costs,
                [](const Cost& cost) { return cost.key.tp > 1 && cost.key.kind <= CostKind::kOperatorBackward; });
  return costs;
}

std::unique_ptr<CostModel> native_on(const Model& whole, const Cluster& cluster, const Calibration& calibration = {}) {
  auto built = make_cost_model("native", whole, cluster, measured_costs(cluster), {true}, calibration);
  if (!built.ok()) std::fprintf(stderr, "%s\n", built.error().message.c_str());
  return std::move(built).value();
}

Cluster cluster_of(const std::string& model, std::int32_t devices, std::int32_t gib) {
  return peer::cluster_of(peer::model_of(model, 8), devices / 8, 8, gib);
}

using bench::Errors;

const char* name_of(peer::System system) {
  switch (system) {
    case peer::System::kReplicas:
      return "replicas";
    case peer::System::kSharded:
      return "sharded";
    case peer::System::kTensor:
      return "tensor parallel";
    case peer::System::kReplicasAndTensor:
      return "replicas and tensor parallel";
    case peer::System::kReplicasAndPipeline:
      break;
  }
  return "replicas and pipelines";
}

// Calibrations by count of devices, and the other systems' rows.
std::map<std::int32_t, Calibration> other_systems() {
  std::printf(
      "| system | setting | measured: batch, samples/s | native | error | calibrated | error "
      "|\n|---|---|---|---|---|---|"
      "---|\n");
  std::map<std::int32_t, std::vector<Observation>> seen;
  for (const peer::SystemMeasurement& row : peer::system_measurements()) {
    const Model whole = peer::model_of(row.model + kWhole, row.batch);
    const Plan plan = system_plan(row, whole);
    const Prediction prediction = native_on(whole, cluster_of(row.model, row.devices, row.gib))->evaluate(plan);
    for (const std::string& name : prediction.missing_costs) std::fprintf(stderr, "missing: %s\n", name.c_str());
    seen[row.devices].push_back({plan, prediction, row.batch / row.rate * 1000, 0, {}, {}, 0.02, {}});
  }
  std::map<std::int32_t, Calibration> calibrations;
  for (const auto& [devices, observations] : seen) calibrations[devices] = calibrate(observations);
  std::map<peer::System, Errors> errors;
  std::map<std::int32_t, std::size_t> next;
  Errors all;
  Errors calibrated;
  for (const peer::SystemMeasurement& row : peer::system_measurements()) {
    const Observation& one = seen[row.devices][next[row.devices]++];
    const double rate = row.batch * 1000 / one.prediction.iteration_ms;
    const Model whole = peer::model_of(row.model + kWhole, row.batch);
    const auto model = native_on(whole, cluster_of(row.model, row.devices, row.gib), calibrations[row.devices]);
    const double better = row.batch * 1000 / model->evaluate(one.plan).iteration_ms;
    errors[row.system].add(rate, row.rate);
    const double error = all.add(rate, row.rate);
    std::printf("| %s | %s, %d x %d GiB | %d, %.2f | %.2f | %+.1f %% | %.2f | %+.1f %% |\n", name_of(row.system),
                row.model.c_str(), row.devices, row.gib, row.batch, row.rate, rate, error, better,
                calibrated.add(better, row.rate));
  }
  std::printf("\n");
  for (const auto& [system, of] : errors) of.print(name_of(system));
  all.print("all");
  calibrated.print("all, calibrated by these very rows");
  for (const auto& [devices, of] : calibrations) {
    std::printf("* %d devices: computation x %.3f, communication x %.3f, %.0f ms a step more, from %d rows\n", devices,
                of.computation.value, of.communication.value, of.fixed_ms, of.observations);
  }
  std::printf("\n");
  return calibrations;
}

// How many.
int galvatron_rows(std::map<std::int32_t, Calibration>& calibrations) {
  std::printf(
      "| setting | measured: batch, samples/s | peer: batch, samples/s | error | v1 at that batch | error | native at "
      "that batch | error | calibrated | error | note |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  Errors by_peer;
  Errors by_v1;
  Errors by_native;
  Errors by_calibrated;
  Errors one_stage;
  Errors pipelines;
  Errors same_batch;
  for (const peer::Measurement& row : peer::measurements()) {
    const auto found = std::find_if(peer::answers().begin(), peer::answers().end(), [&](const peer::Answer& answer) {
      return answer.version == "v1" && answer.model == row.model && answer.devices() == row.devices &&
             answer.gib == row.gib;
    });
    if (found == peer::answers().end() || found->batch == 0) continue;
    const Model layers = peer::model_of(row.model, row.batch);
    const RowPlan ours = native_plan(*found, row.model, row.batch);
    const Plan& plan = ours.plan;
    const Model whole = peer::model_of(row.model + kWhole, plan.global_batch);
    const Cluster cluster = cluster_of(row.model, row.devices, row.gib);
    const Plan published = peer::plan_of(layers, row.devices, found->stages, 1, false);
    const double v1 =
        row.batch * 1000 / peer::cost_model_of("galvatron:v1", layers, cluster)->evaluate(published).iteration_ms;
    Prediction prediction;
    Prediction calibrated;
    const double rate = row.batch * 1000 / step_ms(*native_on(whole, cluster), ours, prediction);
    const double better =
        row.batch * 1000 / step_ms(*native_on(whole, cluster, calibrations[row.devices]), ours, calibrated);
    std::string note = std::to_string(plan.stages.size()) + (plan.stages.size() == 1 ? " stage" : " stages, ") +
                       (plan.stages.size() == 1 ? "" : std::to_string(plan.microbatches()) + " microbatches");
    if (row.batch != row.peer_batch) note += "; the peer's plan is for another batch";
    if (ours.lacking > 0) note += ", the last one smaller";
    if (ours.turned) note += "; strided ranks priced as neighbours";
    if (!prediction.missing_costs.empty()) note += "; missing: " + prediction.missing_costs.front();
    const double of_native = by_native.add(rate, row.rate);
    (plan.stages.size() == 1 ? one_stage : pipelines).add(rate, row.rate);
    if (row.batch == row.peer_batch) same_batch.add(rate, row.rate);
    std::printf(
        "| %s, %d x %d GiB | %d, %.2f | %d, %.2f | %+.1f %% | %.2f | %+.1f %% | %.2f | %+.1f %% | %.2f | %+.1f %% | %s "
        "|\n",
        row.model.c_str(), row.devices, row.gib, row.batch, row.rate, row.peer_batch, row.peer_rate,
        by_peer.add(row.peer_rate, row.rate), v1, by_v1.add(v1, row.rate), rate, of_native, better,
        by_calibrated.add(better, row.rate), note.c_str());
  }
  std::printf("\n");
  by_peer.print("the peer, at its own batch");
  by_v1.print("galvatron:v1, at the measured batch");
  by_native.print("native");
  one_stage.print("native, plans of one stage");
  pipelines.print("native, pipelines");
  same_batch.print("native, where the peer's plan is for the measured batch");
  by_calibrated.print("native, calibrated by the other systems' rows");
  return by_native.rows;
}

// Runs of equal layers in the peer's notation.
std::vector<std::string> runs_of(const galvatron::StageLayers& stage, std::int32_t stages) {
  std::vector<std::string> runs;
  for (std::size_t at = 0; at < stage.strategies.size();) {
    std::size_t end = at;
    while (end < stage.strategies.size() && stage.strategies[end] == stage.strategies[at]) ++end;
    runs.push_back(stage.strategies[at].text(stages) + " x" + std::to_string(end - at));
    at = end;
  }
  return runs;
}

// What Galvatron's search finds for the row with its dimensions alone, by its own formulas; batch 0 = nothing fits.
peer::Answer limited_answer(const peer::SystemMeasurement& row) {
  peer::Answer answer;
  answer.version = "v1";
  answer.model = row.model;
  answer.nodes = row.devices / 8;
  answer.gib = row.gib;
  const Model model = peer::model_of(row.model, row.batch);
  const auto priced = peer::cost_model_of("galvatron:v1", model, cluster_of(row.model, row.devices, row.gib));
  const galvatron::Formulas& formulas = static_cast<const GalvatronCostModel&>(*priced).formulas();
  galvatron::LayerwiseSpace space;
  space.batch = row.batch;
  space.microbatches = allowed_microbatches(model);
  for (std::int32_t cut = 1; cut < static_cast<std::int32_t>(model.operators.size()); ++cut) space.cuts.push_back(cut);
  space.recompute = space.sharded = false;
  const bool pipelines = row.system == peer::System::kReplicasAndPipeline;
  space.stages_max = pipelines ? row.devices : 1;
  space.tensor_parallel = pipelines ? std::vector<std::int32_t>{1} : std::vector<std::int32_t>{1, 2, 4, 8, 16};
  const auto plan = galvatron::LayerwiseSearch(formulas, space, nullptr, [] { return false; }).run();
  if (!plan) return answer;
  answer.batch = row.batch;
  const auto stages = static_cast<std::int32_t>(plan->stages.size());
  for (const galvatron::StageLayers& stage : plan->stages) answer.stages.push_back(runs_of(stage, stages));
  const auto own = formulas.own_microbatches(plan->stages.front().strategies.front(), row.batch, stages);
  answer.microbatches = static_cast<std::int32_t>(std::ceil(own.value_or(1)));
  return answer;
}

struct Limited {
  int priced = 0;
  int unfit = 0;
};

Limited limited_rows(std::map<std::int32_t, Calibration>& calibrations) {
  std::printf(
      "\n| dimensions | setting | measured: batch, samples/s | native | error | calibrated | error | plan "
      "|\n|---|---|---|---|---|---|---|---|\n");
  std::map<peer::System, Errors> errors;
  Errors all;
  Errors all_calibrated;
  Limited rows;
  for (const peer::SystemMeasurement& row : peer::limited_measurements()) {
    const peer::Answer answer = limited_answer(row);
    const std::string setting =
        row.model + ", " + std::to_string(row.devices) + " x " + std::to_string(row.gib) + " GiB";
    if (answer.batch == 0) {
      std::printf("| %s | %s | %d, %.2f | | | | | nothing fits by the peer's formulas |\n", name_of(row.system),
                  setting.c_str(), row.batch, row.rate);
      ++rows.unfit;
      continue;
    }
    const RowPlan ours = native_plan(answer, row.model, row.batch);
    const Model whole = peer::model_of(row.model + kWhole, ours.plan.global_batch);
    const Cluster cluster = cluster_of(row.model, row.devices, row.gib);
    Prediction prediction;
    const double rate = row.batch * 1000 / step_ms(*native_on(whole, cluster), ours, prediction);
    const double better =
        row.batch * 1000 / step_ms(*native_on(whole, cluster, calibrations[row.devices]), ours, prediction);
    std::string text;
    for (const std::vector<std::string>& stage : answer.stages) {
      text += text.empty() ? "" : " / ";
      for (std::size_t i = 0; i < stage.size(); ++i) text += (i > 0 ? ", " : "") + stage[i];
    }
    errors[row.system].add(rate, row.rate);
    std::printf("| %s | %s | %d, %.2f | %.2f | %+.1f %% | %.2f | %+.1f %% | %s |\n", name_of(row.system),
                setting.c_str(), row.batch, row.rate, rate, all.add(rate, row.rate), better,
                all_calibrated.add(better, row.rate), text.c_str());
  }
  std::printf("\n");
  for (const auto& [system, of] : errors) of.print(name_of(system));
  all.print("native, fewer dimensions");
  all_calibrated.print("native, fewer dimensions, calibrated by the other systems' rows");
  rows.priced = all.rows;
  return rows;
}

// Whether every row has its price or its reason.
bool print_unpriced(int priced, int unfit) {
  const peer::OwnRows rows = peer::own_rows();
  std::printf(
      "\n## Rows without a price\n\n"
      "Tables II and III have %d measured rows of Galvatron itself. %d are priced above. The others:\n\n"
      "* %d chose among more dimensions (Galvatron-Base, 1F1B+Bi-obj, BMW), recompute among them, which the published "
      "float32 profile\n  has no memory for.\n"
      "* %d ran on A100s. The published float32 times of these models' layers are of RTX TITANs.\n"
      "* %d are of T5-512/4 on RTX TITANs. Nobody published its layers.\n"
      "* Of %d nothing fits by the peer's formulas.\n",
      rows.measured, priced, rows.recompute, rows.other_gpus, rows.other_models, unfit);
  return priced + rows.recompute + rows.other_gpus + rows.other_models + unfit == rows.measured;
}

}  // namespace

int main() {
  if (peer::published() == nullptr) return trimtab::test::say_skipped();
  std::map<std::int32_t, Calibration> calibrations = other_systems();
  const int whole = galvatron_rows(calibrations);
  const Limited limited = limited_rows(calibrations);
  return print_unpriced(whole + limited.priced, limited.unfit) ? 0 : 1;
}
