#include "estimated/own_plan.hpp"

#include <algorithm>

#include "arguments.hpp"
#include "documents.hpp"
#include "estimated/found_json.hpp"
#include "plans/plan_rules.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using estimates::Machine;
using estimates::UniformPlan;

Status read_count(const std::string& flag, const std::string& text, std::int32_t& value) {
  if (text.empty()) return {};
  constexpr std::uint64_t kMost = 1 << 24;
  TRIMTAB_TRY(const std::uint64_t count, parse_count(flag, text));
  if (count == 0 || count > kMost)
    return bad_input(flag + ": expected 1 to " + std::to_string(kMost) + ", found " + text);
  value = static_cast<std::int32_t>(count);
  return {};
}

Status read_recompute(const OwnPlanFlags& flags, const Asked& asked, UniformPlan& plan) {
  if (!flags.recompute.empty()) {
    TRIMTAB_TRY(plan.recomputed, recomputed_by_name("--recompute", flags.recompute));
  }
  if (flags.recompute_layers.empty()) return {};
  if (plan.recomputed == estimates::Recomputed::kNothing) {
    return bad_input("--recompute-layers: needs --recompute, which says what is recomputed in them");
  }
  std::int32_t layers = 0;
  TRIMTAB_TRY_STATUS(read_count("--recompute-layers", flags.recompute_layers, layers));
  if (layers > asked.shape.layers) {
    return bad_input("--recompute-layers: the model has " + std::to_string(asked.shape.layers) + " layers, found " +
                     flags.recompute_layers);
  }
  plan.recomputed_share = static_cast<double>(layers) / asked.shape.layers;
  return {};
}

Status read_sharding(const OwnPlanFlags& flags, const Asked& asked, UniformPlan& plan) {
  if (!flags.zero.empty()) {
    TRIMTAB_TRY_STATUS(check_choice("--zero", flags.zero, {"0", "1", "2", "3"}));
    plan.sharded = static_cast<estimates::Sharded>(flags.zero.front() - '0');
  }
  // FSDP has no ZeRO-2 of its own: it keeps gathered parameters until the backward pass.
  const bool fsdp = asked.target == estimates::Target::kFsdp2 || asked.target == estimates::Target::kTorchtitan;
  if (fsdp && plan.sharded == estimates::Sharded::kGradients) {
    plan.sharded = estimates::Sharded::kParameters;
    plan.reshard = false;
  }
  return read_count("--sharded-over", flags.sharded_over, plan.sharded_over);
}

Result<UniformPlan> plan_of_options(const OwnPlanFlags& flags, const Asked& asked, const Machine& machine) {
  UniformPlan plan;
  TRIMTAB_TRY_STATUS(read_count("--tp", flags.tensor, plan.tensor));
  TRIMTAB_TRY_STATUS(read_count("--pp", flags.stages, plan.stages));
  TRIMTAB_TRY_STATUS(read_count("--vpp", flags.chunks, plan.chunks));
  TRIMTAB_TRY_STATUS(read_count("--cp", flags.context, plan.context));
  TRIMTAB_TRY_STATUS(read_count("--microbatch", flags.microbatch, plan.microbatch));
  const std::int64_t model = std::int64_t{plan.tensor} * plan.stages * plan.context;
  if (flags.replicas.empty() && machine.devices % model != 0) {
    return bad_input("--tp x --pp x --cp is " + std::to_string(model) + ", which does not divide the " +
                     std::to_string(machine.devices) + " GPUs");
  }
  plan.replicas = static_cast<std::int32_t>(machine.devices / model);
  TRIMTAB_TRY_STATUS(read_count("--dp", flags.replicas, plan.replicas));
  plan.global_batch = asked.global_batch;
  TRIMTAB_TRY_STATUS(read_recompute(flags, asked, plan));
  TRIMTAB_TRY_STATUS(read_sharding(flags, asked, plan));
  plan.offloaded_optimizer = flags.offload;
  return estimates::as_run(plan, asked.target);
}

bool has_plan_options(const OwnPlanFlags& flags) {
  const std::string* options[] = {
      &flags.tensor, &flags.stages,     &flags.chunks,       &flags.context,   &flags.replicas,
      &flags.zero,   &flags.microbatch, &flags.sharded_over, &flags.recompute, &flags.recompute_layers};
  return flags.offload || std::ranges::any_of(options, [](const std::string* one) { return !one->empty(); });
}

Result<UniformPlan> plan_of_file(const OwnPlanFlags& flags, const std::string& path, const Asked& asked) {
  if (has_plan_options(flags)) return bad_input("--plan and options of a plan (--tp, ...): give one of them");
  TRIMTAB_TRY(const Plan plan, read_plan(path));
  if (!flags.asked.batch.empty() && plan.global_batch != asked.global_batch) {
    return bad_input("--global-batch " + flags.asked.batch + ": " + path + " says " +
                     std::to_string(plan.global_batch));
  }
  TRIMTAB_TRY_STATUS(check_rules(path, plan, asked.model));
  auto uniform = estimates::uniform_plan(plan, asked.model, asked.target);
  if (!uniform.ok()) return wrap(path, uniform.error());
  return *uniform;
}

// What both kinds of plan must be before they are priced.
Status check_own(const UniformPlan& plan, const Asked& asked, const Machine& machine) {
  TRIMTAB_TRY_STATUS(estimates::check(plan, asked.shape));
  TRIMTAB_TRY_STATUS(estimates::check_target(plan, asked.shape, asked.target));
  const std::int64_t devices = std::int64_t{plan.replicas} * plan.tensor * plan.stages * plan.context;
  if (devices <= machine.devices) return {};
  return bad_input("the plan is for " + std::to_string(devices) + " GPUs (dp x tp x pp x cp), found " +
                   std::to_string(machine.devices));
}

std::string memory_table(const estimates::MemoryEstimate& memory) {
  TextTable table({">stage", ">parameters", ">gradients", ">optimizer", ">activations", ">peak of a pass", ">GiB"});
  for (std::size_t i = 0; i < memory.stages.size(); ++i) {
    const estimates::StageMemory& stage = memory.stages[i];
    table.add({std::to_string(i) + (static_cast<std::int32_t>(i) == memory.fullest ? "*" : ""), gib(stage.parameters),
               gib(stage.gradients), gib(stage.optimizer), gib(stage.activations), gib(stage.peak),
               gib(stage.allocated())});
  }
  return table.str(2);
}

std::string own_plan_text(const Asked& asked, const Machine& machine, const estimates::PricedPlan& priced) {
  const estimates::Estimate& estimate = priced.estimate;
  const estimates::MemoryEstimate& memory = estimate.memory;
  std::string text = asked_text(asked, machine) + "Plan: " + estimates::words_of(priced.plan) +
                     "; recomputed: " + estimates::recompute_words(priced.plan, asked.shape) + "\n\n";
  text += seconds(estimate.step_s) + " a step (nine of ten in " + seconds(estimate.least_s) + " to " +
          seconds(estimate.most_s) + "), " + format_number(estimate.tokens_per_s_per_device, 0) +
          " tokens a second for each GPU, MFU " + format_percent(estimate.utilization) + "\n";
  if (priced.plan.devices() < machine.devices) {
    text += wrapped("It leaves " + std::to_string(machine.devices - priced.plan.devices()) + " of the " +
                    std::to_string(machine.devices) + " GPUs idle. What is told for each GPU is of the others.");
  }
  text += wrapped(gib(memory.process) + " of " + gib(static_cast<double>(machine.gpu.memory)) +
                  " GiB on the fullest stage's GPU, as nvidia-smi counts them (reserved by PyTorch " +
                  gib(memory.reserved) + ", allocated " + gib(memory.allocated) + "). It fits with a chance of " +
                  format_number(memory.fits * 100, 0) + " %.");
  text += wrapped(source_text(asked) + " " + peak_text(asked, machine)) + "\n";
  text += parts_table({{"time", &estimate}}) + "\n" + memory_table(memory) + "  * the fullest\n\n";
  return text + told_text(asked, priced.plan);
}

}  // namespace

void add_own_plan_flags(CLI::App* verb, OwnPlanFlags& flags) {
  add_asked_flags(verb, flags.asked);
  add_value(verb, "--tp", flags.tensor, "N", "Tensor-parallel ranks (with --hf or --megatron, as all below)");
  add_value(verb, "--pp", flags.stages, "N", "Pipeline stages");
  add_value(verb, "--vpp", flags.chunks, "N", "Chunks of a stage, interleaved");
  add_value(verb, "--cp", flags.context, "N", "Context-parallel ranks");
  add_value(verb, "--dp", flags.replicas, "N", "Replicas (default: what is left of the GPUs)");
  add_value(verb, "--microbatch", flags.microbatch, "N", "Samples that a replica takes at once");
  add_value(verb, "--zero", flags.zero, "0|1|2|3",
            "What is sharded: 1 optimizer states, 2 gradients, too, 3 parameters, too");
  add_value(verb, "--sharded-over", flags.sharded_over, "N", "Ranks that share one copy (default: all)");
  add_value(verb, "--recompute", flags.recompute, "nothing|attention_core|half_of_products|layer",
            "What is recomputed");
  add_value(verb, "--recompute-layers", flags.recompute_layers, "N", "In so many of the model's layers (default: all)");
  add_flag(verb, "--offload", flags.offload, "The optimizer's states wait in the hosts' memory");
}

bool asks_estimate(const OwnPlanFlags& flags) {
  return !flags.asked.hf.empty() || !flags.asked.megatron.empty() || !flags.asked.gpus.empty() ||
         has_plan_options(flags);
}

Result<int> estimate_own_plan(const OwnPlanFlags& flags, const std::string& plan_path, bool json, Console& console) {
  AskedFlags said = flags.asked;
  if (!plan_path.empty() && said.batch.empty()) {
    TRIMTAB_TRY(const Plan plan, read_plan(plan_path));
    said.batch = std::to_string(plan.global_batch);
  }
  TRIMTAB_TRY(const Asked asked, read_asked(said));
  if (asked.machines.size() > 1) return bad_input("--gpus: evaluate asks for one number of GPUs");
  Machine machine = asked.machines.front();
  TRIMTAB_TRY(UniformPlan plan,
              plan_path.empty() ? plan_of_options(flags, asked, machine) : plan_of_file(flags, plan_path, asked));
  plan.precision = asked.precision;
  plan.gradient_bytes = asked.gradient_bytes;
  plan.optimizer_bytes = asked.optimizer_bytes;
  TRIMTAB_TRY_STATUS(check_own(plan, asked, machine));
  Machine used = machine;
  used.devices = plan.devices();
  estimates::PricedPlan priced{plan, estimates::estimate(used, asked.shape, plan)};
  if (asked.correction) priced.estimate = corrected(priced.estimate, *asked.correction);
  console.out << (json ? evaluated_json(asked, machine, priced) : own_plan_text(asked, machine, priced));
  return priced.estimate.memory.fits >= 0.5 ? 0 : 1;
}

}  // namespace trimtab::cli
