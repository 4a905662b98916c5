#pragma once

// A GPT as Megatron-LM's arguments describe it, as a model. Pure; any thread.
//
// Parameters are counted as megatron/core builds them: a norm before attention and before the mlp, biases unless
// --disable-bias-linear, grouped queries, gated units, a vocabulary padded to --make-vocab-size-divisible-by times the
// tensor-parallel size. Stored activations are those of Korthikanti et al., "Reducing Activation Recomputation in Large
// Transformer Models", equation 1, for the same sizes, without the scores unless attention is not fused, and what
// tensor-parallel ranks hold whole is that of equation 2: estimates, which measured costs replace. Gradients and
// optimizer states have the types that the arguments say.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/gpt_model.hpp"
#include "schema/model.hpp"

namespace trimtab {

struct MegatronSizes {
  GptSizes sizes;
  std::vector<std::string> how_it_runs;  // as below
};

struct MegatronModel {
  Model model;
  std::vector<std::string>
      how_it_runs;  // options that change its times and a little of its memory, in order of arrival
};

// Fails on an argument that is missing, malformed, describes what this does not count (experts, hybrid layers, ...), or
// is neither known to leave the model, its memory and its time as they are nor `neutral` by the user's word
// ("my-flag"), naming it.
[[nodiscard]] Result<MegatronSizes> sizes_from_megatron(const std::vector<std::string>& arguments,
                                                        const std::vector<std::string>& neutral = {});

// The model of these sizes.
[[nodiscard]] Result<MegatronModel> model_from_megatron(const std::vector<std::string>& arguments,
                                                        const std::string& name,
                                                        const std::vector<std::string>& neutral = {});

}  // namespace trimtab
