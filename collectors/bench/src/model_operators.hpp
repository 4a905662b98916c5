#pragma once

// The operators of a model.json, and the kernels that one of them is made of: what a rank of a tensor-parallel group
// launches for some samples. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "kernels.hpp"

namespace trimtab::bench {

struct ModelOperator {
  std::string cost_key;
  std::string kind;  // attention, feedforward, layernorm, embedding, head
  std::int64_t sequence = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t vocabulary = 1;
  Bytes parameter_bytes = 0;
  std::int64_t forward_flops = 0;
};

struct ModelOperators {
  std::string dtype = "float32";  // the model's, as its document writes it
  std::map<std::string, ModelOperator> by_cost_key;
};

// Operators of kinds that no kernels are known for are kept, so that asking for one says so.
[[nodiscard]] Result<ModelOperators> parse_model_operators(std::string_view text, std::string_view source);

// What the operator does, unfused, in the order in which a framework would launch it.
struct OperatorKernels {
  Chain forward;
  Chain backward;           // gradients of input and parameters
  Bytes stored_bytes = 0;   // what forward leaves for backward, its output included: from the shapes
  Bytes working_bytes = 0;  // the largest tensor held beyond that
};

// Fails, naming it, for a kind without kernels and for a `tp` that does not divide what it splits. With tp > 1 the
// chains contain the operator's all-reduces.
[[nodiscard]] Result<OperatorKernels> operator_kernels(const ModelOperator& op, Dtype dtype, std::int64_t samples,
                                                       std::int64_t tp);

// The part of an operator's forward pass that stands for a class of kernels: "gemm" its largest matrix product,
// "attention" the batched GEMM, softmax, GEMM, "normalization" and "elementwise" the like. Fails where it has none.
[[nodiscard]] Result<Chain> kernels_of_class(const Chain& forward, std::string_view kernel_class);

}  // namespace trimtab::bench
