#include "solvers/h3t/step_program.hpp"

#include "solvers/h3t/relaxation.hpp"

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

struct Reached {
  Bytes peak = 0, level = 0, hidden = 0;
  std::uint32_t parent = 0;
  std::uint8_t state = 0, code = 0;
};
using Boundary = std::vector<Reached>;

constexpr std::size_t kMost = 512;  // labels of a state where hidden bytes count: of different layers all sums differ

// An even choice, by level, of a state's labels [first, end).
void thin(Boundary& labels, std::size_t first, std::size_t most) {
  const std::size_t count = labels.size() - first;
  if (count <= most) return;
  const auto begin = labels.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, labels.end(), [](const Reached& a, const Reached& b) {
    return std::tie(a.level, a.hidden, a.peak) < std::tie(b.level, b.hidden, b.peak);
  });
  for (std::size_t i = 0; i < most; ++i) labels[first + i] = labels[first + i * (count - 1) / (most - 1)];
  labels.resize(first + most);
}

// Peak, level and hidden bytes: what no other label of the same state is below in all three.
void filter(Boundary& labels, std::size_t most) {
  std::ranges::sort(labels, [](const Reached& a, const Reached& b) {
    return std::tie(a.state, a.peak, a.level, a.hidden) < std::tie(b.state, b.peak, b.level, b.hidden);
  });
  Boundary kept;
  std::size_t first = 0;  // of the state's
  Staircase front;        // hidden bytes by level, of labels with ascending peaks
  for (const Reached& label : labels) {
    if (!kept.empty() && kept.back().state != label.state) {
      thin(kept, first, most);
      first = kept.size();
      front = {};
    }
    if (front.covers(label.level, label.hidden)) continue;
    front.insert(label.level, label.hidden);
    kept.push_back(label);
  }
  thin(kept, first, most);
  labels = std::move(kept);
}

// The peak with all parameters on the host, where they may be: nothing above it is of interest.
Bytes peak_of_all_on(const StepProgram& program) {
  const std::int32_t lazy = program.allows_lazy_prefetch() ? 1 : 0;
  std::int32_t state = lazy;
  Bytes level = program.starts()[static_cast<std::size_t>(lazy)].level;
  Bytes peak = level;
  for (std::int32_t i = 0; i < program.layers(); ++i) {
    const Transition* least = nullptr;
    for (const Transition& of : program.of(i)[state]) {
      const bool alike = i + 1 == program.layers() || of.next % 2 == lazy;
      if (!alike || of.host > 0) continue;
      if (least == nullptr || std::tie(of.kept, of.peak) < std::tie(least->kept, least->peak)) least = &of;
    }
    peak = std::max(peak, level + least->peak) + least->resident;
    level += least->kept + least->resident;
    state = least->next;
  }
  return peak;
}

Boundary first_boundary(const StepProgram& program) {
  Boundary labels;
  for (std::uint8_t s = 0; s < 2; ++s) {
    const Bytes level = program.starts()[s].level;
    labels.push_back({level, level, 0, 0, s, 0});
  }
  return labels;
}

Boundary next_boundary(const StepProgram& program, std::int32_t layer, const Boundary& from, Bytes known) {
  Boundary labels;
  for (std::uint32_t p = 0; p < from.size(); ++p) {
    const Reached& label = from[p];
    for (const Transition& of : program.of(layer)[label.state]) {
      Reached next{std::max(label.peak, label.level + of.peak) + of.resident,
                   label.level + of.kept + of.resident,
                   label.hidden + of.host,
                   p,
                   of.next,
                   of.code};
      const Future& then = program.future(layer + 1, of.next);
      // Below what comes in any case a peak says nothing.
      next.peak = std::max(next.peak, next.level + then.peak);
      const bool hopeless = !then.possible || next.hidden > program.hidden_limit() ||
                            next.peak + then.resident > known || next.level + then.peak_resident > known;
      if (!hopeless) labels.push_back(next);
    }
  }
  filter(labels, program.host_matters() ? kMost : labels.size());
  return labels;
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

Switching least_memory(const StepProgram& program) {
  if (program.hidden_limit() < 0) return {};
  const Bytes known = peak_of_all_on(program);
  std::vector<Boundary> boundaries{first_boundary(program)};
  for (std::int32_t i = 0; i < program.layers(); ++i) {
    boundaries.push_back(next_boundary(program, i, boundaries.back(), known));
  }
  const Boundary& ends = boundaries.back();
  const auto least = std::ranges::min_element(ends, [](const Reached& a, const Reached& b) { return a.peak < b.peak; });
  Switching switching(static_cast<std::size_t>(program.layers()));
  auto at = static_cast<std::uint32_t>(least - ends.begin());
  for (std::int32_t i = program.layers(); i > 0; --i) {
    switching[i - 1] = switches_of(boundaries[i][at].code);
    at = boundaries[i][at].parent;
  }
  return switching;
}

}  // namespace trimtab::tuner::h3t
