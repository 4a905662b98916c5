#pragma once

// Oases' problem as dense arrays: a chain of blocks, each of which takes one of a few tensor-parallel degrees (Oases,
// section V; notation: d forward, q backward, c communication, w = d + q recompute and backward). Plain values.

#include <cstdint>
#include <span>
#include <vector>

#include "solvers/sub_batch_schedule.hpp"

namespace trimtab::tuner::oases {

using Doubles = std::vector<double>;
using Choice = std::vector<std::int32_t>;  // index into the degrees, by node

struct Chain {
  std::vector<std::int32_t> degrees;  // ascending
  std::int32_t nodes = 0;
  // [node][degree]; ms of one sub-batch.
  Doubles forward, backward, communication;
  Doubles memory;                 // [node][degree], bytes: states and what is kept for recompute
  Doubles buffer;                 // by the last node's degree, bytes
  double limit = 0;               // bytes
  OverlapSlowdown slowdown = {};  // of computing and communicating at once

  [[nodiscard]] std::int32_t options() const { return static_cast<std::int32_t>(degrees.size()); }
  [[nodiscard]] std::size_t at(std::int32_t node, std::int32_t degree) const {
    return static_cast<std::size_t>(node) * degrees.size() + static_cast<std::size_t>(degree);
  }
  [[nodiscard]] double ratio(std::int32_t larger, std::int32_t smaller) const {
    return static_cast<double>(degrees[larger]) / degrees[smaller];
  }
};

// What a choice takes in ms: equations (3) to (5), or what the published planner's program counts instead.
enum class Objective : std::uint8_t { kPaper, kPublished };

// The chain of a choice as blocks of the overlapped schedule: everything recomputed after communications, all-gathers
// where the degree changes (equation 4: before the larger degree's forward pass, before the smaller one's backward).
[[nodiscard]] std::vector<Block> blocks_of(const Chain& chain, const Choice& choice);

// One step. By kPaper this is rounds_time() of the forward and the backward pass over those blocks.
[[nodiscard]] double step_ms(const Chain& chain, const Choice& choice, Objective objective);
// Equation (6), left side.
[[nodiscard]] double memory_bytes(const Chain& chain, const Choice& choice);

// An objective as sums over nodes and neighbours.
struct Terms {
  Doubles node;  // [node][degree]
  Doubles edge;  // [node][degree][degree of the next node]; nodes - 1 of them
};
[[nodiscard]] Terms terms_of(const Chain& chain, Objective objective);

// What the published planner runs of its program's answer: the two degrees that most nodes have; the smaller one on as
// many whole layers (two nodes) as it fills, in front, the larger on the rest. Its memory is not checked again.
[[nodiscard]] Choice deployed(const Chain& chain, const Choice& choice);

}  // namespace trimtab::tuner::oases
