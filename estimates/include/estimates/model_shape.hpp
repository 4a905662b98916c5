#pragma once

// A decoder of transformers by its sizes: what an estimate must know of a model. Plain values.

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace trimtab::estimates {

struct ModelShape {
  std::string name;
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t ffn = 0;  // of one matrix
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t vocabulary = 0;  // as stated; frameworks pad it
  std::int32_t sequence = 0;    // tokens of a sample
  std::int32_t positions = 0;   // learnt ones; 0 = none
  bool gated = true;            // three matrices of ffn instead of two
  bool tied = false;            // the head shares the embedding's parameters
  bool rms = true;              // RMS norms, else layer norms with a bias
  bool bias = false;            // of matrices
};

// Ok, or the size that is not above 0, or too large for the arithmetic of estimates.
[[nodiscard]] Status check(const ModelShape& shape);

// Of one layer, and of the whole. The vocabulary is not padded.
[[nodiscard]] std::int64_t layer_parameters(const ModelShape& shape);
[[nodiscard]] std::int64_t parameters(const ModelShape& shape);

// Floating-point operations of one sample's forward and backward pass, without recomputation: 6 for each parameter of a
// matrix and token (the head counts, the embedding does not), and attention's products, halved if the mask's empty
// half is not counted.
[[nodiscard]] double sample_flops(const ModelShape& shape, bool causal_half);

}  // namespace trimtab::estimates
