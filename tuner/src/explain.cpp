#include <algorithm>
#include <cstdio>

#include "tuner/search.hpp"

namespace trimtab::tuner {
namespace {

std::string ms(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g ms", value);
  return text;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

std::int32_t recomputed(const Stage& stage) {
  std::int32_t count = 0;
  for (const Segment& segment : stage.segments) {
    for (const Range& range : segment.recompute) count += range.size();
  }
  return count;
}

std::string stage_line(const RankedPlan& ranked, std::size_t s, const Model& model) {
  const Stage& stage = ranked.plan.stages[s];
  const StagePrediction& predicted = ranked.prediction.stages[s];
  const Range range = stage.operators();
  const double steps = ranked.plan.microbatches();
  const double computing = steps * (predicted.forward_ms + predicted.backward_ms + predicted.recompute_ms);
  return "  stage " + std::to_string(s) + ": operators " + std::to_string(range.begin) + " to " +
         std::to_string(range.end - 1) + " (" + model.operators[range.begin].name + " to " +
         model.operators[range.end - 1].name + ") on " + std::to_string(stage.devices.size()) +
         (stage.devices.size() == 1 ? " device, " : " devices, ") + std::to_string(recomputed(stage)) +
         " recomputed; computing " + ms(computing) + ", waiting for data " +
         ms(steps * predicted.exposed_communication_ms) + ", gradient synchronization " +
         ms(predicted.gradient_sync_ms) + ", optimizer " + ms(predicted.optimizer_ms) + ", bubble " +
         ms(predicted.bubble_ms) + "; memory " + format_bytes(predicted.memory_bytes) + "\n";
}

std::string trade_line(const RankedPlan& best) {
  double again = 0;
  double computing = 0;
  for (const StagePrediction& stage : best.prediction.stages) {
    again += stage.recompute_ms;
    computing += stage.forward_ms + stage.backward_ms + stage.recompute_ms;
  }
  if (again <= 0) return "It recomputes nothing: everything that backward passes need stays in memory.\n";
  return "It trades time for memory: " + percent(again / computing) + " of its computing is recompute.\n";
}

std::string runner_up_line(const std::vector<RankedPlan>& plans) {
  if (plans.size() < 2) return "There is no runner-up.\n";
  const double gap = plans[1].prediction.iteration_ms - plans[0].prediction.iteration_ms;
  std::string text = "The runner-up (" + std::to_string(plans[1].plan.stages.size()) + " stages, microbatch " +
                     std::to_string(plans[1].plan.microbatch) + ") takes " + ms(plans[1].prediction.iteration_ms) +
                     ", " + percent(gap / plans[0].prediction.iteration_ms) + " more; its bottleneck is stage " +
                     std::to_string(plans[1].prediction.bottleneck.stage) + " " +
                     plans[1].prediction.bottleneck.resource + ".\n";
  if (plans[1].prediction.interval_low_ms <= plans[0].prediction.interval_high_ms) {
    text += "Their intervals overlap: only a trial can tell them apart.\n";
  }
  return text;
}

std::string removed_line(const std::vector<SearchStep>& trace) {
  const auto largest = std::max_element(trace.begin(), trace.end(), [](const SearchStep& a, const SearchStep& b) {
    return a.before_ms - a.after_ms < b.before_ms - b.after_ms;
  });
  if (largest == trace.end() || largest->after_ms >= largest->before_ms) return "";
  return "The step that gained most relieved " + largest->bottleneck + " by " + largest->primitive + ": " +
         ms(largest->before_ms) + " to " + ms(largest->after_ms) + " (" + std::to_string(largest->stages) +
         " stages).\n";
}

std::string bound_line(const SearchResult& result) {
  const double best = result.plans.front().prediction.iteration_ms;
  if (result.proven) return "Every plan of the space was priced: none is faster.\n";
  if (result.lower_bound_ms <= 0) return "";
  return "No plan takes less than " + ms(result.lower_bound_ms) + ": at most " +
         percent(std::max(0.0, 1 - result.lower_bound_ms / best)) + " could be left to gain.\n";
}

}  // namespace

std::string explain(const SearchOutcome& outcome, const Model& model) {
  const SearchResult& result = outcome.result;
  if (result.plans.empty()) return outcome.infeasible + "\n";
  const RankedPlan& best = result.plans.front();
  const Prediction& prediction = best.prediction;
  std::string text = "The best plan takes " + ms(prediction.iteration_ms) +
                     " a step (95 %: " + ms(prediction.interval_low_ms) + " to " + ms(prediction.interval_high_ms) +
                     "): " + std::to_string(best.plan.stages.size()) +
                     (best.plan.stages.size() == 1 ? " stage" : " stages") + ", microbatch " +
                     std::to_string(best.plan.microbatch) + ". What bounds it: stage " +
                     std::to_string(prediction.bottleneck.stage) + " " + prediction.bottleneck.resource + ".\n";
  for (std::size_t s = 0; s < best.plan.stages.size(); ++s) text += stage_line(best, s, model);
  text += trade_line(best) + removed_line(outcome.trace) + runner_up_line(result.plans) + bound_line(result);
  if (!prediction.estimated_costs.empty()) {
    text += std::to_string(prediction.estimated_costs.size()) + " of its costs are estimates, not measurements.\n";
  }
  return text;
}

}  // namespace trimtab::tuner
