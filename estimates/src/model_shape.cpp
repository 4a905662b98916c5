#include "estimates/model_shape.hpp"

namespace trimtab::estimates {

namespace {

std::int64_t attention_matrices(const ModelShape& shape) {
  const std::int64_t queries = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t keys = std::int64_t{shape.kv_heads} * shape.head_dim;
  return std::int64_t{shape.hidden} * (queries + 2 * keys) + queries * shape.hidden;
}

std::int64_t mlp_matrices(const ModelShape& shape) {
  return std::int64_t{shape.hidden} * shape.ffn * (shape.gated ? 3 : 2);
}

}  // namespace

Status check(const ModelShape& shape) {
  struct Size {
    const char* name;
    std::int32_t value;
    std::int32_t most;
  };
  for (const Size& size : {Size{"layers", shape.layers, 4096}, Size{"hidden", shape.hidden, 1 << 20},
                           Size{"ffn", shape.ffn, 1 << 22}, Size{"heads", shape.heads, 1 << 16},
                           Size{"kv_heads", shape.kv_heads, 1 << 16}, Size{"head_dim", shape.head_dim, 1 << 16},
                           Size{"vocabulary", shape.vocabulary, 1 << 26}, Size{"sequence", shape.sequence, 1 << 28}}) {
    if (size.value >= 1 && size.value <= size.most) continue;
    return bad_input("model: " + std::string(size.name) + " " + std::to_string(size.value) + ": expected 1 to " +
                     std::to_string(size.most));
  }
  return {};
}

std::int64_t layer_parameters(const ModelShape& shape) {
  const std::int64_t norms = std::int64_t{2} * shape.hidden * (shape.rms ? 1 : 2);
  const std::int64_t queries = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t keys = std::int64_t{shape.kv_heads} * shape.head_dim;
  const std::int64_t biases =
      shape.bias ? queries + 2 * keys + shape.hidden + std::int64_t{shape.ffn} * (shape.gated ? 2 : 1) + shape.hidden
                 : 0;
  return attention_matrices(shape) + mlp_matrices(shape) + norms + biases;
}

std::int64_t parameters(const ModelShape& shape) {
  const std::int64_t table = std::int64_t{shape.vocabulary} * shape.hidden;
  const std::int64_t last_norm = std::int64_t{shape.hidden} * (shape.rms ? 1 : 2);
  return layer_parameters(shape) * shape.layers + table * (shape.tied ? 1 : 2) +
         std::int64_t{shape.positions} * shape.hidden + last_norm;
}

double sample_flops(const ModelShape& shape, bool causal_half) {
  const double matrices = static_cast<double>(attention_matrices(shape) + mlp_matrices(shape)) * shape.layers +
                          static_cast<double>(shape.vocabulary) * shape.hidden;
  const double products = 12.0 * shape.layers * shape.heads * shape.head_dim * shape.sequence;
  return shape.sequence * (6 * matrices + products * (causal_half ? 0.5 : 1));
}

}  // namespace trimtab::estimates
