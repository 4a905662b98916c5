#pragma once

// A synchronized step as a shortest path: with segment synchronization on, a step's time is a sum over layers and its
// memory a running level, over 16 states a boundary (layer_transitions.hpp). Of several microbatches each takes both
// passes, and what those in flight retain counts as resident. Immutable.

#include <iterator>

#include "solvers/h3t/layer_transitions.hpp"

namespace trimtab::tuner::h3t {

struct Start {
  Ticks ticks = 0;  // the first layer's parameters
  Bytes level = 0;
};

// Of labels that come in the order of what else counts: the least of a second number by a first one.
class Staircase {
 public:
  // Whether an earlier label has no more of either.
  [[nodiscard]] bool covers(std::int64_t first, std::int64_t second) const {
    const auto after = steps_.upper_bound(first);
    return after != steps_.begin() && std::prev(after)->second <= second;
  }
  // REQUIRES: !covers(first, second).
  void insert(std::int64_t first, std::int64_t second) {
    const auto begin = steps_.lower_bound(first);
    auto end = begin;
    while (end != steps_.end() && end->second >= second) ++end;
    steps_.erase(begin, end);
    steps_.emplace_hint(end, first, second);
  }

 private:
  std::map<std::int64_t, std::int64_t> steps_;  // ascending in the first, descending in the second
};

// Limits of what may still come, by boundary and state.
struct Future {
  Bytes peak = 0;           // over levels in front, without residents: at least
  Bytes peak_resident = 0;  // the same with the residents that come: at least
  Bytes resident = 0;       // that come: at least
  bool possible = false;
};

class StepProgram {
 public:
  // `table`, where there is one, remembers what was simulated.
  explicit StepProgram(const Problem& problem, TransitionTable* table = nullptr);

  [[nodiscard]] std::int32_t layers() const { return static_cast<std::int32_t>(of_layer_.size()); }
  [[nodiscard]] const Transitions& of(std::int32_t layer) const { return *of_layer_[layer]; }
  [[nodiscard]] bool allows_lazy_prefetch() const { return allows_lazy_prefetch_; }
  // By lazy_prefetch of the first layer, which is its state.
  [[nodiscard]] const std::array<Start, 2>& starts() const { return starts_; }
  [[nodiscard]] const Future& future(std::int32_t boundary, std::int32_t state) const {
    return futures_[boundary][state];
  }
  // Behind a boundary, at most.
  [[nodiscard]] Bytes most_residents(std::int32_t boundary) const { return most_residents_[boundary]; }
  [[nodiscard]] Bytes most_hidden(std::int32_t boundary) const { return most_hidden_[boundary]; }
  [[nodiscard]] Ticks optimizer(std::int32_t layer) const { return optimizer_[layer]; }
  [[nodiscard]] Ticks optimizer_sum() const { return optimizer_sum_; }
  [[nodiscard]] Bytes device_limit() const { return device_limit_; }
  // For hidden states alone; kUnlimited where all of them fit, and transitions say nothing of them.
  [[nodiscard]] Bytes hidden_limit() const { return hidden_limit_; }
  [[nodiscard]] bool host_matters() const { return hidden_limit_ < kUnlimited; }

 private:
  void find_transitions(const Problem& problem, TransitionTable& table);
  void find_host_limit(const Problem& problem);
  void find_futures();

  std::vector<std::shared_ptr<const Transitions>> of_layer_;  // equal layers share
  std::array<Start, 2> starts_;
  std::vector<std::array<Future, kStates>> futures_;
  std::vector<Bytes> most_residents_;
  std::vector<Bytes> most_hidden_;
  std::vector<Ticks> optimizer_;
  Ticks optimizer_sum_ = 0;
  bool allows_lazy_prefetch_ = true;
  Bytes device_limit_ = kUnlimited;
  Bytes hidden_limit_ = kUnlimited;
};

// The synchronized switches with the lowest peak: whether anything fits at all. Exact but where the host's limit can be
// reached by many different layers: of more than 512 labels of a state an even choice goes on, so that the peak may be
// a little above the lowest.

// Of switches whose hidden states fit on the host. Empty where the host is too small for what it must hold in any case.
[[nodiscard]] Switching least_memory(const StepProgram& program);

}  // namespace trimtab::tuner::h3t
