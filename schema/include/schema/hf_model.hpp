#pragma once

// A decoder as transformers' config.json describes it, as a model. Pure; any thread.
//
// Parameters are counted as transformers builds the module of that model_type: exact for the families that kFamilies of
// hf_model.cpp names, with experts and latent attention or without. What is stored for the backward pass is counted as
// for Megatron-LM's GPT of the same sizes (megatron_model.hpp), and so are gradients and optimizer states of bfloat16
// training: estimates, which measured costs replace.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/gpt_model.hpp"
#include "schema/model.hpp"

namespace trimtab {

struct HfTraining {
  std::int64_t sequence = 0;      // tokens of a sample
  std::int64_t global_batch = 0;  // samples of a step
};

// Fails on a model_type that is not known here, naming those that are, on a member that stands for another kind of
// model or for weights of few bits, and on a size that is missing or malformed, naming it. REQUIRES: both of `training`
// below 2^31, and above 0 where a model is made of it.
[[nodiscard]] Result<GptSizes> sizes_from_hf(std::string_view config_json, std::string_view source,
                                             const HfTraining& training);

// Members that are neither counted nor known to change nothing, such as "sliding_window": whoever gave the file should
// hear of them.
[[nodiscard]] std::vector<std::string> hf_members_not_counted(std::string_view config_json);

// The model of these sizes.
[[nodiscard]] Result<Model> model_from_hf(std::string_view config_json, std::string_view source,
                                          const HfTraining& training, const std::string& name);

}  // namespace trimtab
