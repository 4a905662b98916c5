#pragma once

// A GPT by its sizes: operators with their parameters, activations, outputs and operations. What describes a GPT in
// words of its own (Megatron-LM's arguments, a configuration of transformers) is read into these sizes. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/model.hpp"

namespace trimtab {

// What stands in place of the mlp in some layers: a token is sent to some of many experts, each an mlp.
struct GptExperts {
  std::int64_t count = 0, active = 0, ffn = 0;  // `active`: of a token. `ffn`: of each
  std::int64_t shared = 0, shared_ffn = 0;      // that every token passes: how many, and of them all together
  bool bias = false, router_bias = false, shared_gate = false;
  bool selection_bias = false;  // a number of each expert that only chooses; no gradient, but published sizes count it
  std::vector<bool> in_layer;   // as many as there are layers
};

// Attention that makes queries, and keys with values, of short vectors (DeepSeek's latent attention).
struct GptLatent {
  std::int64_t queries = 0, key_values = 0;         // how long those are; 0 queries: they are made of the hidden state
  std::int64_t plain = 0, rotated = 0, values = 0;  // channels of a head: of keys without and with positions, of values
  bool norms = true;                                // of the short vectors
};

struct GptSizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, batch = 0, vocabulary = 0;  // padded
  std::int64_t ffn = 0, channels = 0, groups = 0, positions = 0;                            // 0 positions: none learnt
  std::int64_t longest = 0;  // sequence that its configuration is made for; 0 = it does not say
  bool gated = false, bias = true, qkv_bias = false, query_norm = false, tied = true, rms = false, half = false;
  bool hidden_masks = true, score_masks = true;  // of dropout
  bool keeps_scores = false;                     // attention that is not fused
  bool post_norms = false;                       // a norm behind attention and behind the mlp, too
  bool one_norm = false;                         // attention and mlp share the one before them
  bool head_bias = false;
  bool whole_query_norm = false;  // query_norm over all heads together
  bool sinks = false;             // attention has a learnt number for each head
  std::optional<GptExperts> experts;
  std::optional<GptLatent> latent;  // channels and groups count for nothing then
  std::string dtype = "float32";
  std::string recipe;  // of products in fewer bits than dtype: "fp8-hybrid-delayed"; costs of one hold for no other
  double gradient = 1, optimizer = 2;
  std::optional<double> optimizer_of_ends;  // of embeddings and head, where it is not that of the layers (Muon's)
};

// Fails where a figure does not fit into 64 bits. REQUIRES: sizes above 0, positions of at least 0,
// no more active experts than there are.
[[nodiscard]] Result<Model> gpt_model(const GptSizes& sizes, const std::string& name);

}  // namespace trimtab
