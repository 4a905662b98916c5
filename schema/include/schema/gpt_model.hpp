#pragma once

// A GPT by its sizes: operators with their parameters, activations, outputs and operations. What describes a GPT in
// words of its own (Megatron-LM's arguments, a configuration of transformers) is read into these sizes. Pure.

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "schema/model.hpp"

namespace trimtab {

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
  std::string dtype = "float32";
  std::string recipe;  // of products in fewer bits than dtype: "fp8-hybrid-delayed"; costs of one hold for no other
  double gradient = 1, optimizer = 2;
};

// Fails where a figure does not fit into 64 bits. REQUIRES: sizes above 0, positions of at least 0.
[[nodiscard]] Result<Model> gpt_model(const GptSizes& sizes, const std::string& name);

}  // namespace trimtab
