#pragma once

// What an operator costs a rank that has a part of each sample's sequence alone: sequence parallelism, over the ranks
// of tensor parallelism (Korthikanti et al. 2022), and context parallelism, over cp groups of them (ring attention, Liu
// et al. 2023). As measured, where costs say so by their `sharding` ("sequence", "context-2", "sequence-context-2");
// else, where estimates are allowed, made from the operator's costs of whole sequences:
//   time     what it computes at this tp (its all-reduces taken off, and no less than one rank's time / tp; where this
//            tp was not measured, from one rank: tensor_estimate.hpp) over cp, beside the exchange of keys and values;
//            then its all-reduces, of 1 / cp of the output, each a reduce-scatter and an all-gather under sequence
//            parallelism
//   exchange keys and values go round the ring of cp ranks: what an all-gather takes, in either pass, and in the
//            backward pass what a reduce-scatter of their gradients takes
//   stored   1 / cp of it; under sequence parallelism 1 / (tp cp) of what one rank stores (Korthikanti, equation 4)
//   working  1 / cp of it, and two parts of keys and values: one in use, one on its way
// Pure.

#include "native/stage/operator_price.hpp"

namespace trimtab::tuner {

// A group's costs under a split: the tables', or those of ranks that share sequences.
[[nodiscard]] OperatorCosts costs_under(const CostTable::Tables& tables, const SplitShape& split, bool alternate,
                                        std::int32_t group);

// What the exchange of keys and values and the operator's computing slow each other down by.
[[nodiscard]] Slowdowns exchange_slowdown(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group);

// What ranks of tensor parallelism do in place of one all-reduce of the operator's output; one collective or two.
[[nodiscard]] std::vector<CollectiveUse> output_sums(const CostTable::Tables& tables, const SplitShape& split,
                                                     std::int32_t group);
// All collectives that an estimate of the group's times is made of.
[[nodiscard]] std::vector<CollectiveUse> sharing_uses(const CostTable::Tables& tables, const SplitShape& split,
                                                      std::int32_t group);

// What operators of ranks that share sequences cost at least, wherever a replica of them lies: for bounds. Memoized;
// one owner, not thread-safe.
class LeastSharingCosts {
 public:
  // All must outlive this.
  LeastSharingCosts(const CostTable::Tables& tables, const std::vector<std::int32_t>& node_of,
                    const SequenceShare& share)
      : tables_(tables), node_of_(node_of), share_(share) {}

  // Whether sequences are shared at all; nothing else may be asked where they are not.
  [[nodiscard]] bool any() const { return share_ != SequenceShare{}; }
  // By group, both passes alone; missing where no place has a price.
  const std::vector<OperatorCosts>& of_groups(std::int32_t samples, std::int32_t tp);
  // `shape`, once for each pair of routes that some replica may have.
  [[nodiscard]] std::vector<SplitShape> everywhere(const SplitShape& shape);

 private:
  using Routes = std::vector<std::pair<Route, Route>>;  // tensor, context
  const Routes& routes(std::int32_t tp);

  const CostTable::Tables& tables_;
  const std::vector<std::int32_t>& node_of_;  // by device
  SequenceShare share_;
  std::map<std::int32_t, Routes> routes_;  // by tp
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<OperatorCosts>> least_;
};

}  // namespace trimtab::tuner
