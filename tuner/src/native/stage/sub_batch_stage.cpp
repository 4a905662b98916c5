#include "native/stage/sub_batch_stage.hpp"

namespace trimtab::tuner {
namespace {

// An operator at half of the microbatch, its all-reduces apart; ms.
struct HalfOperator {
  double forward = 0, backward = 0;
  double forward_reduce = 0, backward_reduce = 0;  // one all-reduce
  std::int32_t reduces = 0;
};

HalfOperator half_of(const Calibration& calibration, const OperatorPrice& price) {
  HalfOperator parts;
  parts.reduces = price.reduces;
  parts.forward = price.forward_computing() * calibration.computation.value;
  parts.backward = price.backward_computing() * calibration.computation.value;
  if (price.reduces == 0) return parts;
  const double each = calibration.moving(CommunicationClass::kCollectives) / price.reduces;
  parts.forward_reduce = price.forward_reducing() * each;
  parts.backward_reduce = price.backward_reducing() * each;
  return parts;
}

template <typename Part>
double sum(const StageInputs& inputs, std::size_t begin, std::size_t end, Part OperatorPrice::*part) {
  double all = 0;
  for (std::size_t i = begin; i < end; ++i) all += inputs.prices[i]->*part;
  return all;
}

}  // namespace

void keep_inner_outputs(StageInputs& inputs) {
  for (std::size_t i = 0; i < inputs.prices.size(); ++i) {
    const OperatorPrice& price = *inputs.prices[i];
    if (price.reduces < 2) continue;
    const double kept = inputs.kept_output[i] + (price.reduces - 1) * price.output;
    inputs.kept_output[i] = std::max(inputs.kept_output[i], std::min(kept, price.stored));
  }
}

// A block ends with an all-reduce, before a change of layout, or with the stage. An operator of several all-reduces is
// as many blocks; what is recomputed of it is one unit.
void SubBatchStage::make_blocks(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                                const RecomputeFlags& recompute) {
  blocks_.clear();
  spans_.clear();
  beside_.clear();
  recomputed_.clear();
  on_link_.clear();
  const double moving = calibration.moving(CommunicationClass::kCollectives);
  bool open = false;
  bool recomputed_before = false;
  const auto open_block = [&](std::size_t begin, std::size_t ended, bool begins_unit) {
    blocks_.push_back({});
    blocks_.back().begins_unit = begins_unit;
    spans_.push_back({begin, begin, ended, ended});
    beside_.push_back({});
    recomputed_.push_back(0);
    on_link_.push_back(0);
    open = true;
  };
  for (std::size_t i = 0; i < half.prices.size(); ++i) {
    const HalfOperator parts = half_of(calibration, *half.prices[i]);
    const bool again = recompute[static_cast<std::size_t>(half.operators.begin) + i] != 0;
    const bool changes = !whole.change_forward.empty() && whole.change_forward[i] + whole.change_backward[i] > 0;
    if (changes) open = false;
    if (!open) open_block(i, i, !(again && recomputed_before));
    if (changes) {
      blocks_.back().gather_forward = whole.change_forward[i] * moving;
      blocks_.back().gather_backward = whole.change_backward[i] * moving;
    }
    spans_.back().end = i + 1;
    const std::int32_t pieces = std::max(1, parts.reduces);
    for (std::int32_t piece = 0; piece < pieces; ++piece) {
      if (!open) open_block(i + 1, i, !again);
      Block& block = blocks_.back();
      block.forward += parts.forward / pieces;
      block.backward += parts.backward / pieces;
      if (again) block.recompute += parts.forward / pieces;
      if (again) recomputed_.back() += half.prices[i]->stored / pieces;
      add_work(*half.prices[i], (parts.forward + parts.backward) / pieces);
      block.forward_communication += parts.forward_reduce;
      block.backward_communication += parts.backward_reduce;
      if (half.prices[i]->on_link > 0) on_link_.back() = 1;
      open = parts.reduces == 0;
    }
    spans_.back().ended_to = i + 1;
    recomputed_before = again;
  }
  for (std::size_t b = 1; b < spans_.size(); ++b) spans_[b].ended = spans_[b - 1].ended_to;
  settle_work();
}

void SubBatchStage::add_work(const OperatorPrice& price, double ms) {
  Beside& of = beside_.back();
  of.computing.shares[static_cast<std::size_t>(price.kind)] += ms;
  of.computing_ms += ms;
  if (price.reduces > 0) of.sums = price.sums;
}

void SubBatchStage::settle_work() {
  for (Beside& of : beside_) {
    if (of.computing_ms <= 0) {
      of.computing.shares.fill(0);
      of.computing.shares[static_cast<std::size_t>(ComputationKind::kUnknown)] = of.computing_ms = 1;
    }
    for (double& share : of.computing.shares) share /= of.computing_ms;
  }
}

OverlapSlowdown SubBatchStage::slowdown_of(std::int32_t computing, const CommunicationSlowdowns* sums,
                                           const OverlapScale& overlap) const {
  return sums == nullptr ? OverlapSlowdown{} : overlap.of(beside_[computing].computing(*sums));
}

void SubBatchStage::set_memory(const StageInputs& half, StageInputs& whole) {
  // A sub-batch is recomputed operator by operator.
  for (std::size_t i = 0; i + 1 < whole.prices.size(); ++i) {
    if (whole.ends_run[i] == 0) whole.kept_output[i] = std::max(whole.kept_output[i], whole.prices[i]->output);
    whole.freed_output[i] = 0;
    whole.ends_run[i] = 1;
  }
  whole.at_work = half.prices;
  whole.brought_back.assign(half.prices.size(), 0.0);
  everything_.assign(static_cast<std::size_t>(half.operators.end), 1);
  make_blocks({}, whole, half, everything_);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Span& span = spans_[b];
    for (std::size_t i = std::min(span.begin, span.ended); i < std::max(span.end, span.ended_to); ++i) {
      whole.brought_back[i] = std::max(whole.brought_back[i], recomputed_[b]);
    }
  }
}

StageBytes SubBatchStage::bytes(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                                const RecomputeFlags& recompute, const SubBatchSchedule& schedule) {
  StageBytes bytes = stage_bytes(whole, recompute);
  make_blocks(calibration, whole, half, recompute);
  backward_rounds(blocks_, schedule, rounds_);
  bytes.recompute_peak = recomputed_at_once(rounds_, recomputed_);
  return bytes;
}

void SubBatchStage::share(const OverlapScale& overlap) {
  shares_.assign(blocks_.size(), 0.0);
  sent_.assign(blocks_.size(), 0.0);
  double before = 0;
  const CommunicationSlowdowns* sums_before = nullptr;
  for (const Round& round : rounds_) {
    double& ms = shares_[round.block];
    const CommunicationSlowdowns* const sums = beside_[round.block].sums.sums[0];
    if (on_link_[round.block] != 0) sent_[round.block] += 2 * round.communication;
    ms += round.blocked ? before + round.gather + round.computation
                        : overlapped(round.computation, before, slowdown_of(round.block, sums_before, overlap));
    ms += overlapped(round.computation, round.communication, slowdown_of(round.block, sums, overlap));
    before = round.communication;
    sums_before = sums;
  }
  if (!rounds_.empty()) shares_[rounds_.back().block] += before;
}

void SubBatchStage::run_block(std::size_t b, OverlappedPass& pass) const {
  const double sent = std::min(sent_[b], shares_[b]);
  pass.compute(shares_[b] - sent, beside_[b].computing);
  if (sent > 0) pass.compute(sent, beside_[b].sums);
}

// What the block's operators send once they have computed.
void SubBatchStage::send_gradients(const StageInputs& whole, std::size_t b, double moving, bool last,
                                   OverlappedPass& pass) const {
  for (std::size_t i = spans_[b].begin; i < spans_[b].end; ++i) {
    const OperatorPrice& price = *whole.prices[i];
    pass.communicate(price.scatter * moving, price.scatter_beside);
    if (!last) continue;
    pass.communicate((price.last - price.copies) * moving, price.last_beside);
    pass.communicate(price.copies * moving, price.copies_beside);
  }
}

StageTimes SubBatchStage::times(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                                const RecomputeFlags& recompute, const SubBatchSchedule& schedule,
                                const OverlapScale& view) {
  const double moving = calibration.moving(CommunicationClass::kGradients);
  make_blocks(calibration, whole, half, recompute);
  StageTimes times;
  for (const Block& block : blocks_) {
    times.forward += 2 * block.forward;
    times.backward += 2 * block.backward;
    times.recompute += 2 * block.recompute;
  }
  const std::size_t operators = whole.prices.size();
  times.optimizer = sum(whole, 0, operators, &OperatorPrice::optimizer) * calibration.computation.value;
  times.gather_after = sum(whole, 0, operators, &OperatorPrice::after) * moving;
  add_launches(calibration, half, 2, recompute, times);

  const OverlapScale overlap = view.times(calibration.overlap.value);
  forward_rounds(blocks_, rounds_);
  share(overlap);
  OverlappedPass forward(overlap, whole.gathers_apart);
  const auto fetch = [&](OverlappedPass& pass, std::size_t begin, std::size_t end) {
    if (!whole.gathers) return;
    pass.fetch(0, &kNoSlowdowns);
    for (std::size_t i = begin; i < end; ++i) {
      pass.fetch(whole.prices[i]->gather * moving, whole.prices[i]->gather_beside);
    }
  };
  fetch(forward, spans_[0].begin, spans_[0].end);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    forward.wait();
    if (b + 1 < blocks_.size()) fetch(forward, spans_[b + 1].begin, spans_[b + 1].end);
    run_block(b, forward);
  }
  times.forward_wait = forward.computation_end() - times.forward;

  backward_rounds(blocks_, schedule, rounds_);
  share(overlap);
  const auto backward = [&](bool last) {
    OverlappedPass pass(overlap, whole.gathers_apart);
    fetch(pass, spans_.back().ended, spans_.back().ended_to);
    for (std::size_t b = blocks_.size(); b-- > 0;) {
      pass.wait();
      if (b > 0) fetch(pass, spans_[b - 1].ended, spans_[b - 1].ended_to);
      run_block(b, pass);
      send_gradients(whole, b, moving, last, pass);
    }
    return pass;
  };
  // What is still on its way delays the next pass: the channel must be free again.
  times.backward_wait = backward(false).communication_end() - times.backward - times.recompute;
  times.last_backward = times.backward_pass();
  if (!whole.synchronizes) return times;
  const OverlappedPass last = backward(true);
  times.last_backward = last.computation_end();
  times.sync_end = last.communication_end();
  add_pass_waits(calibration, whole, half, 2, recompute, times);
  return times;
}

}  // namespace trimtab::tuner
