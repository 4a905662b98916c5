// Communication that no computation hides, and that no slower rank or link explains.

#include <algorithm>
#include <optional>
#include <string>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"

namespace trimtab::coordinator {

namespace {

struct Limits {
  double middle;
  double surely;
};
constexpr Limits kDevice = {0.15, 0.10};
constexpr Limits kHosts = {0.40, 0.30};
// Ranks of one host move gradients with the CPUs that they compute with: there is little that could hide it. Where they
// lack CPUs, most of the waiting is for a rank that has none just then.
constexpr Limits kOneHost = {0.70, 0.60};
constexpr double kMoreWhereCrowded = 0.5;

Limits limits_of(const JobLook& job) {
  if (job.on_device) return kDevice;
  const Limits limits = job.nodes() > 1 ? kHosts : kOneHost;
  const double more = kMoreWhereCrowded * job.crowding();
  return {limits.middle + more, limits.surely + more};
}

constexpr double kHalf = 0.5;

struct Way {
  std::string advice;
  double saved;  // of the exposed communication
  std::string says;
};

// A trace does not tell the framework, and its collectives tell what for they are.
std::optional<Way> way_out_of(const std::vector<api::CardCommunication>& communication) {
  if (communication.empty()) return std::nullopt;
  const std::string& most = communication.front().kind;
  if (most == "send_recv") {
    return Way{"more microbatches a step, several shorter stages on each rank (interleaving), or fewer pipeline stages",
               kHalf, "half of the pipeline's waiting"};
  }
  if (most == "all_to_all") {
    return Way{
        "keep the ranks that share experts within a node, or fewer of them; exchange one half of the tokens while "
        "the other half is computed",
        kHalf, "half of it behind computation"};
  }
  if (most == "all_gather" || most == "reduce_scatter") {
    return Way{
        "prefetch weights (FSDP: forward_prefetch=True, BACKWARD_PRE; DeepSpeed: \"overlap_comm\": true), reduce in "
        "bfloat16, shard over fewer ranks, or a larger microbatch",
        kHalf, "half of it by half the bytes"};
  }
  return std::nullopt;
}

Way way_of_megatron(const api::RankFacts& facts) {
  if (facts.stages > 1) {
    const std::string interleaved = facts.virtual_stages > 1 ? "a smaller " : "";
    return {"more microbatches a step (a smaller --micro-batch-size or a larger --global-batch-size), " + interleaved +
                "--num-layers-per-virtual-pipeline-stage, or fewer stages",
            kHalf, "half of the pipeline's waiting"};
  }
  if (facts.expert_parallel > 1) {
    return {
        "--moe-token-dispatcher-type alltoall, --overlap-moe-expert-parallel-comm (with Transformer Engine), or a "
        "smaller --expert-model-parallel-size where the memory allows it",
        kHalf, "half of it behind computation"};
  }
  if (facts.tensor_parallel > 1) {
    return {
        "--sequence-parallel --tp-comm-overlap (with Transformer Engine), or a smaller --tensor-model-parallel-size "
        "where the memory allows it",
        kHalf, "half of it behind products"};
  }
  if (facts.sharding == "megatron-fsdp") {
    return {
        "--overlap-grad-reduce --overlap-param-gather, --data-parallel-sharding-strategy optim_grads or optim where "
        "the memory allows it, or a larger --micro-batch-size",
        kHalf, "half of it behind computation"};
  }
  if (facts.sharding == "torch-fsdp2") {
    return {
        "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather in place of --use-torch-fsdp2 where "
        "the memory allows it, or a larger --micro-batch-size",
        kHalf, "half of it behind computation"};
  }
  return {"--overlap-grad-reduce --overlap-param-gather (with --use-distributed-optimizer), --grad-reduce-in-bf16",
          kHalf, "half of it by half the bytes"};
}

Way way_of_torchtitan(const api::RankFacts& facts) {
  if (facts.stages > 1) {
    return {
        "more microbatches a step (a smaller --parallelism.pipeline_parallel_microbatch_size or a larger "
        "--training.global_batch_size), --parallelism.pipeline_parallel_schedule Interleaved1F1B, or fewer stages",
        kHalf, "half of the pipeline's waiting"};
  }
  if (facts.tensor_parallel > 1) {
    return {
        "--compile.enable --compile.enable_async_tensor_parallel, or a smaller "
        "--parallelism.tensor_parallel_degree where the memory allows it",
        kHalf, "half of it behind products"};
  }
  return {
      "--parallelism.fsdp_reshard_after_forward never or a smaller --parallelism.data_parallel_shard_degree where the "
      "memory allows it, or a larger --training.local_batch_size",
      kHalf, "half of what is gathered and reduced"};
}

// Of PyTorch's own pipelines.
Way way_of_schedule(const api::RankFacts& facts) {
  const bool interleaved = facts.virtual_stages > 1;
  return {"more microbatches a step (n_microbatches of " + facts.schedule + "), " +
              (interleaved ? "" : "ScheduleInterleaved1F1B over several stages on each rank, ") + "or fewer stages",
          kHalf, "half of the pipeline's waiting"};
}

Way way_out(const JobLook& job) {
  if (const auto way = way_out_of(job.evidence.communication)) return *way;
  const std::string& framework = job.facts.framework;
  if (framework == "megatron") return way_of_megatron(job.facts);
  if (framework == "torchtitan") return way_of_torchtitan(job.facts);
  if (!job.facts.schedule.empty()) return way_of_schedule(job.facts);
  if (framework == "fsdp" || framework == "fsdp2") {
    return {
        "FullyShardedDataParallel(backward_prefetch=BackwardPrefetch.BACKWARD_PRE, forward_prefetch=True, "
        "limit_all_gathers=True), reduce in bfloat16 (MixedPrecision(reduce_dtype=torch.bfloat16)), or a larger "
        "microbatch",
        kHalf, "half of it by half the bytes"};
  }
  if (framework == "deepspeed") {
    return {
        "\"overlap_comm\": true, \"contiguous_gradients\": true, \"reduce_bucket_size\": 5e8, "
        "\"communication_data_type\": "
        "\"bfp16\"",
        kHalf, "half of it by half the bytes"};
  }
  if (job.microbatches >= 2) {
    return {"reduce gradients once a step: model.no_sync() for all but the last of the " +
                format_number(job.microbatches, 0) + " microbatches (accelerate: with accelerator.accumulate(model))",
            1 - 1 / job.microbatches, "what the other microbatches reduce"};
  }
  if (framework == "torch") {
    return {
        "DistributedDataParallel(model, gradient_as_bucket_view=True) reduces gradients while the backward pass "
        "computes; or a larger batch per step",
        kHalf, "half of it behind the backward pass"};
  }
  return {
      "model.register_comm_hook(None, torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook) "
      "halves the bytes (fp16_compress_hook before Ampere); DistributedDataParallel(gradient_as_bucket_view=True, "
      "bucket_cap_mb=...); or a larger batch per step",
      kHalf, "half of it by half the bytes"};
}

}  // namespace

Estimate pure_communication(const JobLook& job) {
  const Rows& rows = job.work();
  return estimate_of(
      rows.series([&rows](std::size_t row) { return rows.least(row, &Cell::communication) / rows.wall(row); }));
}

Found find_exposed_communication(const JobLook& job) {
  const Rows& rows = job.work();
  if (!rows.are_enough() || rows.ranks().size() < 2) return {};
  const Estimate waiting = pure_communication(job);
  const Limits limits = limits_of(job);
  if (waiting.value < limits.middle || waiting.low < limits.surely) return {};
  const Way way = way_out(job);
  api::CardFinding finding =
      new_finding(api::FindingName::kExposedCommunication, {waiting.value * way.saved, 0, waiting.high});
  finding.why = "every rank waits at least " + format_percent(waiting.value) + " of a step (" +
                format_percent(waiting.low) + " to " + format_percent(waiting.high) +
                ") for communication that no computation hides; the gain assumed is " + way.says;
  finding.advice = way.advice;
  return finding;
}

}  // namespace trimtab::coordinator
