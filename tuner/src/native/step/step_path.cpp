#include "native/step/step_path.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

// Walks back from the last backward that decides the step: to the later stage where its gradient came just in time or
// late, to the stage before only where its activation came late.
class Walk {
 public:
  Walk(const PricedPlan& priced, const RecordedStep& step)
      : priced_(priced), step_(step), stages_(static_cast<std::int32_t>(priced.pipeline.size())) {}

  StepPath run() {
    std::vector<double> stay(priced_.pipeline.size(), 0.0);
    const std::int32_t end_stage = step_.source[step_.last_stage];
    stage_ = end_stage;
    microbatch_ = step_.microbatches - 1;
    forward_ = false;
    add_tail(end_stage);
    while (microbatch_ >= 0) {
      path_.actions.push_back(action());
      const std::int32_t reach = forward_ ? microbatch_ - warmup() : step_.microbatches - 1 - microbatch_ - warmup();
      if (reach >= 0) stay[stage_] += path_.actions.back().end_ms - path_.actions.back().begin_ms;
      retreat();
    }
    std::reverse(path_.actions.begin(), path_.actions.end());
    std::size_t master = 0;
    for (std::size_t s = 1; s < stay.size(); ++s) master = stay[s] >= stay[master] ? s : master;
    path_.master_stage = static_cast<std::int32_t>(master);
    return std::move(path_);
  }

 private:
  [[nodiscard]] std::int32_t warmup() const {
    return warmup_forwards(priced_.kind, stages_, stage_, step_.microbatches);
  }
  [[nodiscard]] double begin_of(std::int32_t stage, std::int32_t microbatch, bool forward) const {
    return (forward ? step_.forward_begin : step_.backward_begin)[step_.at(stage, microbatch)];
  }
  [[nodiscard]] double length(std::int32_t stage, std::int32_t microbatch, bool forward) const {
    const PipelineStage& of = priced_.pipeline[stage];
    if (forward) return of.forward;
    return microbatch == step_.microbatches - 1 ? of.last_backward : of.backward;
  }
  [[nodiscard]] TimelineEvent action() const {
    const double begin = begin_of(stage_, microbatch_, forward_);
    return {stage_, forward_ ? EventKind::kForward : EventKind::kBackward, microbatch_, begin,
            begin + length(stage_, microbatch_, forward_)};
  }

  // What follows the last backward: synchronization, then the optimizer of the stage that ends last.
  void add_tail(std::int32_t end_stage) {
    const double computed =
        begin_of(end_stage, step_.microbatches - 1, false) + length(end_stage, step_.microbatches - 1, false);
    const double synchronized = step_.synchronized[step_.last_stage];
    if (step_.end_ms > synchronized) {
      path_.actions.push_back({step_.last_stage, EventKind::kOptimizer, -1, synchronized, step_.end_ms});
    }
    if (synchronized > computed) {
      path_.actions.push_back({end_stage, EventKind::kGradientSync, -1, computed, synchronized});
    }
  }

  void retreat() {
    const std::size_t at = step_.at(stage_, microbatch_);
    if (forward_ && step_.forward_waited[at] != 0) {
      --stage_;
    } else if (!forward_ && (step_.backward_waited[at] != 0 || just_in_time())) {
      ++stage_;
    } else {
      retreat_on_stage();
    }
  }

  // Times are whole numbers of a grid that is far finer than this.
  [[nodiscard]] bool just_in_time() const {
    if (stage_ + 1 >= stages_) return false;
    const double arrival = begin_of(stage_ + 1, microbatch_, false) + length(stage_ + 1, microbatch_, false) +
                           priced_.pipeline[stage_].transfer;
    return begin_of(stage_, microbatch_, false) - arrival <= 1e-9 * step_.end_ms;
  }

  // The action that the same stage ran before.
  void retreat_on_stage() {
    const std::int32_t ahead = warmup();
    const std::int32_t last = step_.microbatches - 1;
    if (forward_) {
      forward_ = microbatch_ <= ahead;
      microbatch_ -= forward_ ? 1 : ahead + 1;
    } else if (microbatch_ + ahead <= last || microbatch_ == 0) {
      forward_ = true;
      microbatch_ = std::min(microbatch_ + ahead, last);
    } else {
      --microbatch_;
    }
  }

  const PricedPlan& priced_;
  const RecordedStep& step_;
  std::int32_t stages_;
  StepPath path_;
  std::int32_t stage_ = 0;
  std::int32_t microbatch_ = 0;
  bool forward_ = false;
};

// The path of a step that is a graph of its own; the master stage is where it stays longest.
StepPath graph_path(const RecordedStep& step, std::size_t stages) {
  StepPath path;
  std::vector<double> stay(stages, 0.0);
  for (const StepNode& node : step.path) {
    if (node.kind == StepNode::Kind::kTransfer) continue;
    const bool forward = node.kind == StepNode::Kind::kForward;
    stay[node.stage] += node.end - node.begin;
    path.actions.push_back(
        {node.stage, forward ? EventKind::kForward : EventKind::kBackward, node.microbatch, node.begin, node.end});
  }
  std::reverse(path.actions.begin(), path.actions.end());
  const double computed = step.path.front().end;
  const double synchronized = step.synchronized[step.last_stage];
  if (synchronized > computed) {
    path.actions.push_back({step.path.front().stage, EventKind::kGradientSync, -1, computed, synchronized});
  }
  if (step.end_ms > synchronized) {
    path.actions.push_back({step.last_stage, EventKind::kOptimizer, -1, synchronized, step.end_ms});
  }
  path.master_stage = static_cast<std::int32_t>(std::max_element(stay.begin(), stay.end()) - stay.begin());
  return path;
}

}  // namespace

StepPath step_path(const PricedPlan& priced, const RecordedStep& step) {
  if (priced.by_graph()) return graph_path(step, priced.pipeline.size());
  return Walk(priced, step).run();
}

}  // namespace trimtab::tuner
