// Gradients accumulated over many small microbatches, where fewer, larger ones fit into memory and cost less.

#include <algorithm>
#include <cmath>
#include <string>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"
#include "card/microbatch_cost.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kLeastGain = 0.05;
constexpr double kSurely = 0.02;
constexpr double kEnough = 0.9;          // of what one microbatch would save
constexpr double kMemoryUsed = 0.9;      // of what there is, at most
constexpr double kBytesAParameter = 16;  // weights, gradients and Adam's two moments in float32

// Where neither sizes nor shapes are known: microbatches of one sample alone are believed to be small.
constexpr Estimate kOfOneSample = {0.4, 0.1, 0.9};

std::optional<FixedShare> fixed_share(const JobLook& job, double microbatch_ms) {
  if (auto known = fixed_share_of_sizes(job.evidence.ranks)) return known;
  if (auto known = fixed_share_of_shapes(job.facts.shapes, job.on_device, microbatch_ms)) return known;
  if (job.samples > 1.5) return {};
  return FixedShare{kOfOneSample, "assumed of microbatches of one sample"};
}

// How many times as large a microbatch still fits: what is not weights and their like grows with it.
double most_times(const JobLook& job) {
  if (!job.memory.total_bytes || !job.memory.used_bytes) return job.microbatches;
  const auto used = static_cast<double>(*job.memory.used_bytes);
  const double fixed = std::min(kBytesAParameter * static_cast<double>(job.facts.parameters), 0.9 * used);
  const double room = kMemoryUsed * static_cast<double>(*job.memory.total_bytes) - fixed;
  return std::max(1.0, room / (used - fixed));
}

// The fewest microbatches' merging that saves nearly all that can be saved, and fits: a divisor of their number.
std::int64_t merged(std::int64_t microbatches, double most) {
  std::int64_t best = 1;
  for (std::int64_t times = 2; times <= microbatches && static_cast<double>(times) <= most; ++times) {
    if (microbatches % times != 0) continue;
    best = times;
    const double all = 1 - 1 / static_cast<double>(microbatches);
    if (1 - 1 / static_cast<double>(times) >= kEnough * all) break;
  }
  return best;
}

std::string advice(const JobLook& job, std::int64_t samples, std::int64_t accumulation) {
  const std::string size = std::to_string(samples);
  const std::string steps = std::to_string(accumulation);
  const std::string& framework = job.facts.framework;
  if (framework == "transformers") {
    return "TrainingArguments(per_device_train_batch_size=" + size + ", gradient_accumulation_steps=" + steps + ")";
  }
  if (framework == "lightning")
    return "DataLoader(batch_size=" + size + "), Trainer(accumulate_grad_batches=" + steps + ")";
  if (framework == "megatron")
    return "--micro-batch-size " + size + " (the global batch stays: " + steps + " microbatches a step)";
  if (framework == "deepspeed") {
    return "\"train_micro_batch_size_per_gpu\": " + size + ", \"gradient_accumulation_steps\": " + steps;
  }
  if (framework == "torchtitan")
    return "--training.local_batch_size " + size + " (--training.global_batch_size stays: " + steps +
           " microbatches a step)";
  return "batch_size=" + size + ", gradient_accumulation_steps=" + steps;
}

// The share of a step that forward and backward passes take.
Estimate passes_share(const JobLook& job) {
  const Rows& rows = job.work();
  return estimate_of(rows.series([&rows](std::size_t row) { return rows.mean(row, &Cell::passes) / rows.wall(row); }));
}

// The share of a step that ranks wait for each other and for what is sent, on the average.
Estimate all_waiting(const JobLook& job) {
  const Rows& rows = job.work();
  return estimate_of(
      rows.series([&rows](std::size_t row) { return rows.mean(row, &Cell::communication) / rows.wall(row); }));
}

// What waiting goes where `times` microbatches become one and of the ranks' own work the part `less` goes. For ranks
// that are slower in a step the others wait as much less as there is less work. Of the rest, what more rarely reduced
// gradients save; at most all of it. Where it is not told how often gradients are reduced, that is in the upper bound
// alone.
Estimate saved_communication(const JobLook& job, std::int64_t times, const Estimate& less) {
  if (job.work().ranks().size() < 2) return {};
  const Estimate pure = pure_communication(job);
  const Estimate all = all_waiting(job);
  const auto reduced = static_cast<double>(job.facts.reduced_microbatches);
  const bool told = reduced > 0;
  const double most = 1 - 1 / static_cast<double>(times);
  const double goes = told ? 1 - std::max(reduced / static_cast<double>(times), 1.0) / reduced : 0;
  return {pure.value * goes + std::max(all.value - pure.value, 0.0) * less.value, std::max(pure.low, 0.0) * goes,
          std::max(pure.high, all.high) * (told ? std::max(goes, less.high) : most)};
}

double microbatch_ms(const JobLook& job) {
  const Rows& rows = job.work();
  return median_of(rows.series([&](std::size_t row) {
           const double stolen = rows.undisturbed() ? rows.mean(row, &Cell::stolen) : 0;
           return std::max(rows.mean(row, &Cell::passes) - stolen, 0.0);
         })) /
         job.microbatches;
}

}  // namespace

Found find_small_microbatch(const JobLook& job) {
  const auto microbatches = std::llround(job.microbatches);
  const auto samples = std::llround(job.samples);
  if (!job.work().are_enough() || microbatches < 2 || samples < 1) return {};
  if (job.facts.stages > 1) return {};  // Fewer microbatches fill a pipeline less: nothing here says how much.
  const std::optional<FixedShare> fixed = fixed_share(job, microbatch_ms(job));
  const std::int64_t times = merged(microbatches, most_times(job));
  if (!fixed || times < 2) return {};
  const double goes = 1 - 1 / static_cast<double>(times);
  const Estimate passes = passes_share(job);
  const Estimate less{fixed->share.value * goes, fixed->share.low * goes, fixed->share.high * goes};
  const Estimate communication = saved_communication(job, times, less);
  const Estimate gain{std::min(passes.value * less.value + communication.value, 0.95),
                      passes.low * less.low + communication.low,
                      std::min(passes.high * less.high + communication.high, 0.95)};
  if (gain.value < kLeastGain || gain.low < kSurely) return {};
  api::CardFinding finding = new_finding(api::FindingName::kSmallMicrobatch, gain);
  finding.why = std::to_string(microbatches) + " microbatches of " + std::to_string(samples) +
                (samples == 1 ? " sample" : " samples") + " a step; " + format_percent(fixed->share.value) +
                " of a microbatch's time does not depend on its size (" + fixed->basis + ")" +
                (job.facts.reduced_microbatches > 1
                     ? "; gradients are reduced in " + std::to_string(job.facts.reduced_microbatches) + " of them"
                     : "") +
                (job.memory.left_bytes ? "" : "; how much memory is left is not known");
  finding.advice = advice(job, samples * times, microbatches / times);
  return finding;
}

}  // namespace trimtab::coordinator
