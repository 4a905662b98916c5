// Activations that are computed a second time in the backward pass, though memory is left to keep them.

#include <algorithm>
#include <string>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kLeastGain = 0.05;
constexpr double kSurely = 0.03;
constexpr double kNearlyAll = 0.9;         // of the layers
constexpr double kNearlyAllPasses = 0.55;  // of the forward passes' time, where layers are not told
constexpr double kMemoryFree = 0.25;       // of what there is, so that some activations fit

double forward_again(const Rows& rows) {
  return median_of(rows.series([&rows](std::size_t row) {
    const double forward = rows.mean(row, &Cell::forward);
    return forward > 0 ? rows.mean(row, &Cell::recompute) / forward : 0;
  }));
}

// What counts as a layer is a guess of the hooks: the time decides, too.
bool is_nearly_all(const JobLook& job) {
  const auto layers = static_cast<double>(job.facts.layers);
  const auto again = static_cast<double>(job.facts.checkpointed_layers);
  return (layers > 0 && again >= kNearlyAll * layers) || forward_again(job.steps) >= kNearlyAllPasses;
}

// Of a step. A device's own clock does not tell what is computed again: of forward pass, backward pass, which takes
// twice as long, and the forward pass again it is a fourth.
Estimate computed_again(const JobLook& job) {
  const Rows& rows = job.work();
  if (!job.on_device) {
    return estimate_of(
        rows.series([&rows](std::size_t row) { return rows.mean(row, &Cell::recompute) / rows.wall(row); }));
  }
  const Estimate computing =
      estimate_of(rows.series([&rows](std::size_t row) { return rows.mean(row, &Cell::passes) / rows.wall(row); }));
  return {computing.value * 0.25, computing.low * 0.2, computing.high * 0.3};
}

std::string advice(const JobLook& job) {
  const std::string& framework = job.facts.framework;
  if (framework == "transformers") return "gradient_checkpointing=False (or model.gradient_checkpointing_disable())";
  if (framework == "megatron")
    return "leave out --recompute-granularity, or recompute less (fewer --recompute-num-layers, or "
           "--recompute-modules)";
  if (framework == "deepspeed") return "checkpoint fewer layers (\"activation_checkpointing\": \"number_checkpoints\")";
  if (framework == "torchtitan")
    return "activation-checkpoint:none as the last words, or activation-checkpoint:selective (before 0.3: "
           "--activation_checkpoint.mode none)";
  return "call the layers without torch.utils.checkpoint; of half of them first where memory may not do for all";
}

}  // namespace

Found find_everything_recomputed(const JobLook& job) {
  if (!job.work().are_enough() || !job.steps.are_enough() || !is_nearly_all(job)) return {};
  const Estimate gain = computed_again(job);
  if (gain.value < kLeastGain || gain.low < kSurely) return {};
  std::string memory = "how much memory is left is not known";
  if (job.memory.total_bytes && job.memory.left_bytes) {
    const double left = static_cast<double>(*job.memory.left_bytes) / static_cast<double>(*job.memory.total_bytes);
    if (left < kMemoryFree) return {};
    memory = format_percent(left) + " of the memory is left";
  }
  const std::string layers =
      job.facts.layers > 0 && job.facts.checkpointed_layers > 0
          ? std::to_string(job.facts.checkpointed_layers) + " of " + std::to_string(job.facts.layers) + " layers"
          : "nearly all of the forward pass";
  api::CardFinding finding = new_finding(api::FindingName::kEverythingRecomputed, gain);
  finding.why = layers + " are computed again in the backward pass: " + format_percent(gain.value) + " of a step (" +
                format_percent(gain.low) + " to " + format_percent(gain.high) + "); " + memory;
  finding.advice = advice(job);
  return finding;
}

}  // namespace trimtab::coordinator
