#include "native/step/recorded_step.hpp"

namespace trimtab::tuner {
namespace {

struct Recorder {
  static constexpr bool kSkips = false;
  const PricedPlan& priced;
  RecordedStep& step;

  void forward(std::int32_t s, std::int32_t k, double ready, double arrival, double /*end*/) {
    const std::size_t at = step.at(s, k);
    step.forward_begin[at] = std::max(ready, arrival);
    step.forward_waited[at] = waited(s, s - 1, ready, arrival);
  }
  void half(std::int32_t s, std::int32_t k, bool second, double ready, double arrival, double /*end*/) {
    const std::size_t at = second ? step.at_half(s, k) : step.at(s, k);
    (second ? step.second_begin : step.forward_begin)[at] = std::max(ready, arrival);
    (second ? step.second_waited : step.forward_waited)[at] = arrival > ready ? 1 : 0;
    if (arrival <= ready) return;
    step.received[s] += arrival - ready;
    step.exposed[s] += std::min(arrival - ready, priced.halves[s - 1].transfer);
  }
  void backward(std::int32_t s, std::int32_t k, double ready, double arrival, double /*end*/) {
    const std::size_t at = step.at(s, k);
    step.backward_begin[at] = std::max(ready, arrival);
    step.backward_waited[at] = waited(s, s, ready, arrival);
  }
  void held_up(std::int32_t s, std::int32_t k, PassKind pass, HeldUp how, double begin) {
    const std::size_t at = pass == PassKind::kSecondHalf ? step.at_half(s, k) : step.at(s, k);
    auto& begins = pass == PassKind::kBackward     ? step.backward_begin
                   : pass == PassKind::kSecondHalf ? step.second_begin
                                                   : step.forward_begin;
    auto& held = pass == PassKind::kBackward     ? step.backward_held
                 : pass == PassKind::kSecondHalf ? step.second_held
                                                 : step.forward_held;
    step.issuing[s] += begin - begins[at];
    begins[at] = begin;
    held.resize(begins.size());
    held[at] = static_cast<std::uint8_t>(how);
  }

 private:
  std::uint8_t waited(std::int32_t s, std::int32_t boundary, double ready, double arrival) {
    if (arrival <= ready) return 0;
    step.received[s] += arrival - ready;
    step.exposed[s] += std::min(arrival - ready, priced.pipeline[boundary].transfer);
    return 1;
  }
};

HeldUp held_up_of(const std::vector<std::uint8_t>& held, std::size_t at) {
  return held.empty() ? HeldUp::kNot : static_cast<HeldUp>(held[at]);
}

// Walks back from the end over what each action waited for.
class CountingWalk {
 public:
  CountingWalk(const PricedPlan& priced, const RecordedStep& step, CriticalPath& path)
      : priced_(priced), step_(step), path_(path), stages_(static_cast<std::int32_t>(priced.pipeline.size())) {}

  void from_last_backward_of(std::int32_t stage) {
    stage_ = stage;
    microbatch_ = step_.microbatches - 1;
    turn_to(false);
    bool first = true;
    while (microbatch_ >= 0) {
      const HeldUp held = held_up();
      if (held == HeldUp::kAtEnd) path_.end_issued = first;
      if (!first && held != HeldUp::kAtEnd) count();
      if (held != HeldUp::kNot) return end_at_host(held);
      first = false;
      retreat();
    }
  }

 private:
  enum class Half : std::uint8_t { kNone, kFirst, kSecond };

  [[nodiscard]] HeldUp held_up() const {
    if (half_ == Half::kSecond) return held_up_of(step_.second_held, step_.at_half(stage_, microbatch_));
    return held_up_of(forward_ ? step_.forward_held : step_.backward_held, step_.at(stage_, microbatch_));
  }

  // A host waits for nobody: all before is its own.
  void end_at_host(HeldUp held) {
    const std::vector<double>& begins = forward_ ? step_.forward_begin : step_.backward_begin;
    const double begin = half_ == Half::kSecond ? step_.second_begin[step_.at_half(stage_, microbatch_)]
                                                : begins[step_.at(stage_, microbatch_)];
    path_.issuing[stage_] += begin + (held == HeldUp::kAtEnd ? length() : 0);
  }

  [[nodiscard]] double length() const {
    const PipelineStage& of = priced_.pipeline[stage_];
    if (half_ != Half::kNone) return priced_.halves[stage_].forward;
    if (forward_) return of.forward;
    return microbatch_ == step_.microbatches - 1 ? of.last_backward : of.backward;
  }

  // To a forward or backward of the microbatch that the walk is at: of one in halves, the end of it.
  void turn_to(bool forward) {
    forward_ = forward;
    half_ = forward && step_.halves(stage_, microbatch_) ? Half::kSecond : Half::kNone;
  }

  void count() {
    if (half_ != Half::kNone) {
      ++path_.half_forwards[stage_];
    } else if (forward_) {
      ++path_.forwards[stage_];
    } else if (microbatch_ == step_.microbatches - 1) {
      ++path_.last_backwards[stage_];
    } else {
      ++path_.backwards[stage_];
    }
  }

  void retreat() {
    if (half_ != Half::kNone) return retreat_from_half();
    const std::vector<std::uint8_t>& waited = forward_ ? step_.forward_waited : step_.backward_waited;
    if (waited[step_.at(stage_, microbatch_)] != 0) {
      ++path_.transfers[forward_ ? stage_ - 1 : stage_];
      stage_ += forward_ ? -1 : 1;
      turn_to(forward_);
    } else if (forward_) {
      before_forward();
    } else {
      before_backward();
    }
  }

  void retreat_from_half() {
    const bool second = half_ == Half::kSecond;
    const bool waited = second ? step_.second_waited[step_.at_half(stage_, microbatch_)] != 0
                               : step_.forward_waited[step_.at(stage_, microbatch_)] != 0;
    if (waited) {
      --stage_;
      ++path_.half_transfers[stage_];
    } else if (second) {
      half_ = Half::kFirst;
    } else {
      before_forward();
    }
  }

  // The action that the same stage ran before this one.
  void before_forward() {
    const std::int32_t warmup = warmup_forwards(priced_.kind, stages_, stage_, step_.microbatches);
    if (microbatch_ > warmup) {
      microbatch_ -= warmup + 1;
      turn_to(false);
    } else {
      --microbatch_;
      turn_to(true);
    }
  }

  void before_backward() {
    const std::int32_t warmup = warmup_forwards(priced_.kind, stages_, stage_, step_.microbatches);
    if (microbatch_ + warmup < step_.microbatches) {
      microbatch_ += warmup;
      turn_to(true);
    } else if (microbatch_ == 0) {
      microbatch_ = step_.microbatches - 1;
      turn_to(true);
    } else {
      --microbatch_;
    }
  }

  const PricedPlan& priced_;
  const RecordedStep& step_;
  CriticalPath& path_;
  std::int32_t stages_;
  std::int32_t stage_ = 0;
  std::int32_t microbatch_ = 0;
  bool forward_ = false;
  Half half_ = Half::kNone;
};

// A step that is a graph of its own.
class GraphRecorder {
 public:
  explicit GraphRecorder(const PricedPlan& priced)
      : priced_(priced),
        stages_(priced.pipeline.size()),
        graph_(step_graph(priced.pipeline, {priced.kind, priced.seats, priced.microbatches, priced.transfers_meet})) {}

  RecordedStep run() {
    step_.microbatches = priced_.microbatches;
    const std::size_t passes = graph_.forwards.size();
    step_.forward_waited.resize(passes);
    step_.backward_waited.resize(passes);
    step_.exposed.assign(stages_, 0.0);
    step_.received.assign(stages_, 0.0);
    step_.issuing.assign(stages_, 0.0);
    if (!priced_.transfers_meet) find_free();
    take(graph_.forwards, step_.forward_begin, step_.forward_waited, step_.forward_inputs);
    take(graph_.backwards, step_.backward_begin, step_.backward_waited, step_.backward_inputs);
    if (priced_.transfers_meet) expose_meetings();
    synchronize_seats();
    follow_path();
    return std::move(step_);
  }

 private:
  void take(const std::vector<std::int32_t>& nodes, std::vector<double>& begins, std::vector<std::uint8_t>& waited,
            std::vector<StepNode>& inputs) {
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      const StepNode& node = graph_.nodes[nodes[at]];
      begins.push_back(node.begin);
      step_.issuing[node.stage] += node.issuing;
      inputs.emplace_back();
      if (node.cause < 0 || graph_.nodes[node.cause].kind != StepNode::Kind::kTransfer) continue;
      const StepNode& input = graph_.nodes[node.cause];
      waited[at] = 1;
      inputs.back() = input;
      if (!priced_.transfers_meet) expose(nodes[at], input);
    }
  }

  // A pass that waited for its input waited for the wire at most as long as that was busy.
  void expose(std::int32_t pass, const StepNode& input) {
    const StepNode& node = graph_.nodes[pass];
    step_.received[node.stage] += node.begin - free_[pass];
    step_.exposed[node.stage] += std::min(node.begin - free_[pass], input.end - input.begin);
  }

  // When each pass's seat had ended the pass before.
  void find_free() {
    std::vector<double> ended(static_cast<std::size_t>(priced_.seats), 0);
    for (const StepNode& node : graph_.nodes) {
      double& end = ended[node.stage % priced_.seats];
      free_.push_back(end);
      if (node.kind != StepNode::Kind::kTransfer) end = node.end;
    }
  }

  void expose_meetings() {
    for (const StepNode& node : graph_.nodes) {
      if (node.kind != StepNode::Kind::kTransfer) continue;
      step_.exposed[node.stage] += node.end - node.begin;
      step_.exposed[node.stage + 1] += node.end - node.begin;
    }
    step_.received = step_.exposed;
  }

  // What a stage still sends after its last backward waits for its seat's stages before it; the optimizer waits for
  // all.
  void synchronize_seats() {
    std::vector<double>& ready = step_.synchronized;
    std::vector<std::int32_t>& source = step_.source;
    std::vector<double> ends;
    ready.resize(stages_);
    source.resize(stages_);
    step_.optimizer_begin.resize(stages_);
    for (std::size_t s = 0; s < stages_; ++s) ends.push_back(last_backward(s).end);
    for (std::size_t seat = 0; seat < static_cast<std::size_t>(priced_.seats); ++seat) {
      double channel = 0;
      std::int32_t decides = static_cast<std::int32_t>(seat);
      // The later a stage stands in the model, the sooner its last backward ends.
      for (std::size_t s = stages_ - priced_.seats + seat;; s -= priced_.seats) {
        const PipelineStage& of = priced_.pipeline[s];
        if (ends[s] >= channel) decides = static_cast<std::int32_t>(s);
        channel = std::max(channel, ends[s]) + (of.tail - of.after - of.last_backward);
        ready[s] = channel;
        source[s] = decides;
        if (s < static_cast<std::size_t>(priced_.seats)) break;
      }
    }
    reduce_tied(priced_.ties, ready, &source);
    for (std::size_t seat = 0; seat < static_cast<std::size_t>(priced_.seats); ++seat) end_seat(seat);
  }

  void end_seat(std::size_t seat) {
    std::size_t latest = seat;
    for (std::size_t s = seat; s < stages_; s += priced_.seats) {
      if (step_.synchronized[s] > step_.synchronized[latest]) latest = s;
    }
    double end = step_.synchronized[latest];
    for (std::size_t s = seat; s < stages_; s += priced_.seats) {
      step_.optimizer_begin[s] = end;
      end += priced_.pipeline[s].after;
    }
    if (end <= step_.end_ms) return;
    step_.end_ms = end;
    step_.last_stage = static_cast<std::int32_t>(latest);
  }

  void follow_path() {
    const auto stage = static_cast<std::size_t>(step_.source[step_.last_stage]);
    std::int32_t node = graph_.backwards[step_.at(static_cast<std::int32_t>(stage), step_.microbatches - 1)];
    for (; node >= 0; node = graph_.nodes[node].cause) step_.path.push_back(graph_.nodes[node]);
  }

  [[nodiscard]] const StepNode& last_backward(std::size_t s) const {
    return graph_.nodes[graph_.backwards[step_.at(static_cast<std::int32_t>(s), step_.microbatches - 1)]];
  }

  const PricedPlan& priced_;
  std::size_t stages_;
  StepGraph graph_;
  std::vector<double> free_;  // by node, of passes; empty where transfers meet
  RecordedStep step_;
};

// The end stage's last backward is part of its tail.
void count_path(const RecordedStep& step, CriticalPath& path) {
  for (std::size_t i = 0; i < step.path.size(); ++i) {
    const StepNode& node = step.path[i];
    const bool issued = node.held_up == HeldUp::kAtEnd;
    if (node.held_up != HeldUp::kNot) {
      const double before = i + 1 < step.path.size() ? step.path[i + 1].end : 0;
      path.issuing[node.stage] += std::max(0.0, (issued ? node.end : node.begin) - before);
    }
    if (i == 0) path.end_issued = issued;
    if (i == 0 || issued) continue;
    switch (node.kind) {
      case StepNode::Kind::kForward:
        ++path.forwards[node.stage];
        break;
      case StepNode::Kind::kBackward:
        ++(node.microbatch == step.microbatches - 1 ? path.last_backwards : path.backwards)[node.stage];
        break;
      case StepNode::Kind::kTransfer:
        ++path.transfers[node.stage];
        break;
    }
  }
}

// Walks back from the last backward that decides the step: to the later stage where its gradient came just in time or
// late, to the stage before only where its activation came late.
class PictureWalk {
 public:
  PictureWalk(const PricedPlan& priced, const RecordedStep& step)
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
    std::ranges::reverse(path_.actions);
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
    if (held_up_of(forward_ ? step_.forward_held : step_.backward_held, at) != HeldUp::kNot) {
      microbatch_ = -1;  // its host decides, which waits for nobody
    } else if (forward_ && step_.forward_waited[at] != 0) {
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
  std::ranges::reverse(path.actions);
  const double computed = step.path.front().end;
  const double synchronized = step.synchronized[step.last_stage];
  if (synchronized > computed) {
    path.actions.push_back({step.path.front().stage, EventKind::kGradientSync, -1, computed, synchronized});
  }
  if (step.end_ms > synchronized) {
    path.actions.push_back({step.last_stage, EventKind::kOptimizer, -1, synchronized, step.end_ms});
  }
  path.master_stage = static_cast<std::int32_t>(std::ranges::max_element(stay) - stay.begin());
  return path;
}

}  // namespace

RecordedStep record_step(const PricedPlan& priced) {
  if (priced.by_graph()) return GraphRecorder(priced).run();
  const auto stages = static_cast<std::int32_t>(priced.pipeline.size());
  RecordedStep step;
  step.microbatches = priced.microbatches;
  const std::size_t actions = step.at(stages, 0);
  step.forward_begin.resize(actions);
  step.backward_begin.resize(actions);
  step.forward_waited.resize(actions);
  step.backward_waited.resize(actions);
  step.exposed.assign(priced.pipeline.size(), 0.0);
  step.received.assign(priced.pipeline.size(), 0.0);
  step.issuing.assign(priced.pipeline.size(), 0.0);
  step.sliced = priced.sliced().microbatches;
  step.second_begin.resize(step.at_half(stages, 0));
  step.second_waited.resize(step.at_half(stages, 0));
  PipelineScratch scratch;
  Recorder recorder{priced, step};
  Simulation<Recorder> simulation(priced.pipeline.data(), stages, priced.microbatches, priced.kind, scratch, recorder,
                                  priced.sliced());
  const double* const ends = simulation.run();
  step.source.resize(priced.pipeline.size());
  synchronize(simulation.stages(), stages, ends, priced.ties, step.synchronized, &step.source);
  for (std::int32_t s = 0; s < stages; ++s) {
    const double end = step.synchronized[s] + simulation.stages()[s].after;
    if (end <= step.end_ms) continue;
    step.end_ms = end;
    step.last_stage = s;
  }
  return step;
}

CriticalPath critical_path(const PricedPlan& priced, const RecordedStep& step) {
  const std::size_t stages = priced.pipeline.size();
  CriticalPath path;
  for (auto* const counts : {&path.forwards, &path.backwards, &path.last_backwards, &path.transfers,
                             &path.half_forwards, &path.half_transfers}) {
    counts->assign(stages, 0);
  }
  path.issuing.assign(stages, 0);
  path.last_stage = step.last_stage;
  path.end_stage = step.source[step.last_stage];
  if (priced.by_graph()) {
    count_path(step, path);
  } else {
    CountingWalk(priced, step, path).from_last_backward_of(path.end_stage);
  }
  return path;
}

StepPath step_path(const PricedPlan& priced, const RecordedStep& step) {
  if (priced.by_graph()) return graph_path(step, priced.pipeline.size());
  return PictureWalk(priced, step).run();
}

}  // namespace trimtab::tuner
