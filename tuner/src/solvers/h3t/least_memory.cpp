#include "solvers/h3t/least_memory.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "solvers/h3t/relaxation.hpp"

namespace trimtab::tuner::h3t {
namespace {

struct Reached {
  Bytes peak = 0, level = 0, hidden = 0;
  std::uint32_t parent = 0;
  std::uint8_t state = 0, code = 0;
};
using Boundary = std::vector<Reached>;

constexpr std::size_t kMost = 512;  // labels of a state where hidden bytes count: of different layers all sums differ

// The least hidden bytes by level, of labels with ascending peaks.
class Staircase {
 public:
  // False where an earlier label has no more of either.
  bool add(Bytes level, Bytes hidden) {
    const auto after = steps_.upper_bound(level);
    if (after != steps_.begin() && std::prev(after)->second <= hidden) return false;
    const auto begin = steps_.lower_bound(level);
    auto end = begin;
    while (end != steps_.end() && end->second >= hidden) ++end;
    steps_.erase(begin, end);
    steps_.emplace_hint(end, level, hidden);
    return true;
  }

 private:
  std::map<Bytes, Bytes> steps_;
};

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
  std::sort(labels.begin(), labels.end(), [](const Reached& a, const Reached& b) {
    return std::tie(a.state, a.peak, a.level, a.hidden) < std::tie(b.state, b.peak, b.level, b.hidden);
  });
  Boundary kept;
  std::size_t first = 0;  // of the state's
  Staircase front;
  for (const Reached& label : labels) {
    if (!kept.empty() && kept.back().state != label.state) {
      thin(kept, first, most);
      first = kept.size();
      front = {};
    }
    if (front.add(label.level, label.hidden)) kept.push_back(label);
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

Switching least_memory(const StepProgram& program) {
  if (program.hidden_limit() < 0) return {};
  const Bytes known = peak_of_all_on(program);
  std::vector<Boundary> boundaries{first_boundary(program)};
  for (std::int32_t i = 0; i < program.layers(); ++i) {
    boundaries.push_back(next_boundary(program, i, boundaries.back(), known));
  }
  const Boundary& ends = boundaries.back();
  const auto least =
      std::min_element(ends.begin(), ends.end(), [](const Reached& a, const Reached& b) { return a.peak < b.peak; });
  Switching switching(static_cast<std::size_t>(program.layers()));
  auto at = static_cast<std::uint32_t>(least - ends.begin());
  for (std::int32_t i = program.layers(); i > 0; --i) {
    switching[i - 1] = switches_of(boundaries[i][at].code);
    at = boundaries[i][at].parent;
  }
  return switching;
}

}  // namespace trimtab::tuner::h3t
