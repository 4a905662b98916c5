#include "plans/prediction_text.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

std::string stages_table(const Prediction& prediction) {
  TextTable table({">stage", ">forward", ">backward", ">recompute", ">exposed comm.", ">gradient sync", ">optimizer",
                   ">bubble", ">memory"});
  for (std::size_t i = 0; i < prediction.stages.size(); ++i) {
    const StagePrediction& stage = prediction.stages[i];
    table.add({std::to_string(i), format_ms(stage.forward_ms), format_ms(stage.backward_ms),
               format_ms(stage.recompute_ms), format_ms(stage.exposed_communication_ms),
               format_ms(stage.gradient_sync_ms), format_ms(stage.optimizer_ms), format_ms(stage.bubble_ms),
               format_bytes(stage.memory_bytes)});
  }
  return table.str(2) + "  (forward to exposed communication per microbatch, the rest per iteration)\n";
}

std::string named(const char* what, const std::vector<std::string>& costs) {
  constexpr std::size_t kShown = 8;
  if (costs.empty()) return "";
  std::string text = std::string(what) + " (" + std::to_string(costs.size()) + "):\n";
  for (std::size_t i = 0; i < std::min(costs.size(), kShown); ++i) text += "  " + costs[i] + "\n";
  if (costs.size() > kShown)
    text += "  and " + std::to_string(costs.size() - kShown) + " more; --json lists them all\n";
  return text;
}

// What is missing, and what would bring a price.
std::string not_priced(const Prediction& prediction) {
  if (prediction.missing_costs.empty()) return std::string(kNotPriced) + "\n";
  const std::string& first = prediction.missing_costs.front();
  const std::size_t more = prediction.missing_costs.size() - 1;
  std::string text = std::string(kNotPriced) + ": missing is " + first;
  if (more > 0) text += ", and " + std::to_string(more) + " more";
  const bool measurable = std::ranges::any_of(
      prediction.missing_costs, [](const std::string& name) { return name.find("(benchmark: ") != name.npos; });
  if (measurable) text += "; 'trimtab profile' measures costs, --allow-estimates makes them from those that are known";
  text += "\n";
  if (prediction.bottleneck.resource == "memory") {
    text += "nor does stage " + std::to_string(prediction.bottleneck.stage) + " fit into memory\n";
  }
  return text;
}

std::string memory_table(const Prediction& prediction) {
  TextTable table({">stage", ">memory"});
  for (std::size_t i = 0; i < prediction.stages.size(); ++i) {
    table.add({std::to_string(i), format_bytes(prediction.stages[i].memory_bytes)});
  }
  return table.str(2);
}

std::string share(double part, double whole) {
  return whole > 0 ? " (" + format_percent(part / whole) + ")" : "";
}

}  // namespace

std::string describe(const Prediction& prediction) {
  std::string text;
  if (prediction.priced()) {
    text = "iteration " + format_ms(prediction.iteration_ms) + ", 95 % interval " +
           format_ms(prediction.interval_low_ms) + " to " + format_ms(prediction.interval_high_ms) + "\n" +
           "bottleneck: stage " + std::to_string(prediction.bottleneck.stage) + ", " + prediction.bottleneck.resource +
           "\n";
    if (!prediction.feasible) text += "infeasible: " + prediction.infeasible_reason + "\n";
    text += "\n" + stages_table(prediction);
  } else {
    text = not_priced(prediction) + "\n" + memory_table(prediction);
  }
  text += named("not priced, for want of costs", prediction.missing_costs);
  return text + named("priced by estimates", prediction.estimated_costs);
}

std::string explain(const Prediction& prediction, const Plan& plan) {
  std::string text;
  if (!prediction.priced()) return text;
  const double passes = plan.microbatches();
  for (std::size_t i = 0; i < prediction.stages.size(); ++i) {
    const StagePrediction& stage = prediction.stages[i];
    const auto part = [&](const char* what, double milliseconds) {
      return std::string(what) + format_ms(milliseconds) + share(milliseconds, prediction.iteration_ms);
    };
    text += "stage " + std::to_string(i) + part(": computes ", passes * (stage.forward_ms + stage.backward_ms)) +
            part(", recomputes ", passes * stage.recompute_ms) +
            part(", waits for communication ", passes * stage.exposed_communication_ms + stage.gradient_sync_ms) +
            part(", updates parameters ", stage.optimizer_ms) + part(", idles in the pipeline ", stage.bubble_ms);
    if (stage.terms.launching_ms > 0) text += part(", of all that waits for its host ", stage.terms.launching_ms);
    text += "\n";
    text += "  memory: states " + format_bytes(stage.memory.states) + ", activations " +
            format_bytes(stage.memory.activations) + ", recompute peak " + format_bytes(stage.memory.recompute_peak) +
            ", reserved " + format_bytes(stage.memory.reserved) + "\n";
  }
  return text;
}

std::string rests_on_text(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  return "What each cost rests on:\n  " + joined(lines, "\n  ") + "\n";
}

}  // namespace trimtab::cli
