#pragma once

// What follows from whose code runs a plan: which kernels are fused, what the host does for each layer, how gradients
// and parameters are communicated. Facts of the frameworks' sources. Kept bytes of activations are in
// stored_activations.hpp.

#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

enum class HostWork : std::uint8_t { kEager, kFused, kCompiled };

struct FrameworkTraits {
  HostWork host = HostWork::kEager;
  // Bytes that kernels which only move memory read and write in a forward pass, for each token and, in turn, element of
  // the hidden size, of ffn and of the queries and keys (16-bit elements).
  double hidden_bytes = 20;
  double ffn_bytes = 6;
  double heads_bytes = 4;
  // Of a parameter, when a microbatch's gradient is added to those before it by a kernel of its own. Fused into the
  // product it is part of that.
  double accumulated_bytes = 0;
  double loss_bytes = 20;  // for each token and element of the vocabulary, forward and backward
  // Tensor-parallel communication beside products: with those of the rank's own share of the input alone, and not
  // behind row-parallel products (nanotron/parallel/tensor_parallel/functional.py). Else in pieces, beside all of them.
  bool overlaps_own_share = false;
  // Backward passes communicate beside products even where pieces do not: sums (or scattered sums) of a column-parallel
  // product's input gradients beside its weights' gradients, and its gathered inputs beside the former
  // (LinearWithGradAccumulationAndAsyncCommunication in megatron/core/tensor_parallel/layers.py).
  bool overlaps_backward = false;
  // In pieces also the scattered sums of a column-parallel product's input gradients, and inputs gathered for weights'
  // gradients. torch.compile finds neither: the former are sums of several products, the latter no product's left
  // operand (torch/_inductor/fx_passes/micro_pipeline_tp.py).
  bool hides_columns_backward = true;
  // Parameters whose gradients are reduced at once, where that happens beside the backward pass: at least so many, and
  // at least so many for each replica. 0 = all of them.
  double bucket = 0;
  double bucket_of_replica = 0;
  bool norms_cast = false;         // to float8, with parameters in float8: Transformer Engine
  bool newest_attention = false;   // cuDNN's or FlashAttention-3's kernels on Hopper and later
  bool scatters_gradients = true;  // of sharded states: reduce-scatter, else all-reduce
};

// Of the plan's framework, with the kernels that the plan says are not fused.
[[nodiscard]] FrameworkTraits traits_of(const UniformPlan& plan);

}  // namespace trimtab::estimates
