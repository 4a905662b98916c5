// What a device leaves undone: it idles between many small kernels, or most of its memory is empty.

#include <algorithm>
#include <string>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kLeastIdle = 0.10;
constexpr double kSurelyIdle = 0.06;
constexpr double kSmallKernelUs = 40;  // handing one out takes the host some 5 to 20 us
constexpr double kManyKernels = 200;   // in a step
constexpr double kMostMemory = 0.5;    // in use

}  // namespace

Found find_launch_bound(const JobLook& job) {
  const Rows& rows = job.devices;
  if (!job.on_device || !rows.are_enough() || job.kernel_us <= 0 || job.kernel_us > kSmallKernelUs) return {};
  if (job.kernels_per_step > 0 && job.kernels_per_step < kManyKernels) return {};
  Estimate idle =
      estimate_of(rows.series([&rows](std::size_t row) { return rows.least(row, &Cell::idle) / rows.wall(row); }));
  // Waiting for data is no matter of kernels.
  const double data = job.steps.are_enough() ? median_of(job.steps.series([&job](std::size_t row) {
    return job.steps.largest(row, &Cell::data) / job.steps.wall(row);
  }))
                                             : 0;
  idle = {idle.value - data, idle.low - data, idle.high - data};
  if (idle.value < kLeastIdle || idle.low < kSurelyIdle) return {};
  api::CardFinding finding = new_finding(api::FindingName::kLaunchBound, {idle.value, 0, idle.high});
  finding.why = "the device idles " + format_percent(idle.value) + " of a step between kernels of " +
                format_number(job.kernel_us, 0) + " us on average" +
                (job.kernels_per_step > 0 ? ", " + format_number(job.kernels_per_step, 0) + " a step" : "") +
                ": the host hands them out too slowly";
  finding.advice = job.facts.compiled
                       ? "torch.compile(mode=\"reduce-overhead\") (CUDA graphs), or a larger microbatch"
                       : "torch.compile(model, mode=\"reduce-overhead\"), fused=True in the optimizer, or a "
                         "larger microbatch";
  return finding;
}

Found find_memory_left(const JobLook& job) {
  if (!job.on_device || !job.memory.left_bytes || !job.memory.total_bytes || *job.memory.total_bytes <= 0) return {};
  const double left = static_cast<double>(*job.memory.left_bytes) / static_cast<double>(*job.memory.total_bytes);
  if (left < 1 - kMostMemory) return {};
  api::CardFinding finding = new_finding(api::FindingName::kMemoryLeft, {});
  finding.why = format_percent(left) + " of the device's memory is empty at the peak; what using it gains is not known";
  finding.advice = job.samples > 0 ? "try a larger microbatch: batch_size=" + format_number(2 * job.samples, 0)
                                   : "try a larger microbatch, or fewer shards of the model";
  return finding;
}

}  // namespace trimtab::coordinator
