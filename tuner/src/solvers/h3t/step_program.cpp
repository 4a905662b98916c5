#include "solvers/h3t/step_program.hpp"

#include <algorithm>
#include <map>

namespace trimtab::tuner::h3t {
namespace {

// For all microbatches of a step.
Transitions scaled(const Transitions& one, const Problem& problem, bool host_matters) {
  Transitions all = one;
  for (std::vector<Transition>& front : all) {
    for (Transition& of : front) {
      of.ticks *= problem.microbatches;
      of.resident += (problem.in_flight - 1) * of.retained;
      of.host *= host_matters ? problem.in_flight : 0;
    }
  }
  return all;
}

Start start_of(const Problem& problem, bool lazy) {
  SegmentSimulator simulator(problem.layers.first(1), problem.fabric);
  LayerSwitches switches;
  switches.lazy_prefetch = lazy;
  simulator.begin({&switches, 1}, 0);
  simulator.forward_head(0);
  simulator.synchronize();
  return {problem.microbatches * simulator.runtime(), simulator.delta()};
}

}  // namespace

StepProgram::StepProgram(const Problem& problem, TransitionTable* table)
    : allows_lazy_prefetch_(problem.allowed.lazy_prefetch &&
                            (problem.allowed.partition_parameters || !problem.allowed.lazy_needs_partition)),
      device_limit_(problem.device_limit) {
  for (const LayerProfile& layer : problem.layers) {
    optimizer_.push_back(layer.optimizer_step);
    optimizer_sum_ += layer.optimizer_step;
  }
  find_host_limit(problem);
  TransitionTable own;
  find_transitions(problem, table == nullptr ? own : *table);
  starts_ = {start_of(problem, false), start_of(problem, true)};
  find_futures();
}

void StepProgram::find_host_limit(const Problem& problem) {
  Bytes fixed = 0;
  Bytes hidden = 0;
  for (const LayerProfile& layer : problem.layers) {
    fixed += layer.host_bytes;
    hidden += problem.in_flight * layer.input;
  }
  const bool matters = problem.host_limit < kUnlimited && fixed + hidden > problem.host_limit;
  if (matters) hidden_limit_ = problem.host_limit - fixed;
}

void StepProgram::find_transitions(const Problem& problem, TransitionTable& table) {
  std::vector<std::int32_t> numbers{-1};
  for (const LayerProfile& layer : problem.layers) numbers.push_back(table.number_of(layer));
  numbers.push_back(-1);
  std::map<TransitionTable::Shared, TransitionTable::Shared> known;  // scaled, by what they come from
  for (std::size_t i = 1; i + 1 < numbers.size(); ++i) {
    const TransitionTable::Shared one = table.between(numbers[i - 1], numbers[i], numbers[i + 1], problem);
    TransitionTable::Shared& all = known[one];
    if (all == nullptr) all = std::make_shared<const Transitions>(scaled(*one, problem, host_matters()));
    of_layer_.push_back(all);
  }
}

void StepProgram::find_futures() {
  futures_.assign(of_layer_.size() + 1, {});
  most_residents_.assign(of_layer_.size() + 1, 0);
  most_hidden_.assign(of_layer_.size() + 1, 0);
  for (Future& end : futures_.back()) end.possible = true;
  for (std::int32_t i = layers() - 1; i >= 0; --i) {
    Bytes resident = 0;
    Bytes hidden = 0;
    for (std::int32_t s = 0; s < kStates; ++s) {
      Future& best = futures_[i][s];
      for (const Transition& of : (*of_layer_[i])[s]) {
        resident = std::max(resident, of.resident);
        hidden = std::max(hidden, of.host);
        const Future& then = futures_[i + 1][of.next];
        if (!then.possible) continue;
        const Future through{
            std::max(of.peak, of.kept + then.peak),
            std::max(of.peak + of.resident + then.resident, of.kept + of.resident + then.peak_resident),
            of.resident + then.resident, true};
        if (!best.possible) best = through;
        best.peak = std::min(best.peak, through.peak);
        best.peak_resident = std::min(best.peak_resident, through.peak_resident);
        best.resident = std::min(best.resident, through.resident);
      }
    }
    most_residents_[i] = most_residents_[i + 1] + resident;
    most_hidden_[i] = most_hidden_[i + 1] + hidden;
  }
}

}  // namespace trimtab::tuner::h3t
