#include "schema/hf_model.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "schema/gpt_model.hpp"

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

  [[nodiscard]] bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  const Json& json_;
  std::string source_;
};

Result<Family> family_of(const Config& config) {
  for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (config.has(name)) return bad_input(config.source() + ": " + name + ": models with experts are not priced yet");
  }
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

Result<Model> model_from_hf(std::string_view config_json, std::string_view source, const HfTraining& training,
                            const std::string& name) {
  TRIMTAB_TRY(const GptSizes sizes, sizes_from_hf(config_json, source, training));
  return gpt_model(sizes, name);
}

}  // namespace trimtab
