#include "papers/oases_cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "papers/answers/answers.hpp"
#include "papers/oases/tables.hpp"
#include "plan/plan_space.hpp"

namespace trimtab::tuner {
namespace {

using oases::Chain;
using oases::Choice;

constexpr double kSubBatches = 2;

double sum(const Chain& chain, const oases::Doubles& of, const Choice& choice) {
  double total = 0;
  for (std::int32_t n = 0; n < chain.nodes; ++n) total += of[chain.at(n, choice[n])];
  return total;
}

StagePrediction predict_stage(const oases::Tables& tables, const Choice& choice, double iteration_ms) {
  const Chain& chain = tables.chain;
  StagePrediction stage;
  stage.forward_ms = stage.recompute_ms = kSubBatches * sum(chain, chain.forward, choice);
  stage.backward_ms = kSubBatches * sum(chain, chain.backward, choice);
  stage.exposed_communication_ms =
      std::max(0.0, iteration_ms - stage.forward_ms - stage.recompute_ms - stage.backward_ms);
  stage.memory_bytes = std::llround(memory_bytes(chain, choice));
  stage.memory.reserved = stage.memory.working = std::llround(chain.buffer[choice.back()]);
  for (std::int32_t n = 0; n < chain.nodes; ++n) {
    const double samples = static_cast<double>(tables.model.global_batch) * chain.degrees[choice[n]] /
                           static_cast<double>(tables.cluster.devices());
    stage.memory.activations += std::llround(static_cast<double>(tables.model.operators[n].activation_bytes) * samples);
  }
  stage.memory.states = stage.memory_bytes - stage.memory.reserved - stage.memory.activations;
  return stage;
}

Prediction not_priced(const oases::Tables& tables, std::int32_t tp) {
  std::string usable;
  for (const std::int32_t degree : tables.chain.degrees) {
    usable += (usable.empty() ? "" : ", ") + std::to_string(degree);
  }
  Prediction prediction;
  prediction.missing_costs = {"tp " + std::to_string(tp) + " for half of its replicas' samples (measured: tp " +
                              usable + ")"};
  prediction.stages.emplace_back();
  prediction.take_price_away();
  return prediction;
}

EventKind computing(RoundPass pass) {
  if (pass == RoundPass::kForward) return EventKind::kForward;
  return pass == RoundPass::kRecompute ? EventKind::kRecompute : EventKind::kBackward;
}

// A backward round computes its recompute first; both stretch alike where communication slows them.
void add_computation(const Round& round, std::int32_t sub_batch, const StreamSpan& span,
                     std::vector<TimelineEvent>& events) {
  double begin = span.begin;
  if (round.pass == RoundPass::kBackward && round.recompute > 0) {
    begin += (span.end - span.begin) * round.recompute / round.computation;
    events.push_back({0, EventKind::kRecompute, sub_batch, span.begin, begin});
  }
  events.push_back({0, computing(round.pass), sub_batch, begin, span.end});
}

void add_events(std::span<const Round> rounds, const OverlapSlowdown& slowdown, std::vector<TimelineEvent>& events) {
  const StreamActions built = stream_actions(rounds);
  std::vector<StreamSpan> spans(built.actions.size());
  run_two_streams(built.actions, slowdown, spans);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (built.actions[i].length <= 0) continue;
    const RoundAction& origin = built.origins[i];
    if (built.actions[i].communication) {
      events.push_back({0, EventKind::kTransfer, origin.sub_batch, spans[i].begin, spans[i].end});
    } else {
      add_computation(rounds[origin.round], origin.sub_batch, spans[i], events);
    }
  }
}

void check_segment(const Segment& segment, const std::string& at, std::vector<std::string>& names) {
  if (segment.cp > 1) names.push_back(at + "cp");
  if (segment.sharded != ShardedLevel::kNone) names.push_back(at + "sharded");
  if (!segment.alternate_dimension.empty()) names.push_back(at + "alternate_dimension");
  if (segment.switches != Switches{}) names.push_back(at + "switches");
  if (normalized(segment.recompute) != std::vector<Range>{segment.operators}) {
    names.push_back(at + "recompute (only all operators is priced)");
  }
}

void check_schedule(const Schedule& schedule, std::vector<std::string>& names) {
  if (schedule.kind != ScheduleKind::k1F1B) names.emplace_back("schedule.kind (only 1f1b is priced)");
  if (schedule.sliced_microbatches > 0) names.emplace_back("schedule.sliced_microbatches");
  if (schedule.sub_batches != 2) names.emplace_back("schedule.sub_batches (only 2 is priced)");
  if (!schedule.cross_pass) names.emplace_back("schedule.cross_pass (only true is priced)");
  if (!schedule.recompute_after_communication) {
    names.emplace_back("schedule.recompute_after_communication (only true is priced)");
  }
}

}  // namespace

Result<OasesCostModel> OasesCostModel::build(OasesVariant variant, const Model& model, const Cluster& cluster,
                                             const std::vector<Cost>& costs) {
  const std::vector<std::int32_t> microbatches = allowed_microbatches(model);
  if (std::find(microbatches.begin(), microbatches.end(), model.global_batch) == microbatches.end()) {
    return bad_input("the oases cost model runs the whole batch at once: needs " + std::to_string(model.global_batch) +
                     " among the model's microbatch_values.total, where it is not");
  }
  TRIMTAB_TRY(Chain chain, oases::chain_from_costs(model, cluster, costs));
  auto tables = std::make_shared<oases::Tables>();
  tables->variant = variant;
  tables->model = model;
  tables->cluster = cluster;
  tables->costs = costs;
  tables->chain = std::move(chain);
  tables->terms = terms_of(tables->chain, variant);
  return OasesCostModel(std::move(tables));
}

std::string_view OasesCostModel::name() const {
  return tables_->variant == OasesVariant::kPaper ? "oases:paper" : "oases:published";
}

const Model& OasesCostModel::model() const {
  return tables_->model;
}

const Cluster& OasesCostModel::cluster() const {
  return tables_->cluster;
}

std::unique_ptr<CostModel> OasesCostModel::on(const Cluster& cluster) const {
  auto built = build(tables_->variant, tables_->model, cluster, tables_->costs);
  return built.ok() ? std::make_unique<OasesCostModel>(std::move(*built)) : nullptr;
}

Prediction OasesCostModel::evaluate(const Plan& plan) const {
  std::int32_t unusable = 0;
  const std::optional<Choice> choice = choice_of(*tables_, plan, unusable);
  if (!choice) return not_priced(*tables_, unusable);
  Prediction prediction;
  const double iteration_ms = step_ms(tables_->chain, *choice, tables_->variant);
  const StagePrediction stage = predict_stage(*tables_, *choice, iteration_ms);
  papers::set_time(iteration_ms, stage.exposed_communication_ms, prediction);
  papers::name_bottleneck(0, prediction.communication_share_ms > prediction.computation_share_ms, prediction);
  const double limit = tables_->chain.limit;
  if (static_cast<double>(stage.memory_bytes) > limit) {
    const auto most = static_cast<Bytes>(limit);
    papers::exceed(0,
                   papers::excess_text(0, stage.memory_bytes, most, stage.memory_bytes - most,
                                       "give some of its operators a larger tp"),
                   prediction);
  }
  prediction.stages.push_back(stage);
  return prediction;
}

std::vector<TimelineEvent> OasesCostModel::timeline(const Plan& plan) const {
  std::int32_t unusable = 0;
  const std::optional<Choice> choice = choice_of(*tables_, plan, unusable);
  if (!choice) return {};
  const std::vector<Block> blocks = blocks_of(tables_->chain, *choice);
  std::vector<Round> rounds, backward;
  forward_rounds(blocks, rounds);
  backward_rounds(blocks, SubBatchSchedule{}, backward);
  backward.front().blocked = true;
  rounds.insert(rounds.end(), backward.begin(), backward.end());
  std::vector<TimelineEvent> events;
  add_events(rounds, tables_->chain.slowdown, events);
  papers::sort_events(events);
  return events;
}

std::vector<std::string> OasesCostModel::unpriced(const Plan& plan) const {
  std::vector<std::string> names;
  check_schedule(plan.schedule, names);
  if (plan.stages.size() != 1) names.emplace_back("stages (only one is priced)");
  if (plan.microbatch != plan.global_batch) names.emplace_back("microbatch (only the global batch is priced)");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (static_cast<std::int32_t>(stage.devices.size()) != tables_->cluster.devices()) {
      names.push_back(stage_text(s) + ".devices (only all of the cluster's are priced)");
    }
    for (std::size_t i = 0; i < stage.segments.size(); ++i) {
      check_segment(stage.segments[i], segment_text(s, i) + ".", names);
    }
  }
  return names;
}

}  // namespace trimtab::tuner
