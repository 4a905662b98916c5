#pragma once

// The exact planner: a shortest path over a chain of nodes, each with one of a few options, costs of neighbours, and
// one budget (memory). Labels (memory, cost) for each node and option, kept where no other is better in both; a label
// is dropped too where even the best way to go on from it cannot fit or cannot beat what is known. Those bounds are the
// same chain solved backwards with memory priced at the optimal dual value. Pure; keeps its working memory between
// calls; not thread-safe.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace trimtab::tuner::oases {

struct ChainProblem {
  std::int32_t nodes = 1;
  std::int32_t options = 1;        // at most 16
  std::span<const double> node;    // [node][option], cost
  std::span<const double> edge;    // [node][option][option of the next node], cost; nodes - 1 of them
  std::span<const double> memory;  // [node][option]
  std::span<const double> buffer;  // by the last node's option, added to the memory
  double limit = 0;                // of the sum of memory; may be infinite
  std::int32_t most_options = 0;   // at most so many options, each on consecutive nodes; 0 = any, in any order
  // The program ends early with more labels than this (32 bytes each), or when `stop`, asked at every node, is true.
  std::uint64_t most_labels = 1ULL << 24;
  std::function<bool()> stop = {};
};

struct ChainAnswer {
  bool found = false;                // some choice fits
  bool proven = false;               // none costs less; else it ended early with the best of the dual
  std::vector<std::int32_t> choice;  // by node; where none fits, the one of least memory
  double cost = 0;
  double memory = 0;
  double bound = 0;          // no choice that fits costs less, by the dual alone
  std::uint64_t labels = 0;  // that were kept; 0 where the dual closed the gap
};

class LabelSetting {
 public:
  // The choice of least cost that fits; among equals any, but always the same. Where it ends early, one that fits.
  ChainAnswer solve(const ChainProblem& problem);

 private:
  // An option, and which options have been used up to it where that is limited.
  struct State {
    std::int32_t option = 0;
    std::uint32_t used = 0;
  };
  struct Label {
    double memory, cost;
    std::int32_t before;  // index of the label that it goes on from
    std::int32_t state;
  };
  struct Total {
    double cost = 0, memory = 0;
  };
  // Of the labels so far, the next one of a predecessor state, moved over the edge.
  struct Head {
    std::int32_t next, end;
    double edge;
  };

  void make_states();
  void connect_states();
  void fill_to_go(double cost_weight, double price, std::vector<double>& to_go);
  Total descend(const std::vector<double>& to_go, double cost_weight, double price, std::vector<std::int32_t>& choice);
  // Solves the dual; false when the least memory is over the limit.
  bool bound(ChainAnswer& answer);
  void set_labels(ChainAnswer& answer);
  void begin_labels();
  void extend(std::int32_t node);
  void merge_into(std::int32_t node, std::int32_t state);
  [[nodiscard]] bool hopeless(std::int32_t node, std::int32_t state, double memory, double cost) const;
  void finish(ChainAnswer& answer);

  [[nodiscard]] double node_cost(std::int32_t node, std::int32_t state) const {
    return problem_.node[static_cast<std::size_t>(node) * problem_.options + states_[state].option];
  }
  [[nodiscard]] double node_memory(std::int32_t node, std::int32_t state) const {
    return problem_.memory[static_cast<std::size_t>(node) * problem_.options + states_[state].option];
  }
  [[nodiscard]] double edge_cost(std::int32_t node, std::int32_t from, std::int32_t to) const {
    return problem_.edge[(static_cast<std::size_t>(node) * problem_.options + states_[from].option) * problem_.options +
                         states_[to].option];
  }
  [[nodiscard]] std::size_t cell(std::int32_t node, std::int32_t state) const {
    return static_cast<std::size_t>(node) * states_.size() + state;
  }
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(states_.size()); }

  ChainProblem problem_;
  std::vector<State> states_;
  std::vector<std::int32_t> begin_states_;
  std::vector<std::int32_t> index_;                       // [used][option] to state, -1: none
  std::vector<std::vector<std::int32_t>> next_, before_;  // states, by state
  // From a node's state to the end, [node][state], what comes after the node: least cost, least memory, and least cost
  // plus memory at the dual price.
  std::vector<double> cost_to_go_, memory_to_go_, priced_to_go_;
  double price_ = 0;
  double best_ = 0;  // of the choices seen
  std::vector<double> scratch_;
  std::vector<std::int32_t> tried_;
  std::vector<Label> labels_;
  std::vector<std::int32_t> first_;  // of the labels of each state, at the last node so far; one more than states
  std::vector<std::int32_t> fresh_;
  std::vector<Head> heads_;
};

}  // namespace trimtab::tuner::oases
