#include "native/costs/operator_traits.hpp"

#include <algorithm>

namespace trimtab::tuner {
Bytes key_value_bytes(const Operator& op) {
  if (op.key_value_bytes) return *op.key_value_bytes;
  return op.kind == "attention" ? 2 * op.output_bytes : 0;
}

Bytes replicated_activation_bytes(const Operator& op) {
  if (op.replicated_activation_bytes) return *op.replicated_activation_bytes;
  return op.kind == "attention" || op.kind == "mlp" ? std::min(2 * op.output_bytes, op.activation_bytes) : 0;
}

bool knows_keys_and_values(const Model& model) {
  return std::ranges::any_of(model.operators, [](const Operator& op) { return key_value_bytes(op) > 0; });
}

std::optional<std::int32_t> tensor_all_reduces(const Operator& op) {
  if (op.tensor_all_reduces) return op.tensor_all_reduces;
  if (op.kind == "attention" || op.kind == "mlp") return 1;
  return std::nullopt;
}

}  // namespace trimtab::tuner
