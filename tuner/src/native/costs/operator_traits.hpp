#pragma once

// What a model document says of an operator, or its kind where the document is silent. Pure.

#include "schema/costs/sequence_sharing.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

// All-reduces that either pass of the operator contains at tp > 1; none = nobody has said.
[[nodiscard]] std::optional<std::int32_t> tensor_all_reduces(const Operator& op);

// Keys and values of one sample, whole: as the model says, else twice the output of the kind "attention" and nothing of
// others.
[[nodiscard]] Bytes key_value_bytes(const Operator& op);
// Of what the operator stores of one sample, what every tensor-parallel rank holds whole unless the ranks share
// sequences: as the model says, else the output and the input of the first product of the kinds "attention" and "mlp".
[[nodiscard]] Bytes replicated_activation_bytes(const Operator& op);
// Whether some operator has any: what no operator exchanges, no context parallelism is made from.
[[nodiscard]] bool knows_keys_and_values(const Model& model);

}  // namespace trimtab::tuner
