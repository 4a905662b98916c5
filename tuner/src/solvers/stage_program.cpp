#include "solvers/stage_program.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace trimtab::tuner {
namespace {

constexpr std::uint32_t kRoot = ~std::uint32_t{0};

struct Label {
  double time = 0, bytes = 0;
  std::uint32_t node = kRoot;  // of its latest operator; of the one before while it is being extended
  bool again = false;
};
using Front = std::vector<Label>;  // time ascending, bytes descending
using Labels = std::span<const Label>;

// How a label came about.
struct Node {
  std::uint32_t before = kRoot;
  OperatorWay way;
};

class StageProgram {
 public:
  StageProgram(const StageTerms& terms, const ByteWindow& window, std::size_t labels)
      : terms_(terms), most_(std::max<std::size_t>(labels, 2)), fronts_(terms.ways), arriving_(terms.layouts) {
    set_windows(window);
  }

  std::vector<StageWays> run() {
    start();
    for (std::size_t op = 0; op < terms_.operators; ++op) {
      if (op > 0) change_layouts(op);
      for (std::size_t way = 0; way < terms_.ways; ++way) extend(op, way);
    }
    Front last;
    for (const Front& front : fronts_) join(last, {}, front, {}, windows_.back());
    std::vector<StageWays> answers;
    for (const Label& label : last) answers.push_back(trace(label));
    return answers;
  }

 private:
  struct Shift {
    double time = 0, bytes = 0;
    bool again = false;
  };

  // Of the bytes of the first operators, from what those after them take at least and at most.
  void set_windows(const ByteWindow& window) {
    windows_.assign(terms_.operators + 1, window);
    for (std::size_t op = terms_.operators; op-- > 0;) {
      double least = std::numeric_limits<double>::infinity();
      double most = 0;
      for (std::size_t way = 0; way < terms_.ways; ++way) {
        for (const AddedCost& cost : {kept(op, way), again(op, way)}) {
          if (std::isinf(cost.time)) continue;
          least = std::min(least, cost.bytes);
          most = std::max(most, cost.bytes);
        }
      }
      windows_[op].limit = windows_[op + 1].limit - least;
      windows_[op].ample = windows_[op + 1].ample - most;
    }
  }

  void start() {
    for (Front& front : arriving_) front.assign(1, Label{});
  }

  // The labels that operator `op` begins with, by its layout.
  void change_layouts(std::size_t op) {
    by_layout_.assign(terms_.layouts, {});
    for (std::size_t way = 0; way < terms_.ways; ++way) {
      join(by_layout_[terms_.layout_of[way]], {}, fronts_[way], {}, windows_[op]);
    }
    for (std::size_t to = 0; to < terms_.layouts; ++to) {
      arriving_[to].clear();
      for (std::size_t from = 0; from < terms_.layouts; ++from) {
        const double time = terms_.change[(op * terms_.layouts + from) * terms_.layouts + to];
        if (!std::isinf(time)) join(arriving_[to], {}, by_layout_[from], {time}, windows_[op]);
      }
    }
  }

  void extend(std::size_t op, std::size_t way) {
    const Labels from = arriving_[terms_.layout_of[way]];
    Front& front = fronts_[way];
    const AddedCost& once = kept(op, way);
    const AddedCost& twice = again(op, way);
    merge(std::isinf(once.time) ? Labels{} : from, {once.time, once.bytes}, std::isinf(twice.time) ? Labels{} : from,
          {twice.time, twice.bytes, true}, windows_[op + 1], front);
    thin(front);
    for (Label& label : front) {
      nodes_.push_back({label.node, {static_cast<std::uint32_t>(way), label.again}});
      label.node = static_cast<std::uint32_t>(nodes_.size() - 1);
      label.again = false;
    }
  }

  void join(Front& into, const Shift& by, const Front& other, const Shift& other_by, const ByteWindow& window) {
    if (other.empty()) return;
    merge(into, by, other, other_by, window, scratch_);
    std::swap(into, scratch_);
  }

  static void merge(Labels a, const Shift& by_a, Labels b, const Shift& by_b, const ByteWindow& window, Front& out) {
    out.clear();
    std::size_t i = 0;
    std::size_t j = 0;
    double least = std::numeric_limits<double>::infinity();
    while ((i < a.size() || j < b.size()) && (out.empty() || least > window.ample)) {
      const bool first = j == b.size() || (i < a.size() && a[i].time + by_a.time <= b[j].time + by_b.time);
      const Shift& by = first ? by_a : by_b;
      Label label = first ? a[i++] : b[j++];
      label.time += by.time;
      label.bytes += by.bytes;
      label.again = label.again || by.again;
      if (label.bytes >= least || label.bytes > window.limit) continue;
      if (!out.empty() && out.back().time == label.time) out.pop_back();
      least = label.bytes;
      out.push_back(label);
    }
  }

  void thin(Front& front) const {
    if (front.size() <= most_) return;
    for (std::size_t i = 0; i < most_; ++i) front[i] = front[i * (front.size() - 1) / (most_ - 1)];
    front.resize(most_);
  }

  [[nodiscard]] StageWays trace(const Label& label) const {
    StageWays answer{label.time, label.bytes, {}};
    for (std::uint32_t node = label.node; node != kRoot; node = nodes_[node].before) {
      answer.operators.push_back(nodes_[node].way);
    }
    std::ranges::reverse(answer.operators);
    return answer;
  }

  [[nodiscard]] const AddedCost& kept(std::size_t op, std::size_t way) const {
    return terms_.kept[op * terms_.ways + way];
  }
  [[nodiscard]] const AddedCost& again(std::size_t op, std::size_t way) const {
    return terms_.again[op * terms_.ways + way];
  }

  const StageTerms& terms_;
  std::size_t most_;
  std::vector<ByteWindow> windows_;  // by operators that are done
  std::vector<Front> fronts_;        // by way of the latest operator
  std::vector<Front> by_layout_;
  std::vector<Front> arriving_;  // by layout of the next operator
  Front scratch_;
  std::vector<Node> nodes_;
};

}  // namespace

std::vector<StageWays> solve_stage(const StageTerms& terms, const ByteWindow& window, std::size_t labels) {
  return StageProgram(terms, window, labels).run();
}

}  // namespace trimtab::tuner
