#include <algorithm>
#include <cstdio>

#include "tuner/search.hpp"

namespace trimtab::tuner {
namespace {

std::string ms(double value) {
  if (std::isinf(value)) return "no plan";
  char text[32];
  const bool seconds = value >= 10'000;
  std::snprintf(text, sizeof text, "%.4g %s", seconds ? value / 1000 : value, seconds ? "s" : "ms");
  return text;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

std::string state(double time_ms, double excess_bytes) {
  if (excess_bytes <= 0) return ms(time_ms);
  return ms(time_ms) + ", " + format_bytes(static_cast<Bytes>(excess_bytes)) + " over memory";
}

std::int32_t recomputed(const Stage& stage) {
  std::int32_t count = 0;
  for (const Segment& segment : stage.segments) {
    for (const Range& range : segment.recompute) count += range.size();
  }
  return count;
}

// "as 2 replicas of 2 tensor-parallel ranks", for each segment; nothing where all devices are replicas.
std::string split_text(const Stage& stage) {
  std::string text;
  for (const Segment& segment : stage.segments) {
    const bool plain = segment.tp == 1 && segment.sharded == ShardedLevel::kNone;
    if (plain && stage.segments.size() == 1) return "";
    text += text.empty() ? " as " : ", then ";
    text += std::to_string(segment.dp) + (segment.dp == 1 ? " replica of " : " replicas of ") +
            std::to_string(segment.tp) + (segment.tp == 1 ? " rank" : " tensor-parallel ranks");
    if (segment.sharded != ShardedLevel::kNone) text += " with sharded states";
    if (stage.segments.size() > 1) text += " up to operator " + std::to_string(segment.operators.end - 1);
  }
  return text;
}

// What the bottleneck stage uses of all that the stages use.
std::string share_line(const RankedPlan& best) {
  const Prediction& prediction = best.prediction;
  if (prediction.stages.size() < 2) return "";
  const auto stage = static_cast<std::size_t>(prediction.bottleneck.stage);
  const auto share = [&](const auto& amount) {
    double all = 0;
    for (const StagePrediction& of : prediction.stages) all += amount(of);
    return percent(all > 0 ? amount(prediction.stages[stage]) / all : 0);
  };
  const double steps = best.plan.microbatches();
  const auto computing = [steps](const StagePrediction& of) {
    return steps * (of.forward_ms + of.backward_ms + of.recompute_ms) + of.optimizer_ms;
  };
  const auto communicating = [steps](const StagePrediction& of) {
    return steps * of.exposed_communication_ms + of.gradient_sync_ms;
  };
  const auto memory = [](const StagePrediction& of) { return static_cast<double>(of.memory_bytes); };
  return "Of what all stages use, stage " + std::to_string(stage) + " has " + share(computing) + " of the computing, " +
         share(communicating) + " of the communication and " + share(memory) +
         " of the memory; an equal share would be " + percent(1.0 / static_cast<double>(prediction.stages.size())) +
         ".\n";
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
         (stage.devices.size() == 1 ? " device" : " devices") + split_text(stage) + ", " +
         std::to_string(recomputed(stage)) + " recomputed; computing " + ms(computing) + ", waiting for data " +
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
  // The first plan of all gains nothing on another.
  const auto gain = [](const SearchStep& step) {
    return std::isinf(step.before_ms) ? 0 : step.before_ms - step.after_ms;
  };
  const auto largest =
      std::ranges::max_element(trace, [&](const SearchStep& a, const SearchStep& b) { return gain(a) < gain(b); });
  if (largest == trace.end() || gain(*largest) <= 0) return "";
  const std::string what = largest->bottleneck.empty() ? "was " : "relieved " + largest->bottleneck + " by ";
  return "The step that gained most " + what + largest->primitive + ": " + ms(largest->before_ms) + " to " +
         ms(largest->after_ms) + " (" + std::to_string(largest->stages) + " stages).\n";
}

std::string bound_line(const SearchResult& result) {
  const double best = result.plans.front().prediction.iteration_ms;
  if (result.proven) return "Proven: no plan of the space is faster.\n";
  if (result.lower_bound_ms <= 0) return "";
  return "No plan takes less than " + ms(result.lower_bound_ms) + ": at most " +
         percent(std::max(0.0, 1 - result.lower_bound_ms / best)) + " could be left to gain.\n";
}

// Of a strategy that takes whole plans instead of primitives.
std::string step_line(const SearchStep& step) {
  const std::string of = step.bottleneck.empty() ? "" : step.bottleneck + ": ";
  return "  " + of + step.primitive + " -> " + state(step.after_ms, step.after_excess_bytes) + "\n";
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
  text += share_line(best) + trade_line(best) + removed_line(outcome.trace) + runner_up_line(result.plans) +
          bound_line(result);
  if (!prediction.estimated_costs.empty()) {
    text += std::to_string(prediction.estimated_costs.size()) + " of its costs are estimates, not measurements.\n";
  }
  return text;
}

std::string explain_iterations(const std::vector<SearchStep>& trace) {
  std::string text;
  for (const SearchStep& step : trace) {
    if (step.primitive.empty()) continue;
    text += std::to_string(step.evaluations) + " evaluations, " + std::to_string(step.stages) +
            (step.stages == 1 ? " stage: " : " stages: ") + state(step.before_ms, step.before_excess_bytes) + "\n";
    for (const SearchHop& hop : step.hops) {
      text += "  " + hop.bottleneck + " is the bottleneck; best of " + std::to_string(hop.tried) + ": " +
              hop.primitive + " -> " + state(hop.ms, hop.excess_bytes) + "\n";
    }
    if (step.hops.empty()) text += step_line(step);
  }
  return text;
}

}  // namespace trimtab::tuner
