#pragma once

// How much of a microbatch's time does not depend on how many samples are in it: the weights are read and their
// gradients added to once a microbatch, and each operator is called once. Fewer, larger microbatches save that. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "card/evidence.hpp"
#include "card/stretches.hpp"
#include "schema/api/facts.hpp"

namespace trimtab::coordinator {

// Of a microbatch's time. `basis` says where it is from, for people.
struct FixedShare {
  Estimate share;
  std::string basis;
};

// From microbatches of several sizes that the job itself has run: a line through them. Nothing where they are too
// alike.
[[nodiscard]] std::optional<FixedShare> fixed_share_of_sizes(const std::map<std::int32_t, RankEvidence>& ranks);
// From the shapes of the heaviest products; `microbatch_ms`: of a forward and a backward pass. Wide.
[[nodiscard]] std::optional<FixedShare> fixed_share_of_shapes(const std::vector<api::FactShape>& shapes, bool on_device,
                                                              double microbatch_ms);

}  // namespace trimtab::coordinator
