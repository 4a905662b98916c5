#include "solvers/step_graph.hpp"

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

// The k-th forward or backward of a seat in the interleaved schedule.
SeatPass interleaved_pass(std::int32_t k, bool forward, std::int32_t seat, std::int32_t seats, std::int32_t chunks) {
  const std::int32_t group = k / (seats * chunks);
  const std::int32_t chunk = k % (seats * chunks) / seats;
  return {(forward ? chunk : chunks - 1 - chunk) * seats + seat, group * seats + k % seats, forward};
}

std::vector<SeatPass> one_forward_one_backward(std::int32_t warmup, std::int32_t all, auto&& pass) {
  std::vector<SeatPass> passes;
  passes.reserve(static_cast<std::size_t>(2 * all));
  for (std::int32_t k = 0; k < warmup; ++k) passes.push_back(pass(k, true));
  for (std::int32_t k = 0; k < all; ++k) {
    if (warmup + k < all) passes.push_back(pass(warmup + k, true));
    passes.push_back(pass(k, false));
  }
  return passes;
}

// What a seat does next: a pass, or a transfer over the boundary behind stage `boundary`.
struct Item {
  SeatPass pass;
  std::int32_t boundary = -1;
};

class Builder {
 public:
  Builder(std::span<const PipelineStage> stages, const StepSchedule& schedule)
      : stages_(stages), schedule_(schedule), count_(static_cast<std::int32_t>(stages.size())) {
    TRIMTAB_ASSERT(!schedule.transfers_meet || schedule.seats == count_, "transfers meet between stages of their own");
    const std::size_t passes = stages.size() * static_cast<std::size_t>(schedule.microbatches);
    TRIMTAB_ASSERT(static_cast<std::int64_t>(passes) <= kMostGraphForwards, "a step's graph must fit into memory");
    graph_.forwards.assign(passes, -1);
    graph_.backwards.assign(passes, -1);
    graph_.nodes.reserve(4 * passes);
    last_.assign(static_cast<std::size_t>(schedule.seats), -1);
    next_.assign(static_cast<std::size_t>(schedule.seats), 0);
    hosts_.assign(static_cast<std::size_t>(schedule.seats), 0);
    for (std::int32_t seat = 0; seat < schedule.seats; ++seat) programs_.push_back(program(seat));
  }

  StepGraph run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t seat = 0; seat < schedule_.seats; ++seat) {
        while (step(seat)) moved = true;
      }
    }
    for (std::size_t seat = 0; seat < programs_.size(); ++seat) {
      TRIMTAB_ASSERT(next_[seat] == programs_[seat].size(), "a pipeline's seats must not wait for each other");
    }
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::vector<Item> program(std::int32_t seat) const {
    const std::vector<SeatPass> passes =
        seat_passes(schedule_.kind, count_, schedule_.seats, seat, schedule_.microbatches);
    std::vector<Item> items;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const SeatPass& pass = passes[i];
      if (schedule_.transfers_meet && !arrived(passes, i)) add_transfer(input_boundary(pass), items);
      items.push_back({pass, -1});
      if (schedule_.transfers_meet) add_transfer(output_boundary(pass), items);
    }
    return items;
  }

  [[nodiscard]] std::int32_t input_boundary(const SeatPass& pass) const {
    return pass.forward ? pass.stage - 1 : pass.stage < count_ - 1 ? pass.stage : -1;
  }
  [[nodiscard]] std::int32_t output_boundary(const SeatPass& pass) const {
    return pass.forward ? (pass.stage < count_ - 1 ? pass.stage : -1) : pass.stage - 1;
  }
  static void add_transfer(std::int32_t boundary, std::vector<Item>& items) {
    if (boundary >= 0) items.push_back({{}, boundary});
  }
  // 1F1B's steady phase: what the pass needs came when the one before it sent the other way.
  [[nodiscard]] bool arrived(const std::vector<SeatPass>& passes, std::size_t i) const {
    if (schedule_.kind != ScheduleKind::k1F1B || i == 0 || passes[i - 1].forward == passes[i].forward) return false;
    const SeatPass& forward = passes[i].forward ? passes[i] : passes[i - 1];
    return forward.microbatch >= warmup_forwards(schedule_.kind, count_, forward.stage, schedule_.microbatches);
  }

  bool step(std::int32_t seat) {
    if (next_[seat] == programs_[seat].size()) return false;
    const Item& item = programs_[seat][next_[seat]];
    return item.boundary >= 0 ? meet(seat, item.boundary) : run_pass(seat, item.pass);
  }

  bool meet(std::int32_t seat, std::int32_t boundary) {
    const std::int32_t other = seat == boundary ? boundary + 1 : boundary;
    if (next_[other] == programs_[other].size() || programs_[other][next_[other]].boundary != boundary) return false;
    const std::int32_t cause = later(last_[seat], last_[other]);
    const double begin = end_of(cause);
    last_[seat] = last_[other] =
        add({StepNode::Kind::kTransfer, boundary, 0, begin, begin + stages_[boundary].transfer, cause});
    const double met = end_of(last_[seat]);
    for (double* const host : {&hosts_[seat], &hosts_[other]}) *host = std::max(*host, met);
    ++next_[seat];
    ++next_[other];
    return true;
  }

  bool run_pass(std::int32_t seat, const SeatPass& pass) {
    std::int32_t cause = last_[seat];
    const std::int32_t boundary = input_boundary(pass);
    if (boundary >= 0 && !schedule_.transfers_meet) {
      const std::int32_t from = pass.forward ? pass.stage - 1 : pass.stage + 1;
      const std::int32_t sender = node_of(from, pass.microbatch, pass.forward);
      if (sender < 0) return false;
      const double sent = end_of(sender);
      const double arrival = sent + stages_[boundary].transfer;
      if (cause < 0 || arrival > end_of(cause)) {
        cause = add({StepNode::Kind::kTransfer, boundary, pass.microbatch, sent, arrival, sender});
      }
    }
    const double begin = end_of(cause);
    const StepNode::Kind kind = pass.forward ? StepNode::Kind::kForward : StepNode::Kind::kBackward;
    StepNode run{kind, pass.stage, pass.microbatch, begin, begin + length_of(pass), cause};
    issue(hosts_[seat], pass, run);
    const std::int32_t node = add(run);
    node_of(pass.stage, pass.microbatch, pass.forward) = last_[seat] = node;
    ++next_[seat];
    return true;
  }

  // A pass begins no earlier than its host issues it, and ends no earlier than that has ended.
  void issue(double& host, const SeatPass& pass, StepNode& node) const {
    const double length = node.end - node.begin;
    const double began = host;
    const double ready = node.begin;
    const PipelineStage& stage = stages_[pass.stage];
    host += pass.forward ? stage.forward_launch : stage.backward_launch;
    if (host > std::max(node.begin, began) + length) {
      node.held_up = HeldUp::kAtEnd;
      node.begin = host - length;
    } else if (began > node.begin) {
      node.held_up = HeldUp::kAtBegin;
      node.begin = began;
    } else {
      return;
    }
    node.end = node.begin + length;
    node.issuing = node.begin - ready;
    if (!schedule_.transfers_meet) node.cause = -1;
  }

  [[nodiscard]] double length_of(const SeatPass& pass) const {
    const PipelineStage& stage = stages_[pass.stage];
    if (pass.forward) return stage.forward;
    return pass.microbatch == schedule_.microbatches - 1 ? stage.last_backward : stage.backward;
  }
  [[nodiscard]] std::int32_t& node_of(std::int32_t stage, std::int32_t microbatch, bool forward) {
    const auto at = static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.microbatches) +
                    static_cast<std::size_t>(microbatch);
    return (forward ? graph_.forwards : graph_.backwards)[at];
  }
  [[nodiscard]] double end_of(std::int32_t node) const { return node < 0 ? 0 : graph_.nodes[node].end; }
  [[nodiscard]] std::int32_t later(std::int32_t a, std::int32_t b) const { return end_of(b) > end_of(a) ? b : a; }
  std::int32_t add(const StepNode& node) {
    graph_.nodes.push_back(node);
    return static_cast<std::int32_t>(graph_.nodes.size()) - 1;
  }

  std::span<const PipelineStage> stages_;
  StepSchedule schedule_;
  std::int32_t count_;
  StepGraph graph_;
  std::vector<std::vector<Item>> programs_;  // by seat
  std::vector<std::size_t> next_;            // item of each
  std::vector<std::int32_t> last_;           // node of each
  std::vector<double> hosts_;                // until when each has issued
};

}  // namespace

std::vector<SeatPass> seat_passes(ScheduleKind kind, std::int32_t stages, std::int32_t seats, std::int32_t seat,
                                  std::int32_t microbatches) {
  if (kind == ScheduleKind::kInterleaved) {
    TRIMTAB_ASSERT(stages % seats == 0 && microbatches % seats == 0, "seats must divide stages and microbatches");
    const std::int32_t chunks = stages / seats;
    const std::int32_t all = microbatches * chunks;
    const std::int32_t warmup = std::min(all, 2 * (seats - seat - 1) + (chunks - 1) * seats);
    return one_forward_one_backward(
        warmup, all, [&](std::int32_t k, bool forward) { return interleaved_pass(k, forward, seat, seats, chunks); });
  }
  TRIMTAB_ASSERT(stages == seats, "each stage needs a seat of its own");
  const auto pass = [seat](std::int32_t k, bool forward) { return SeatPass{seat, k, forward}; };
  if (kind == ScheduleKind::kGPipe) return one_forward_one_backward(microbatches, microbatches, pass);
  return one_forward_one_backward(warmup_forwards(kind, stages, seat, microbatches), microbatches, pass);
}

StepGraph step_graph(std::span<const PipelineStage> stages, const StepSchedule& schedule) {
  return Builder(stages, schedule).run();
}

std::vector<std::int32_t> held_at_once(const std::vector<SeatPass>& passes, std::span<const double> bytes) {
  std::vector<std::int32_t> held(bytes.size(), 0);
  std::vector<std::int32_t> most = held;
  double now = 0;
  double peak = -1;
  for (const SeatPass& pass : passes) {
    held[pass.stage] += pass.forward ? 1 : -1;
    now += pass.forward ? bytes[pass.stage] : -bytes[pass.stage];
    if (now <= peak) continue;
    peak = now;
    most = held;
  }
  return most;
}

}  // namespace trimtab::tuner
