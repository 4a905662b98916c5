#pragma once

// What a framework keeps, copies and gathers, as far as memory goes. Each figure is read from the framework's source:
// docs/estimates.md, section "Memory", has the files. Plain values.

#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

struct FrameworkMemory {
  double weight_bytes = 2;         // of one parameter, in computation; 0 = made from the sharded master copy
  double half_gradient_bytes = 0;  // of one parameter, between a backward pass and its accumulation in float32
  double bucket_bytes = 0;         // of one parameter: buckets of DistributedDataParallel, where nothing is sharded
  double update_bytes = 0;         // of one parameter that this device updates: copies within the optimizer's step
  double activation_product = 1;   // 1 = silu(gate) * up is one operator; 2 = two, whose product keeps silu(gate) too
  bool products_kept = true;       // the mlp's second product keeps its input; else it is computed again
  bool float8_inputs = false;      // of products, as they are kept
  bool projections_alone = false;  // half of the products recomputed leaves queries, keys and values (save_qkv_proj)
  bool norm_outputs_kept = true;   // a product after a norm keeps the norm's output
  bool expands_kv = false;         // keys and values are repeated for every head before attention
  bool dropout = false;            // models with layer norms run with dropout, whose masks are kept
  bool pads_vocabulary = false;    // to a multiple of 128 * tensor
  bool kept_weight_gradients = false;   // one unused gradient of each of a layer's weight shapes is kept for autograd
  double embedding_bytes = 0;           // of one hidden value of the embedding's output, a microbatch under way
  bool head_counts = false;             // stages are cut by cost, head included
  bool optimizer_over_context = false;  // context-parallel devices are replicas for the optimizer
  double logit_forward_bytes = 6;       // of one logit, at most, in the head's forward pass
  double logit_backward_bytes = 6;      // and in its backward pass
  double bucket_elements = 0;           // of the widest type in buffers for reduction and gathering
  bool loads_all_kernels = false;       // CUDA of before 11.7 loads every kernel with the context
  int groups_per_degree = 1;            // communicators for each degree of parallelism above 1
  bool gathers_flat = false;            // updated parameters in one flat buffer
  double row_outputs = 0;               // undivided outputs of row-parallel products that wait for their collective
};

[[nodiscard]] FrameworkMemory framework_memory(const UniformPlan& plan);

}  // namespace trimtab::estimates
