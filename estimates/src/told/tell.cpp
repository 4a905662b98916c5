#include <cmath>
#include <nlohmann/json.hpp>

#include "estimates/told_plan.hpp"

namespace trimtab::estimates {

namespace {

std::string_view schema_target(Target target) {
  switch (target) {
    case Target::kMegatron:
      return "megatron";
    case Target::kTorchtitan:
      return "torchtitan";
    case Target::kFsdp2:
      return "fsdp";  // client/python/trimtab/parallel.py
    case Target::kDeepSpeed:
      break;
  }
  return "deepspeed";
}

// What the product's plan cannot say and these can be told beside it.
bool told_beside(const UniformPlan& plan, Target target) {
  if (plan.recomputed == Recomputed::kAttentionCore) return target == Target::kMegatron;
  if (plan.recomputed == Recomputed::kHalfOfProducts) return target == Target::kTorchtitan;
  return plan.recomputed == Recomputed::kLayer && target == Target::kDeepSpeed;
}

void tell_megatron(const UniformPlan& plan, ToldPlan& told) {
  auto& words = told.told.arguments;
  if (plan.recomputed == Recomputed::kAttentionCore) {
    words.insert(words.end(), {"--recompute-granularity", "selective", "--recompute-modules", "core_attn"});
  }
  words.emplace_back(plan.precision == Precision::kFloat16 ? "--fp16" : "--bf16");
  if (plan.precision == Precision::kFloat8) {
    words.insert(words.end(), {"--fp8-format", "hybrid"});
    if (plan.sharded != Sharded::kNothing) words.emplace_back("--fp8-param-gather");  // it demands a sharded optimizer
  }
  // Megatron-FSDP gathers beside computation by itself only where it shards parameters.
  if (plan.sharded == Sharded::kGradients && plan.overlaps_parameters) words.emplace_back("--overlap-param-gather");
}

void tell_torchtitan(const UniformPlan& plan, ToldPlan& told) {
  auto& words = told.told.arguments;
  if (plan.recomputed == Recomputed::kHalfOfProducts) words.back() = "activation-checkpoint:selective";
  words.insert(words.end() - 1, "--compile.enable");  // estimates are of compiled modules; the policy must come last
  if (plan.precision != Precision::kFloat8) return;
  told.remarks.emplace_back("float8: take a configuration with Float8LinearConverter; no override adds it");
}

void tell_deepspeed(const UniformPlan& plan, ToldPlan& told) {
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(told.told.file_text);
  file[plan.precision == Precision::kFloat16 ? "fp16" : "bf16"] = {{"enabled", true}};
  if (plan.precision == Precision::kFloat8) {
    told.remarks.emplace_back(
        "float8: DeepSpeed's file cannot say it. Convert the model's products (torchao, Transformer Engine)");
  }
  told.told.file_text = file.dump(2) + "\n";
  if (plan.recomputed == Recomputed::kLayer) {
    told.remarks.emplace_back(
        "every layer is recomputed: the model's code does that, with transformers by "
        "model.gradient_checkpointing_enable()");
  }
}

// The same for scripts that call PyTorch's fully_shard() themselves.
std::string fully_shard_words(const UniformPlan& plan) {
  std::string words = "with FSDP2 of your own: fully_shard(layer, ...) of each layer, then of the model, ";
  if (plan.sharded_over > 0) {
    words += "mesh=init_device_mesh(\"cuda\", (" + std::to_string(plan.replicas / plan.sharded_over) + ", " +
             std::to_string(plan.sharded_over) + "), mesh_dim_names=(\"replicate\", \"shard\")), ";
  }
  return words + "reshard_after_forward=" + (plan.reshard ? "True" : "False") +
         ", mp_policy=MixedPrecisionPolicy(param_dtype=torch." +
         (plan.precision == Precision::kFloat16 ? "float16" : "bfloat16") + ", reduce_dtype=torch.float32)";
}

void tell_fsdp(const UniformPlan& plan, ToldPlan& told) {
  told.remarks.emplace_back("trimtab.parallel.load() reads it in your script");
  if (plan.sharded != Sharded::kNothing) told.remarks.push_back(fully_shard_words(plan));
  if (plan.precision == Precision::kFloat8) told.remarks.emplace_back("float8: convert the model's products (torchao)");
  if (plan.precision == Precision::kFloat16)
    told.remarks.emplace_back("float16: scale the loss (torch.amp.GradScaler)");
}

}  // namespace

ModelShape shape_of(const GptSizes& sizes, const std::string& name) {
  const auto small = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  ModelShape shape;
  shape.name = name;
  shape.layers = small(sizes.layers);
  shape.hidden = small(sizes.hidden);
  shape.ffn = small(sizes.ffn);
  shape.heads = small(sizes.heads);
  shape.kv_heads = small(sizes.groups);
  shape.head_dim = small(sizes.channels);
  shape.vocabulary = small(sizes.vocabulary);
  shape.sequence = small(sizes.sequence);
  shape.positions = small(sizes.positions);
  shape.gated = sizes.gated;
  shape.tied = sizes.tied;
  shape.rms = sizes.rms;
  shape.bias = sizes.bias;
  return shape;
}

Result<ToldPlan> tell(const UniformPlan& plan, const Model& model, Target target) {
  UniformPlan sayable = plan;
  if (told_beside(plan, target)) sayable.recomputed = Recomputed::kNothing;
  TRIMTAB_TRY(const Plan product, product_plan(sayable, model, target));
  ToldPlan told;
  TRIMTAB_TRY(told.told, export_plan(product, model, schema_target(target)));
  switch (target) {
    case Target::kMegatron:
      tell_megatron(plan, told);
      break;
    case Target::kTorchtitan:
      tell_torchtitan(plan, told);
      break;
    case Target::kFsdp2:
      tell_fsdp(plan, told);
      break;
    case Target::kDeepSpeed:
      tell_deepspeed(plan, told);
      break;
  }
  return told;
}

std::string sharding_words(const UniformPlan& plan) {
  if (plan.sharded == Sharded::kNothing) return "-";
  std::string words = "ZeRO-" + std::to_string(static_cast<int>(plan.sharded));
  if (plan.sharded == Sharded::kParameters && !plan.reshard) words += " kept";
  return plan.sharded_over > 0 ? words + " over " + std::to_string(plan.sharded_over) : words;
}

std::string recompute_words(const UniformPlan& plan, const ModelShape& shape) {
  std::string words = "-";
  switch (plan.recomputed) {
    case Recomputed::kNothing:
      break;
    case Recomputed::kAttentionCore:
      words = "attention core";
      break;
    case Recomputed::kActivations:
      words = "norms, activations";
      break;
    case Recomputed::kHalfOfProducts:
      words = "selective";
      break;
    case Recomputed::kLayer: {
      const double layers = plan.recomputed_share * shape.layers;
      words = plan.recomputed_share >= 1
                  ? "all layers"
                  : std::to_string(std::lround(layers)) + " of " + std::to_string(shape.layers) + " layers";
      break;
    }
  }
  return plan.offloaded_optimizer ? words + ", optimizer in host memory" : words;
}

std::string words_of(const UniformPlan& plan) {
  std::string words = "tp " + std::to_string(plan.tensor) + ", pp " + std::to_string(plan.stages);
  if (plan.chunks > 1) words += " x vpp " + std::to_string(plan.chunks);
  if (plan.context > 1) words += ", cp " + std::to_string(plan.context);
  words += ", dp " + std::to_string(plan.replicas) + ", microbatch " + std::to_string(plan.microbatch);
  return plan.sharded == Sharded::kNothing ? words : words + ", " + sharding_words(plan);
}

}  // namespace trimtab::estimates
