#include "sub_batch_stage.hpp"

#include <algorithm>

#include "overlapped_pass.hpp"

namespace trimtab::tuner {
namespace {

// An operator at half of the microbatch, its all-reduces apart; ms. No more is taken out than the operator takes.
struct Parts {
  double forward = 0, backward = 0, reduce = 0;  // one all-reduce
  std::int32_t reduces = 0;
};

Parts parts_of(const Calibration& calibration, const OperatorPrice& price) {
  Parts parts;
  parts.reduces = price.reduces;
  const double all = price.reduces * price.reduce;
  parts.forward = std::max(0.0, price.forward - all) * calibration.computation.value;
  parts.backward = std::max(0.0, price.backward - all) * calibration.computation.value;
  const double most = std::min({all, price.forward, price.backward});
  if (price.reduces > 0) parts.reduce = most / price.reduces * calibration.moving(CommunicationClass::kCollectives);
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
  recomputed_.clear();
  on_link_.clear();
  const double moving = calibration.moving(CommunicationClass::kCollectives);
  bool open = false;
  bool recomputed_before = false;
  const auto open_block = [&](std::size_t begin, std::size_t ended, bool begins_unit) {
    blocks_.push_back({});
    blocks_.back().begins_unit = begins_unit;
    spans_.push_back({begin, begin, ended, ended});
    recomputed_.push_back(0);
    on_link_.push_back(0);
    open = true;
  };
  for (std::size_t i = 0; i < half.prices.size(); ++i) {
    const Parts parts = parts_of(calibration, *half.prices[i]);
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
      block.forward_communication += parts.reduce;
      block.backward_communication += parts.reduce;
      if (half.prices[i]->on_link > 0) on_link_.back() = 1;
      open = parts.reduces == 0;
    }
    spans_.back().ended_to = i + 1;
    recomputed_before = again;
  }
  for (std::size_t b = 1; b < spans_.size(); ++b) spans_[b].ended = spans_[b - 1].ended_to;
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

void SubBatchStage::share(const OverlapSlowdown& slowdown) {
  shares_.assign(blocks_.size(), 0.0);
  sent_.assign(blocks_.size(), 0.0);
  double before = 0;
  for (const Round& round : rounds_) {
    double& ms = shares_[round.block];
    if (on_link_[round.block] != 0) sent_[round.block] += 2 * round.communication;
    ms += round.blocked ? before + round.gather + round.computation : overlapped(round.computation, before, slowdown);
    ms += overlapped(round.computation, round.communication, slowdown);
    before = round.communication;
  }
  if (!rounds_.empty()) shares_[rounds_.back().block] += before;
}

void SubBatchStage::run_block(std::size_t b, OverlappedPass& pass) const {
  const double sent = std::min(sent_[b], shares_[b]);
  pass.compute(shares_[b] - sent);
  if (sent > 0) pass.block(sent);
}

StageTimes SubBatchStage::times(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                                const RecomputeFlags& recompute, const SubBatchSchedule& schedule) {
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

  forward_rounds(blocks_, rounds_);
  share(whole.tensor_overlap);
  OverlappedPass forward(whole.overlap);
  const auto fetch = [&](OverlappedPass& pass, std::size_t begin, std::size_t end) {
    if (whole.gathers) pass.fetch(sum(whole, begin, end, &OperatorPrice::gather) * moving);
  };
  fetch(forward, spans_[0].begin, spans_[0].end);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    forward.wait();
    if (b + 1 < blocks_.size()) fetch(forward, spans_[b + 1].begin, spans_[b + 1].end);
    run_block(b, forward);
  }
  times.forward_wait = forward.computation_end() - times.forward;

  backward_rounds(blocks_, schedule, rounds_);
  share(whole.tensor_overlap);
  const auto backward = [&](bool last) {
    OverlappedPass pass(whole.overlap);
    fetch(pass, spans_.back().ended, spans_.back().ended_to);
    for (std::size_t b = blocks_.size(); b-- > 0;) {
      const Span& span = spans_[b];
      pass.wait();
      if (b > 0) fetch(pass, spans_[b - 1].ended, spans_[b - 1].ended_to);
      run_block(b, pass);
      const double every = sum(whole, span.begin, span.end, &OperatorPrice::scatter);
      const double once = last ? sum(whole, span.begin, span.end, &OperatorPrice::last) : 0;
      pass.communicate((every + once) * moving);
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
