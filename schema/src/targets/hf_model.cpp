#include "schema/hf_model.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "schema/gpt_model.hpp"
#include "targets/plan_members.hpp"

namespace trimtab {

namespace {

// What transformers' modules of a model_type have, beside the sizes of its config.json.
struct Family {
  std::string_view type;
  bool rms = true;    // norms have a weight, and no bias
  bool gated = true;  // the mlp
  bool bias = false;
  bool qkv_bias = false;
  bool query_norm = false;
  bool post_norms = false;
  bool one_norm = false;
  bool head_bias = false;
  bool learnt_positions = false;
  bool tied = false;  // where config.json does not say it
};

constexpr std::array<Family, 10> kFamilies{
    {{.type = "llama"},
     {.type = "mistral"},
     {.type = "qwen2", .qkv_bias = true},
     {.type = "qwen3", .query_norm = true},
     {.type = "gemma", .tied = true},
     {.type = "gemma2", .post_norms = true, .tied = true},
     {.type = "phi3"},
     {.type = "phi", .rms = false, .gated = false, .bias = true, .qkv_bias = true, .one_norm = true, .head_bias = true},
     {.type = "gpt_neox", .rms = false, .gated = false, .bias = true, .qkv_bias = true},
     {.type = "gpt2",
      .rms = false,
      .gated = false,
      .bias = true,
      .qkv_bias = true,
      .learnt_positions = true,
      .tied = true}}};

// A part of a name that stands for another kind of model, or for weights of another size.
constexpr std::array<std::string_view, 13> kUncountedParts{"expert",
                                                           "moe_",
                                                           "lora_rank",
                                                           "pe_head_dim",
                                                           "v_head_dim",
                                                           "mamba",
                                                           "ssm_",
                                                           "nextn",
                                                           "vision",
                                                           "quantization_config",
                                                           "text_config",
                                                           "is_encoder_decoder",
                                                           "add_cross_attention"};

// What is counted, and what changes neither the model nor its memory or its time.
constexpr std::string_view kKnownMembers = R"(
model_type num_hidden_layers n_layer hidden_size n_embd num_attention_heads n_head num_key_value_heads head_dim
intermediate_size n_inner vocab_size max_position_embeddings n_positions tie_word_embeddings hidden_dropout resid_pdrop
residual_dropout embd_pdrop embd_dropout attention_dropout attn_pdrop attention_bias mlp_bias qk_layernorm
_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path activation_function add_cross_attention
architectures attn_implementation attn_logit_softcapping auto_map bad_words_ids begin_suppress_tokens bos_token_id
cache_implementation chunk_size_feed_forward classifier_dropout cross_attention_hidden_size decoder_start_token_id
diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id
exponential_decay_length_penalty final_logit_softcapping finetuning_task forced_bos_token_id forced_eos_token_id
hidden_act hidden_activation id2label initializer_range is_decoder is_encoder_decoder label2id layer_norm_eps
layer_norm_epsilon layer_types length_penalty max_length max_window_layers min_length n_ctx no_repeat_ngram_size
num_beam_groups num_beams num_return_sequences original_max_position_embeddings output_attentions output_hidden_states
output_scores pad_token_id partial_rotary_factor prefix pretraining_tp problem_type query_pre_attn_scalar
remove_invalid_values reorder_and_upcast_attn repetition_penalty return_dict return_dict_in_generate rms_norm_eps
rope_parameters rope_scaling rope_theta rotary_emb_base rotary_pct scale_attn_by_inverse_layer_idx scale_attn_weights
sep_token_id summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
torch_dtype torchscript transformers_version typical_p unk_token_id unsloth_fixed unsloth_version use_bfloat16
use_cache use_parallel_residual use_sliding_window
)";

bool says_something(const Json& value) {
  return !value.is_null() && value != false && value != 0 && !(value.is_structured() && value.empty());
}

class Config {
 public:
  Config(const Json& json, std::string source) : json_(json), source_(std::move(source)) {}

  // Of the first name that is there; without a fallback one must be.
  [[nodiscard]] Result<std::int64_t> number(std::initializer_list<const char*> names,
                                            std::optional<std::int64_t> fallback = {}) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    for (const char* name : names) {
      const auto found = json_.find(name);
      if (found == json_.end() || found->is_null()) continue;
      const std::int64_t value = found->is_number_integer() ? found->get<std::int64_t>() : 0;
      if (value > 0 && value < kMost) return value;
      return bad_input(source_ + ": " + name + ": expected a positive integer, found " + quoted_text(dump(*found)));
    }
    if (fallback) return *fallback;
    return bad_input(source_ + ": " + *names.begin() + ": expected a positive integer, found nothing");
  }

  [[nodiscard]] bool flag(const char* name, bool fallback) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_boolean() ? found->get<bool>() : fallback;
  }

  [[nodiscard]] bool above_zero(std::initializer_list<const char*> names) const {
    return std::ranges::any_of(names, [this](const char* name) {
      const auto found = json_.find(name);
      return found != json_.end() && found->is_number() && found->get<double>() > 0;
    });
  }

  [[nodiscard]] std::string text(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : "";
  }

  // What would be another model than is counted.
  [[nodiscard]] Status check_kind() const {
    for (const auto& [name, value] : json_.items()) {
      const std::string& member = name;
      const auto in_name = [&member](std::string_view part) { return member.find(part) != std::string::npos; };
      if (!says_something(value) || std::ranges::none_of(kUncountedParts, in_name)) continue;
      return bad_input(source_ + ": " + member + ": models with experts, latent attention, other parts or weights of " +
                       "few bits are not counted; write model.json from the PyTorch module (trimtab model extract " +
                       "--module)");
    }
    return {};
  }

  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  const Json& json_;
  std::string source_;
};

Result<Family> family_of(const Config& config) {
  TRIMTAB_TRY_STATUS(config.check_kind());
  const std::string type = config.text("model_type");
  const auto found = std::ranges::find(kFamilies, type, &Family::type);
  if (found != kFamilies.end()) return *found;
  const std::string known = joined(kFamilies, ", ", &Family::type);
  return bad_input(config.source() + ": model_type: expected one of " + known + ", found " + quoted_text(type) +
                   "; write model.json from the PyTorch module (trimtab model extract --module)");
}

Status read_sizes(const Config& config, const Family& family, GptSizes& sizes) {
  TRIMTAB_TRY(sizes.layers, config.number({"num_hidden_layers", "n_layer"}));
  TRIMTAB_TRY(sizes.hidden, config.number({"hidden_size", "n_embd"}));
  TRIMTAB_TRY(sizes.heads, config.number({"num_attention_heads", "n_head"}));
  TRIMTAB_TRY(sizes.groups, config.number({"num_key_value_heads"}, sizes.heads));
  TRIMTAB_TRY(sizes.channels, config.number({"head_dim"}, std::max<std::int64_t>(sizes.hidden / sizes.heads, 1)));
  TRIMTAB_TRY(sizes.ffn, config.number({"intermediate_size", "n_inner"},
                                       family.gated ? std::nullopt : std::optional(4 * sizes.hidden)));
  TRIMTAB_TRY(sizes.vocabulary, config.number({"vocab_size"}));
  if (family.learnt_positions) {
    TRIMTAB_TRY(sizes.positions, config.number({"max_position_embeddings", "n_positions"}));
  }
  if (sizes.layers > 100'000)
    return bad_input(config.source() + ": num_hidden_layers: expected at most 100000, found more");
  if (sizes.heads % sizes.groups == 0) return {};
  return bad_input(config.source() + ": num_key_value_heads: must divide the " + std::to_string(sizes.heads) +
                   " heads, found " + std::to_string(sizes.groups));
}

void read_parts(const Config& config, const Family& family, GptSizes& sizes) {
  sizes.rms = family.rms;
  sizes.gated = family.gated;
  sizes.bias = family.bias;
  sizes.qkv_bias = family.qkv_bias;
  sizes.query_norm = family.query_norm;
  sizes.post_norms = family.post_norms;
  sizes.one_norm = family.one_norm;
  sizes.head_bias = family.head_bias;
  sizes.tied = config.flag("tie_word_embeddings", family.tied);
  sizes.hidden_masks =
      config.above_zero({"hidden_dropout", "resid_pdrop", "residual_dropout", "embd_pdrop", "embd_dropout"});
  sizes.score_masks = config.above_zero({"attention_dropout", "attn_pdrop"});
}

// What only some models of a family have, and what would be counted wrong.
Status check_variant(const Config& config) {
  for (const char* name : {"attention_bias", "mlp_bias", "qk_layernorm"}) {
    const bool usual = config.text("model_type") == "gpt_neox" && std::string_view(name) == "attention_bias";
    if (config.flag(name, usual) == usual) continue;
    return bad_input(config.source() + ": " + name + ": is not counted yet; write model.json from the PyTorch module " +
                     "(trimtab model extract --module)");
  }
  return {};
}

}  // namespace

Result<GptSizes> sizes_from_hf(std::string_view config_json, std::string_view source, const HfTraining& training) {
  TRIMTAB_TRY(const Json json, parse_json_text(config_json, source));
  if (!json.is_object()) return bad_input(std::string(source) + ": expected a JSON object");
  const Config config(json, std::string(source));
  TRIMTAB_TRY(const Family family, family_of(config));
  GptSizes sizes;
  TRIMTAB_TRY_STATUS(read_sizes(config, family, sizes));
  TRIMTAB_TRY_STATUS(check_variant(config));
  read_parts(config, family, sizes);
  const auto longest = config.number({"max_position_embeddings", "n_positions"}, 0);
  sizes.longest = longest.ok() ? *longest : 0;  // nothing else rests on it
  sizes.sequence = training.sequence;
  sizes.batch = training.global_batch;
  // Trained in bfloat16, with gradients, weights and Adam's two moments in float32.
  sizes.half = true;
  sizes.dtype = "bfloat16";
  sizes.gradient = 2;
  sizes.optimizer = 6;
  return sizes;
}

std::vector<std::string> hf_members_not_counted(std::string_view config_json) {
  std::vector<std::string> names;
  const auto json = parse_json_text(config_json, "");
  if (!json.ok() || !json->is_object()) return names;
  for (const auto& [name, value] : json->items()) {
    const bool unused =
        name == "sliding_window" && json->contains("use_sliding_window") && (*json)["use_sliding_window"] == false;
    if (!value.is_null() && !unused && !is_listed(kKnownMembers, name)) names.push_back(name);
  }
  return names;
}

Result<Model> model_from_hf(std::string_view config_json, std::string_view source, const HfTraining& training,
                            const std::string& name) {
  TRIMTAB_TRY(const GptSizes sizes, sizes_from_hf(config_json, source, training));
  return gpt_model(sizes, name);
}

}  // namespace trimtab
