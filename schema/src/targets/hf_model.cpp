#include "schema/hf_model.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

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
  bool whole_query_norm = false;
  bool sinks = false;
  bool latent = false;
  // Of models with experts. Biases of attention and of the head are where config.json says so.
  bool experts = false;
  bool experts_maybe = false;    // none where config.json has no number of them
  bool own_expert_size = false;  // it is not that of a dense layer's mlp
  bool says_biases = false;
  bool expert_bias = false;  // the router's, too
  bool selection_bias = false;
  bool shared_gate = false;
};

constexpr std::array<Family, 20> kFamilies{
    {{.type = "llama"},
     {.type = "mistral"},
     {.type = "qwen2", .qkv_bias = true},
     {.type = "qwen3", .query_norm = true},
     {.type = "gemma", .tied = true},
     {.type = "gemma2", .post_norms = true, .tied = true},
     {.type = "gemma3_text", .query_norm = true, .post_norms = true, .tied = true},
     {.type = "phi3"},
     {.type = "phi", .rms = false, .gated = false, .bias = true, .qkv_bias = true, .one_norm = true, .head_bias = true},
     {.type = "gpt_neox", .rms = false, .gated = false, .bias = true, .qkv_bias = true},
     {.type = "gpt2",
      .rms = false,
      .gated = false,
      .bias = true,
      .qkv_bias = true,
      .learnt_positions = true,
      .tied = true},
     {.type = "mixtral", .experts = true},
     {.type = "qwen2_moe", .qkv_bias = true, .experts = true, .own_expert_size = true, .shared_gate = true},
     {.type = "qwen3_moe", .query_norm = true, .experts = true, .own_expert_size = true},
     {.type = "olmoe", .whole_query_norm = true, .experts = true},
     {.type = "phimoe", .rms = false, .experts = true, .says_biases = true},
     {.type = "gpt_oss", .bias = true, .qkv_bias = true, .sinks = true, .experts = true, .expert_bias = true},
     {.type = "deepseek", .experts = true, .experts_maybe = true, .own_expert_size = true},
     {.type = "deepseek_v2", .latent = true, .experts = true, .experts_maybe = true, .own_expert_size = true},
     {.type = "deepseek_v3",
      .latent = true,
      .experts = true,
      .experts_maybe = true,
      .own_expert_size = true,
      .selection_bias = true}}};

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

// Such names that are counted, or change nothing, in families with experts.
constexpr std::string_view kExpertMembers = R"(
num_local_experts num_experts n_routed_experts num_experts_per_tok experts_per_token moe_intermediate_size
shared_expert_intermediate_size n_shared_experts decoder_sparse_step mlp_only_layers first_k_dense_replace
moe_layer_freq kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim qkv_bias lm_head_bias
norm_topk_prob output_router_logits router_aux_loss_coef router_jitter_noise input_jitter_noise
routed_scaling_factor scoring_func topk_group n_group topk_method aux_loss_alpha seq_aux ep_size swiglu_limit
swiglu_alpha clip_qkv initial_context_length rope_interleave
)";

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
rope_local_base_freq rope_parameters rope_scaling rope_theta rotary_emb_base rotary_pct scale_attn_by_inverse_layer_idx scale_attn_weights
sep_token_id summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
torch_dtype torchscript transformers_version typical_p unk_token_id unsloth_fixed unsloth_version use_bfloat16
use_cache use_parallel_residual use_sliding_window
)";

bool says_something(const Json& value) {
  return !value.is_null() && value != false && value != 0 && !(value.is_structured() && value.empty());
}

// How published weights are stored, and a layer beside the model that predicts further tokens. transformers builds the
// same model without either, and with the weights' own types where it trains them.
bool is_of_published_weights(std::string_view member, const Json& value) {
  if (member == "num_nextn_predict_layers") return true;
  if (member != "quantization_config" || !value.is_object()) return false;
  const auto method = value.find("quant_method");
  return method != value.end() && (*method == "fp8" || *method == "mxfp4");
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

  // Of one that is there and not null.
  [[nodiscard]] bool says(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && says_something(*found);
  }

  [[nodiscard]] bool differs(const char* name, std::int64_t usual) const {
    return says(name) && *json_.find(name) != usual;
  }

  // Numbers of layers.
  [[nodiscard]] Result<std::set<std::int64_t>> layers(const char* name) const {
    std::set<std::int64_t> numbers;
    if (!says(name)) return numbers;
    const Json& list = *json_.find(name);
    for (const Json& one : list) {
      if (list.is_array() && one.is_number_integer()) {
        numbers.insert(one.get<std::int64_t>());
        continue;
      }
      return bad_input(source_ + ": " + name + ": expected a list of layers, found " + quoted_text(dump(list)));
    }
    return numbers;
  }

  // What would be another model than is counted.
  [[nodiscard]] Status check_kind(const Family& family) const {
    for (const auto& [name, value] : json_.items()) {
      const std::string& member = name;
      const auto in_name = [&member](std::string_view part) { return member.find(part) != std::string::npos; };
      if (!says_something(value) || std::ranges::none_of(kUncountedParts, in_name)) continue;
      if (family.experts && (is_listed(kExpertMembers, member) || is_of_published_weights(member, value))) continue;
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
  const std::string type = config.text("model_type");
  const auto found = std::ranges::find(kFamilies, type, &Family::type);
  TRIMTAB_TRY_STATUS(config.check_kind(found == kFamilies.end() ? Family{} : *found));
  if (found != kFamilies.end()) return *found;
  const std::string known = joined(kFamilies, ", ", &Family::type);
  return bad_input(config.source() + ": model_type: expected one of " + known + ", found " + quoted_text(type) +
                   "; write model.json from the PyTorch module (trimtab model extract --module)");
}

Status read_latent(const Config& config, GptSizes& sizes) {
  GptLatent latent;
  TRIMTAB_TRY(latent.queries, config.number({"q_lora_rank"}, 0));
  TRIMTAB_TRY(latent.key_values, config.number({"kv_lora_rank"}));
  TRIMTAB_TRY(latent.plain, config.number({"qk_nope_head_dim"}));
  TRIMTAB_TRY(latent.rotated, config.number({"qk_rope_head_dim"}));
  TRIMTAB_TRY(latent.values, config.number({"v_head_dim"}));
  sizes.latent = latent;
  return {};
}

// Of each layer, as transformers' classes decide it.
Result<std::vector<bool>> experts_in_layers(const Config& config, std::int64_t layers) {
  TRIMTAB_TRY(const std::int64_t step, config.number({"decoder_sparse_step"}, 1));
  TRIMTAB_TRY(const std::set<std::int64_t> dense, config.layers("mlp_only_layers"));
  std::int64_t first = 0;
  if (config.says("first_k_dense_replace")) {
    TRIMTAB_TRY(first, config.number({"first_k_dense_replace"}));
  }
  std::vector<bool> in_layer;
  for (std::int64_t i = 0; i < layers; ++i) in_layer.push_back(i >= first && (i + 1) % step == 0 && !dense.contains(i));
  return in_layer;
}

Status read_experts(const Config& config, const Family& family, GptSizes& sizes) {
  GptExperts experts;
  if (family.experts_maybe && !config.says("n_routed_experts")) return {};
  TRIMTAB_TRY(experts.count, config.number({"num_local_experts", "num_experts", "n_routed_experts"}));
  TRIMTAB_TRY(experts.active, config.number({"num_experts_per_tok", "experts_per_token"}));
  TRIMTAB_TRY(experts.ffn, config.number({"moe_intermediate_size"},
                                         family.own_expert_size ? std::nullopt : std::optional(sizes.ffn)));
  if (experts.active > experts.count) {
    return bad_input(config.source() + ": num_experts_per_tok: expected at most the " + std::to_string(experts.count) +
                     " experts that there are, found " + std::to_string(experts.active));
  }
  if (config.says("n_shared_experts")) {
    TRIMTAB_TRY(experts.shared, config.number({"n_shared_experts"}));
    experts.shared_ffn = experts.shared * experts.ffn;
  }
  if (family.shared_gate) {
    experts.shared = 1;
    TRIMTAB_TRY(experts.shared_ffn, config.number({"shared_expert_intermediate_size"}));
  }
  experts.shared_gate = family.shared_gate;
  experts.bias = experts.router_bias = family.expert_bias;
  experts.selection_bias = family.selection_bias;
  TRIMTAB_TRY(experts.in_layer, experts_in_layers(config, sizes.layers));
  sizes.experts = std::move(experts);
  return {};
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

// Of biases config.json has a word for, where the family leaves it to that.
bool has_bias(const Config& config, const Family& family, const char* name, bool otherwise) {
  return family.says_biases ? config.flag(name, false) : otherwise;
}

void read_parts(const Config& config, const Family& family, GptSizes& sizes) {
  sizes.rms = family.rms;
  sizes.gated = family.gated;
  sizes.bias = has_bias(config, family, "attention_bias", family.bias);
  sizes.qkv_bias = has_bias(config, family, "attention_bias", config.flag("qkv_bias", family.qkv_bias));
  sizes.query_norm = family.query_norm;
  sizes.post_norms = family.post_norms;
  sizes.one_norm = family.one_norm;
  sizes.head_bias = has_bias(config, family, "lm_head_bias", family.head_bias);
  sizes.whole_query_norm = family.whole_query_norm;
  sizes.sinks = family.sinks;
  sizes.tied = config.flag("tie_word_embeddings", family.tied);
  sizes.hidden_masks =
      config.above_zero({"hidden_dropout", "resid_pdrop", "residual_dropout", "embd_pdrop", "embd_dropout"});
  sizes.score_masks = config.above_zero({"attention_dropout", "attn_pdrop"});
}

// What only some models of a family have, and what would be counted wrong.
Status check_variant(const Config& config, const Family& family) {
  const bool usual = family.type == "gpt_neox" || family.type == "gpt_oss";
  const bool odd_bias = !family.says_biases && config.flag("attention_bias", usual) != usual;
  const char* const odd = odd_bias                              ? "attention_bias"
                          : config.flag("mlp_bias", false)      ? "mlp_bias"
                          : config.flag("qk_layernorm", false)  ? "qk_layernorm"
                          : config.differs("moe_layer_freq", 1) ? "moe_layer_freq"
                                                                : nullptr;
  if (odd == nullptr) return {};
  return bad_input(config.source() + ": " + odd + ": is not counted yet; write model.json from the PyTorch module " +
                   "(trimtab model extract --module)");
}

}  // namespace

Result<GptSizes> sizes_from_hf(std::string_view config_json, std::string_view source, const HfTraining& training) {
  TRIMTAB_TRY(const Json json, parse_json_text(config_json, source));
  if (!json.is_object()) return bad_input(std::string(source) + ": expected a JSON object");
  const Config config(json, std::string(source));
  TRIMTAB_TRY(const Family family, family_of(config));
  GptSizes sizes;
  TRIMTAB_TRY_STATUS(read_sizes(config, family, sizes));
  if (family.latent) TRIMTAB_TRY_STATUS(read_latent(config, sizes));
  if (family.experts) TRIMTAB_TRY_STATUS(read_experts(config, family, sizes));
  TRIMTAB_TRY_STATUS(check_variant(config, family));
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
    const bool known = is_listed(kKnownMembers, name) || is_listed(kExpertMembers, name);
    if (!value.is_null() && !unused && !known) names.push_back(name);
  }
  return names;
}

Result<Model> model_from_hf(std::string_view config_json, std::string_view source, const HfTraining& training,
                            const std::string& name) {
  TRIMTAB_TRY(const GptSizes sizes, sizes_from_hf(config_json, source, training));
  return gpt_model(sizes, name);
}

}  // namespace trimtab
