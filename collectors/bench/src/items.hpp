#pragma once

// What each kind of benchmark request measures on a GPU.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "device.hpp"
#include "model_operators.hpp"
#include "overlap.hpp"
#include "requests.hpp"

namespace trimtab::bench {

// What every item needs. Its parts outlive it.
struct Bench {
  Device& device;
  Ranks& ranks;
  const ModelOperators& model;
  Precision precision;
  OverlapSettings overlap;
  Random random{1};
};

// The costs of one item. Every rank fails alike where the item itself cannot be run.
[[nodiscard]] Result<std::vector<Measured>> measure_item(const Json& item, Bench& bench);

// Answers every item in order, one line at a time: costs and "done", or why not.
void answer(const Requests& requests, Bench& bench, const std::function<void(const std::string&)>& print);

// The parts, for the sweep (overlap_sweep.hpp).
[[nodiscard]] std::vector<Measured> overlap_costs(const OverlapCase& one, const OverlapResult& result);
// The communication that `primitive` names; fails, naming those that there are.
[[nodiscard]] Result<Chain> communication(std::string_view primitive, Bytes bytes, std::int32_t channels,
                                          std::int32_t group_size, const Ranks& ranks);

}  // namespace trimtab::bench
