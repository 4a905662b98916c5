#include "schema/prediction.hpp"

#include <cmath>
#include <limits>

#include "documents/json_reader.hpp"

namespace trimtab {

namespace {

// JSON has no infinity. A time that nobody can tell is written as null and read as infinity.
OrderedJson write_ms(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

double read_ms(const JsonReader& in) {
  return in.is_null() ? std::numeric_limits<double>::infinity() : in.number();
}

double read_ms_or_zero(const JsonReader& in) {
  return in.is_null() ? std::numeric_limits<double>::infinity() : in.number_or(0);
}

StageMemory read_memory(const JsonReader& in) {
  StageMemory memory;
  memory.states = in.at("states").integer_or(0, kNonNegative);
  memory.activations = in.at("activations").integer_or(0, kNonNegative);
  memory.recompute_peak = in.at("recompute_peak").integer_or(0, kNonNegative);
  memory.reserved = in.at("reserved").integer_or(0, kNonNegative);
  memory.working = in.at("working").integer_or(0, kNonNegative);
  return memory;
}

StepTerms read_terms(const JsonReader& in) {
  StepTerms terms;
  terms.computation_ms = read_ms_or_zero(in.at("computation_ms"));
  terms.collectives_ms = read_ms_or_zero(in.at("collectives_ms"));
  terms.gradients_ms = read_ms_or_zero(in.at("gradients_ms"));
  terms.transfers_ms = read_ms_or_zero(in.at("transfers_ms"));
  terms.idle_ms = read_ms_or_zero(in.at("idle_ms"));
  return terms;
}

StagePrediction read_stage(const JsonReader& in) {
  StagePrediction stage;
  stage.forward_ms = read_ms_or_zero(in.at("forward_ms"));
  stage.backward_ms = read_ms_or_zero(in.at("backward_ms"));
  stage.recompute_ms = read_ms_or_zero(in.at("recompute_ms"));
  stage.exposed_communication_ms = read_ms_or_zero(in.at("exposed_communication_ms"));
  stage.gradient_sync_ms = read_ms_or_zero(in.at("gradient_sync_ms"));
  stage.optimizer_ms = read_ms_or_zero(in.at("optimizer_ms"));
  stage.bubble_ms = read_ms_or_zero(in.at("bubble_ms"));
  stage.terms = read_terms(in.at("terms"));
  stage.memory_bytes = in.at("memory_bytes").integer_or(0, kNonNegative);
  stage.memory = read_memory(in.at("memory"));
  return stage;
}

OrderedJson write_terms(const StepTerms& terms) {
  return {{"computation_ms", write_ms(terms.computation_ms)},
          {"collectives_ms", write_ms(terms.collectives_ms)},
          {"gradients_ms", write_ms(terms.gradients_ms)},
          {"transfers_ms", write_ms(terms.transfers_ms)},
          {"idle_ms", write_ms(terms.idle_ms)}};
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

Result<Prediction> parse_prediction(std::string_view json, std::string_view source) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, source, ""));
  const JsonReader root = document.root();
  Prediction prediction;
  prediction.iteration_ms = read_ms(root.at("iteration_ms"));
  prediction.interval_low_ms = prediction.interval_high_ms = prediction.iteration_ms;
  const JsonReader interval = root.at("interval_ms");
  if (interval.present() && interval.is_tuple(2, "an interval [low, high]")) {
    prediction.interval_low_ms = read_ms(interval.element(0));
    prediction.interval_high_ms = read_ms(interval.element(1));
  }
  prediction.computation_share_ms = read_ms_or_zero(root.at("computation_share_ms"));
  prediction.communication_share_ms = read_ms_or_zero(root.at("communication_share_ms"));
  const JsonReader shares = root.at("communication_shares_ms");
  prediction.communication_shares = {read_ms_or_zero(shares.at("collectives")), read_ms_or_zero(shares.at("gradients")),
                                     read_ms_or_zero(shares.at("transfers"))};
  prediction.overlap_share_ms = read_ms_or_zero(root.at("overlap_share_ms"));
  prediction.bubble_share_ms = read_ms_or_zero(root.at("bubble_share_ms"));
  prediction.feasible = root.at("feasible").flag_or(true);
  prediction.infeasible_reason = root.at("infeasible_reason").text_or("");
  root.at("stages").each([&](const JsonReader& in) { prediction.stages.push_back(read_stage(in)); });
  prediction.bottleneck.stage = root.at("bottleneck").at("stage").integer32_or(0, kNonNegative32);
  prediction.bottleneck.resource = root.at("bottleneck").at("resource").text_or("");
  prediction.missing_costs = root.at("missing_costs").texts();
  prediction.estimated_costs = root.at("estimated_costs").texts();
  TRIMTAB_TRY_STATUS(document.status());
  return prediction;
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
