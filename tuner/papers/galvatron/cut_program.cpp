#include "papers/galvatron/cut_program.hpp"

#include <algorithm>

namespace trimtab::tuner::galvatron {
namespace {

class Program {
 public:
  Program(const CutShape& shape, CutGoal goal, double below)
      : shape_(shape),
        goal_(goal),
        below_(below),
        layers_(shape.ranges->layers()),
        stages_(static_cast<std::int32_t>(shape.rows.size())) {
    for (std::int32_t end = 1; end < layers_; ++end) {
      if (shape.may_cut[static_cast<std::size_t>(end)]) ends_.push_back(end);
    }
  }

  // The least of what is below `below`; else that.
  double run(const std::vector<double>& values) {
    const auto width = static_cast<std::size_t>(layers_) + 1;
    least_.assign(width * static_cast<std::size_t>(stages_), below_);
    begin_.assign(least_.size(), 0);
    for (std::int32_t s = 0; s < stages_; ++s) {
      const std::int32_t last_begin = s == 0 ? 0 : layers_ - (stages_ - s);
      for (std::int32_t begin = s; begin <= last_begin; ++begin) {
        const double before = s == 0 ? 0 : least_[at(s - 1, begin)];
        if (before < below_) extend(s, begin, before, values);
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

  void extend(std::int32_t stage, std::int32_t begin, double before, const std::vector<double>& values) {
    const double* const row = &values[shape_.rows[static_cast<std::size_t>(stage)]];
    const auto offer = [&](std::int32_t end) {
      const double own = row[shape_.ranges->number(begin, end)];
      const double with = goal_ == CutGoal::kSum ? before + own : std::max(before, own);
      const std::size_t here = at(stage, end);
      if (with >= least_[here]) return;
      least_[here] = with;
      begin_[here] = begin;
    };
    if (stage + 1 == stages_) return offer(layers_);
    const std::int32_t last_end = layers_ - (stages_ - 1 - stage);
    for (auto end = std::upper_bound(ends_.begin(), ends_.end(), begin); end != ends_.end() && *end <= last_end;
         ++end) {
      offer(*end);
    }
  }

  const CutShape& shape_;
  const CutGoal goal_;
  const double below_;
  const std::int32_t layers_;
  const std::int32_t stages_;
  std::vector<std::int32_t> ends_;
  std::vector<double> least_;
  std::vector<std::int32_t> begin_;
};

}  // namespace

CutAnswer best_cuts(const CutShape& shape, CutGoal goal, CutValues& values, double below,
                    const std::function<void(std::size_t)>& refine, const std::function<bool()>& stop) {
  Program program(shape, goal, below);
  while (true) {
    CutAnswer answer;
    answer.least = program.run(values.least);
    if (!refine || answer.least >= below) return answer;
    answer.partition = program.path();
    bool exact = true;
    std::int32_t begin = 0;
    for (std::size_t s = 0; s < answer.partition.size(); ++s) {
      const std::int32_t end = answer.partition[s];
      const std::size_t where = shape.rows[s] + static_cast<std::size_t>(shape.ranges->number(begin, end));
      if (values.exact[where] == 0) {
        if (stop && stop()) return {answer.least, {}};
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
