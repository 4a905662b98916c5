#pragma once

// One form for candidates that mean the same plan, so that a search looks at each meaning once. Pure.

#include <cstdint>

#include "plan/candidate.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

// Joins equal segments, drops sharding over one replica and a degree that says all replicas, drops second dimensions of
// operators that are not split or have only one.
void canonicalize(const Model& model, Candidate& candidate);

// Equal for candidates of equal canonical form.
[[nodiscard]] std::uint64_t semantic_hash_of(const Model& model, const Candidate& candidate);

}  // namespace trimtab::tuner
