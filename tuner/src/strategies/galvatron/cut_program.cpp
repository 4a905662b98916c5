#include "strategies/galvatron/cut_program.hpp"

#include <algorithm>

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Program {
 public:
  Program(const CutShape& shape, CutGoal goal)
      : shape_(shape),
        goal_(goal),
        layers_(shape.ranges->layers()),
        stages_(static_cast<std::int32_t>(shape.rows.size())) {}

  double run(const std::vector<double>& values) {
    const auto width = static_cast<std::size_t>(layers_) + 1;
    least_.assign(width * static_cast<std::size_t>(stages_), kInfinite);
    begin_.assign(least_.size(), 0);
    for (std::int32_t s = 0; s < stages_; ++s) {
      const bool last = s + 1 == stages_;
      for (std::int32_t end = last ? layers_ : s + 1; end <= layers_ - (stages_ - 1 - s); ++end) {
        if (last || shape_.may_cut[static_cast<std::size_t>(end)]) extend(s, end, values);
      }
    }
    return least_.back();
  }

  [[nodiscard]] Partition path() const {
    Partition partition(static_cast<std::size_t>(stages_));
    std::int32_t end = layers_;
    for (std::int32_t s = stages_; s-- > 0;) {
      partition[static_cast<std::size_t>(s)] = end;
      end = begin_[at(s, end)];
    }
    return partition;
  }

 private:
  [[nodiscard]] std::size_t at(std::int32_t stage, std::int32_t end) const {
    return static_cast<std::size_t>(stage) * (static_cast<std::size_t>(layers_) + 1) + static_cast<std::size_t>(end);
  }

  void extend(std::int32_t stage, std::int32_t end, const std::vector<double>& values) {
    const std::size_t row = shape_.rows[static_cast<std::size_t>(stage)];
    const std::size_t here = at(stage, end);
    const std::int32_t last_begin = stage == 0 ? 0 : end - 1;
    for (std::int32_t begin = stage; begin <= last_begin; ++begin) {
      const double before = stage == 0 ? 0 : least_[at(stage - 1, begin)];
      if (before >= least_[here]) continue;
      const double own = values[row + static_cast<std::size_t>(shape_.ranges->number(begin, end))];
      const double with = goal_ == CutGoal::kSum ? before + own : std::max(before, own);
      if (with >= least_[here]) continue;
      least_[here] = with;
      begin_[here] = begin;
    }
  }

  const CutShape& shape_;
  const CutGoal goal_;
  const std::int32_t layers_;
  const std::int32_t stages_;
  std::vector<double> least_;
  std::vector<std::int32_t> begin_;
};

}  // namespace

CutAnswer best_cuts(const CutShape& shape, CutGoal goal, CutValues& values, double below,
                    const std::function<void(std::size_t)>& refine) {
  Program program(shape, goal);
  while (true) {
    CutAnswer answer;
    answer.least = program.run(values.least);
    if (answer.least >= below || answer.least == kInfinite) return answer;
    answer.partition = program.path();
    bool exact = true;
    std::int32_t begin = 0;
    for (std::size_t s = 0; s < answer.partition.size(); ++s) {
      const std::int32_t end = answer.partition[s];
      const std::size_t where = shape.rows[s] + static_cast<std::size_t>(shape.ranges->number(begin, end));
      if (values.exact[where] == 0) {
        refine(where);
        values.exact[where] = 1;
        exact = false;
      }
      begin = end;
    }
    if (exact) return answer;
  }
}

}  // namespace trimtab::tuner::galvatron
