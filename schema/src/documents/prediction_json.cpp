#include "schema/prediction.hpp"

#include <limits>

#include "documents/json_document.hpp"

namespace trimtab {

namespace {

// JSON has no infinity. A time that nobody can tell is written as null.
OrderedJson write_ms(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

OrderedJson write_terms(const StepTerms& terms) {
  OrderedJson json{{"computation_ms", write_ms(terms.computation_ms)},
                   {"collectives_ms", write_ms(terms.collectives_ms)},
                   {"gradients_ms", write_ms(terms.gradients_ms)},
                   {"transfers_ms", write_ms(terms.transfers_ms)},
                   {"idle_ms", write_ms(terms.idle_ms)}};
  if (terms.launching_ms > 0) json["launch_bound_ms"] = write_ms(terms.launching_ms);
  return json;
}

OrderedJson write_stage(const StagePrediction& stage) {
  return {{"forward_ms", write_ms(stage.forward_ms)},
          {"backward_ms", write_ms(stage.backward_ms)},
          {"recompute_ms", write_ms(stage.recompute_ms)},
          {"exposed_communication_ms", write_ms(stage.exposed_communication_ms)},
          {"gradient_sync_ms", write_ms(stage.gradient_sync_ms)},
          {"optimizer_ms", write_ms(stage.optimizer_ms)},
          {"bubble_ms", write_ms(stage.bubble_ms)},
          {"terms", write_terms(stage.terms)},
          {"memory_bytes", stage.memory_bytes},
          {"memory",
           {{"states", stage.memory.states},
            {"activations", stage.memory.activations},
            {"recompute_peak", stage.memory.recompute_peak},
            {"reserved", stage.memory.reserved},
            {"working", stage.memory.working}}}};
}

OrderedJson write_prediction(const Prediction& prediction) {
  OrderedJson json{{"iteration_ms", write_ms(prediction.iteration_ms)},
                   {"interval_ms", {write_ms(prediction.interval_low_ms), write_ms(prediction.interval_high_ms)}},
                   {"computation_share_ms", write_ms(prediction.computation_share_ms)},
                   {"communication_share_ms", write_ms(prediction.communication_share_ms)},
                   {"communication_shares_ms",
                    {{"collectives", write_ms(prediction.communication_shares.collectives)},
                     {"gradients", write_ms(prediction.communication_shares.gradients)},
                     {"transfers", write_ms(prediction.communication_shares.transfers)}}},
                   {"overlap_share_ms", write_ms(prediction.overlap_share_ms)},
                   {"bubble_share_ms", write_ms(prediction.bubble_share_ms)},
                   {"feasible", prediction.feasible}};
  if (prediction.launch_share_ms > 0) json["launch_share_ms"] = write_ms(prediction.launch_share_ms);
  if (!prediction.infeasible_reason.empty()) json["infeasible_reason"] = prediction.infeasible_reason;
  json["stages"] = OrderedJson::array();
  for (const StagePrediction& stage : prediction.stages) json["stages"].push_back(write_stage(stage));
  json["bottleneck"] = {{"stage", prediction.bottleneck.stage}, {"resource", prediction.bottleneck.resource}};
  json["missing_costs"] = prediction.missing_costs;
  json["estimated_costs"] = prediction.estimated_costs;
  return json;
}

}  // namespace

void Prediction::take_price_away() {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  iteration_ms = interval_low_ms = interval_high_ms = kUnknown;
  computation_share_ms = communication_share_ms = kUnknown;
  communication_shares = {kUnknown, kUnknown, kUnknown};
  if (launch_share_ms > 0) launch_share_ms = kUnknown;
  feasible = false;
  infeasible_reason = kNotPriced;
  bottleneck = {};
  for (StagePrediction& stage : stages) {
    stage.forward_ms = stage.backward_ms = stage.recompute_ms = stage.exposed_communication_ms = kUnknown;
    stage.gradient_sync_ms = stage.optimizer_ms = stage.bubble_ms = kUnknown;
    stage.terms = {kUnknown, kUnknown, kUnknown, kUnknown, kUnknown};
  }
}

std::string to_json(const Prediction& prediction) {
  return dump(write_prediction(prediction));
}

std::string to_json(const SearchResult& result) {
  OrderedJson json{{"schema", "trimtab.search/1"},
                   {"strategy", result.strategy},
                   {"cost_model", result.cost_model},
                   {"space", result.space},
                   {"seed", result.seed},
                   {"search",
                    {{"seconds", write_ms(result.seconds)},
                     {"evaluations", result.evaluations},
                     {"stopped", result.stopped},
                     {"lower_bound_ms", write_ms(result.lower_bound_ms)},
                     {"proven", result.proven}}},
                   {"plans", OrderedJson::array()}};
  for (const RankedPlan& ranked : result.plans) {
    json["plans"].push_back(
        {{"plan", OrderedJson::parse(to_json(ranked.plan))}, {"prediction", write_prediction(ranked.prediction)}});
  }
  return dump(json);
}

}  // namespace trimtab
