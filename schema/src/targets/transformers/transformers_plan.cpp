// transformers' TrainingArguments, read back: a command's words, with the file that --deepspeed or --fsdp_config names,
// or a file of all of them (transformers/training_args.py, 4.40 to 5.24).

#include <algorithm>
#include <array>

#include "targets/fsdp_members.hpp"
#include "targets/option_tree.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"
#include "targets/yaml_block.hpp"

namespace trimtab {

namespace {

constexpr const char* kSamples = "per_device_train_batch_size";
constexpr const char* kSteps = "gradient_accumulation_steps";
constexpr const char* kBucket = "ddp_bucket_cap_mb";
constexpr const char* kFsdp = "fsdp";
constexpr const char* kDeepspeed = "deepspeed";

// What says a plan, or another than a plan can say.
constexpr std::string_view kNames = R"(
per_device_train_batch_size gradient_accumulation_steps gradient_checkpointing activation_checkpointing
gradient_checkpointing_kwargs activation_checkpointing_kwargs ddp_bucket_cap_mb fsdp fsdp_config deepspeed
auto_find_batch_size per_gpu_train_batch_size accelerator_config parallelism_config
)";

constexpr std::array<UnsayableMember, 5> kUnsayable{
    {{"auto_find_batch_size", 0, "the Trainer chooses the batch itself"},
     {"per_gpu_train_batch_size", 0, "the Trainer before 5 took it in place of per_device_train_batch_size; give that"},
     {"accelerator_config.split_batches", 0, "a batch that ranks share is none of each; leave it false"},
     {"activation_checkpointing_kwargs.every_n_layers", 1,
      "a plan exports every layer recomputed for the Trainer, or none"},
     {"gradient_checkpointing_kwargs.every_n_layers", 1,
      "a plan exports every layer recomputed for the Trainer, or none"}}};

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY_STATUS(members_.check_sayable(kUnsayable));
    TRIMTAB_TRY(const bool recompute, recomputes());
    TRIMTAB_TRY(replicas_.samples, count(kSamples, 8));
    TRIMTAB_TRY(replicas_.microbatches, count(kSteps, 1));
    const Json* const deepspeed = members_.find(kDeepspeed);
    const Json* const fsdp = members_.find(kFsdp);
    const bool sharded = fsdp != nullptr && *fsdp != false && *fsdp != "";
    if (deepspeed != nullptr && sharded) {
      return members_.refusal(kFsdp, "the Trainer takes it beside --deepspeed not at all");
    }
    if (deepspeed != nullptr) return under_deepspeed(*deepspeed, recompute);
    if (!file_.ranks) return ranks_needed("arguments of the Trainer do not say how many ranks there are");
    replicas_.ranks = *file_.ranks;
    replicas_.recompute = recompute;
    TRIMTAB_TRY_STATUS(sharded ? read_sharding(*fsdp) : read_bucket());
    return plan_of(replicas_, model_, "transformers", "the Trainer");
  }

 private:
  Result<std::int32_t> count(const char* path, std::int32_t fallback) {
    TRIMTAB_TRY(const std::optional<std::int32_t> value, members_.count(path));
    return value.value_or(fallback);
  }

  // The first is the newer name, and counts where both are said.
  Result<bool> recomputes() {
    TRIMTAB_TRY(const bool older, members_.flag("gradient_checkpointing", false));
    return members_.flag("activation_checkpointing", older);
  }

  // "full_shard auto_wrap", or true with everything in fsdp_config.
  Status read_sharding(const Json& said) {
    std::optional<std::string> strategy;
    if (said.is_string()) {
      for (const std::string& word : words_of(said.get<std::string>())) {
        if (word == "auto_wrap") continue;
        if (word == "offload") return members_.refusal(kFsdp, "a plan leaves parameters on the device, found offload");
        strategy = word;
      }
    } else if (said != true) {
      return members_.refusal(kFsdp, "expected words like \"full_shard auto_wrap\", found " + quoted_text(dump(said)));
    }
    const Json* const config = members_.find("fsdp_config");
    if (config != nullptr && !config->is_object()) {
      return members_.refusal("fsdp_config",
                              "expected its JSON, or a file that is read, found " + quoted_text(dump(*config)));
    }
    TRIMTAB_TRY(const FsdpUse use, read_fsdp(members_, 2, strategy));
    if (use.within_nodes) {
      return members_.refusal(kFsdp,
                              "a plan for the Trainer shards over all ranks; a hybrid over nodes is accelerate's "
                              "(parallelism_config)");
    }
    replicas_.sharded = use.level;
    replicas_.recompute = replicas_.recompute || use.recompute;
    if (members_.find(kBucket) == nullptr) return {};
    return members_.refusal(kBucket, "is DDP's, and FSDP has no buckets");
  }

  static std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words(1);
    for (const char c : text) {
      if (c == ' ' || c == ',') words.emplace_back();
      if (c != ' ' && c != ',') words.back() += c;
    }
    std::erase(words, "");
    return words;
  }

  Status read_bucket() {
    TRIMTAB_TRY(const std::int32_t mib, count(kBucket, 0));
    replicas_.bucket_bytes = std::int64_t{mib} << 20;
    return {};
  }

  // DeepSpeed's own reader knows "auto", and what of the arguments it must agree with.
  Result<Plan> under_deepspeed(const Json& said, bool recompute) {
    if (!said.is_object()) {
      return members_.refusal(kDeepspeed,
                              "expected DeepSpeed's JSON, or a file that is read, found " + quoted_text(dump(said)));
    }
    PlanFile inner = file_;
    inner.options = {"--" + std::string(kSamples), std::to_string(replicas_.samples), "--" + std::string(kSteps),
                     std::to_string(replicas_.microbatches)};
    PlanMembers parts(said, file_.source);
    TRIMTAB_TRY(Plan plan, read_deepspeed_plan(parts, inner, model_));
    members_.pass_over(parts.unread());
    if (recompute) {
      TRIMTAB_TRY(const ModelLayers layers, layers_of(model_));
      plan.stages.front().segments.front().recompute = {{layers.before.end, layers.layers.back().end}};
    }
    TRIMTAB_TRY_STATUS(check_import(plan, model_, "transformers-deepspeed", "the Trainer"));
    return plan;
  }

  Replicas replicas_;
};

// Whether a file has the arguments themselves, and not what one of them names.
bool has_arguments(const Json& tree) {
  return tree.contains(kSamples) || tree.contains(kSteps);
}

}  // namespace

std::span<const std::string_view> transformers_plan_options() {
  static constexpr std::array<std::string_view, 8> kOptions{"per-device-train-batch-size",
                                                            "gradient-accumulation-steps",
                                                            "gradient-checkpointing",
                                                            "activation-checkpointing",
                                                            "ddp-bucket-cap-mb",
                                                            "fsdp",
                                                            "fsdp-config",
                                                            "deepspeed"};
  return kOptions;
}

Result<Json> transformers_tree(const PlanFile& file) {
  Json tree = Json::object();
  add_options(file.options, kNames, tree);
  if (!file.text.empty()) {
    TRIMTAB_TRY(Json own, parse_json_or_yaml(file.text, file.source));
    const bool whole = has_arguments(own) && !own.contains("zero_optimization");
    if (whole) own.update(tree);
    const char* const named = tree.contains(kDeepspeed) ? kDeepspeed : "fsdp_config";
    if (whole) tree = std::move(own);
    if (!whole) tree[named] = std::move(own);
  }
  strip_prefix(tree, "fsdp_config", "fsdp_");
  return tree;
}

Result<Plan> read_transformers_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
