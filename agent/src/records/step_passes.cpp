#include "records/step_passes.hpp"

#include <algorithm>

namespace trimtab::agent {

using Kind = RangeName::Kind;

void StepPasses::begin_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  steps_ = 0;
  overlapped_ = false;
  forget_intervals();
}

void StepPasses::forget_intervals() {
  intervals_.clear();
  passes_ = waits_ = 0;
}

void StepPasses::add(const RangeRecord& record) {
  const RangeName& range = record.range;
  if (range.kind == Kind::kPlanChange) return begin_epoch(static_cast<std::uint64_t>(record.payload));
  if (range.kind == Kind::kStep) return end_step(record);
  if (range.kind == Kind::kOther || !times_next()) return;
  const bool pass = range.kind == Kind::kOperator;
  if (pass && range.pass == RangeName::Pass::kUnknown) {
    overlapped_ = true;
    return;
  }
  std::size_t& of_kind = pass ? passes_ : waits_;
  if (of_kind >= kMostIntervals) return;
  ++of_kind;
  intervals_.push_back({record.begin_ns, record.end_ns, range.kind, record.thread});
}

void StepPasses::end_step(const RangeRecord& step) {
  Step ended{{epoch_, step.payload, 0, std::nullopt}, step.begin_ns, step.end_ns};
  for (const StepInterval& one : intervals_) {
    if (one.work != Kind::kOperator || one.begin_ns < step.begin_ns) continue;
    ended.timed.busy_ns += one.end_ns - one.begin_ns;
    ++ended.passes;
  }
  const bool recorded = step.begin_ns >= left_out_until_ns_;
  const bool whole = times_next() && recorded && !overlapped_ && ended.passes > 0 && passes_ < kMostIntervals;
  if (whole && !on_device_ && waits_ < kMostIntervals) {
    ended.timed.terms = step_terms(intervals_, step.begin_ns, step.end_ns, step.thread);
  }
  forget_intervals();
  overlapped_ = false;
  ++steps_;
  if (!whole) return;
  if (!on_device_) return done_.push_back(ended.timed);
  waiting_.push_back(ended);
  if (waiting_.size() > kMostWaiting) waiting_.pop_front();
}

void StepPasses::add_device_time(const RangeRecord& pass, std::uint64_t device_ns) {
  if (pass.range.pass == RangeName::Pass::kUnknown) return;
  const auto of = std::ranges::find_if(
      waiting_, [&](const Step& step) { return step.begin_ns <= pass.begin_ns && pass.begin_ns < step.end_ns; });
  if (of == waiting_.end()) return;
  of->device_ns += device_ns;
  ++of->device_passes;
}

void StepPasses::add_shares(const StepShares& shares, bool tells_data) {
  const auto of = std::ranges::find(waiting_, shares.end_ns, &Step::end_ns);
  if (of != waiting_.end()) of->timed.terms = step_terms(shares, tells_data);
}

std::vector<TimedStep> StepPasses::take(std::uint64_t shared_until) {
  std::erase_if(waiting_, [&](Step& step) {
    if (step.device_passes < step.passes || step.end_ns > shared_until) return false;
    step.timed.busy_ns = step.device_ns;
    done_.push_back(step.timed);
    return true;
  });
  return std::exchange(done_, {});
}

namespace {

enum Term : std::size_t { kComputation, kCollectives, kTransfers, kGradients, kTerms };

// Intervals come in order of their beginnings.
class Sweep {
 public:
  explicit Sweep(std::uint64_t begin_ns) : now_ns_(begin_ns) { until_.fill(begin_ns); }

  void add(std::uint64_t begin_ns, std::uint64_t end_ns, std::size_t term) {
    advance(begin_ns);
    until_[term] = std::max(until_[term], end_ns);
  }

  void advance(std::uint64_t to_ns) {
    while (now_ns_ < to_ns) {
      std::size_t counts = kTerms;
      std::uint64_t next = to_ns;
      for (std::size_t term = kTerms; term-- > 0;) {
        if (until_[term] <= now_ns_) continue;
        counts = term;
        next = std::min(next, until_[term]);
      }
      by_term_[counts] += next - now_ns_;
      now_ns_ = next;
    }
  }

  [[nodiscard]] StepTermTimes times() const {
    return {by_term_[kComputation], by_term_[kCollectives], by_term_[kTransfers], by_term_[kGradients],
            by_term_[kTerms]};
  }

 private:
  std::uint64_t now_ns_;
  std::array<std::uint64_t, kTerms> until_{};
  std::array<std::uint64_t, kTerms + 1> by_term_{};  // the last: nothing ran
};

std::size_t term_of(const StepInterval& interval, std::uint64_t last_pass_ns, std::uint32_t thread) {
  const bool own = interval.thread == thread;
  switch (interval.work) {
    case Kind::kOperator:
    case Kind::kOptimizer:
      return kComputation;
    case Kind::kTransfer:
      return own ? kTransfers : kTerms;
    case Kind::kCollective:
      return own && interval.end_ns <= last_pass_ns ? kCollectives : kGradients;
    default:
      return kTerms;
  }
}

}  // namespace

StepTermTimes step_terms(std::vector<StepInterval> intervals, std::uint64_t begin_ns, std::uint64_t end_ns,
                         std::uint32_t thread) {
  std::uint64_t last_pass_ns = 0;
  for (const StepInterval& one : intervals) {
    if (one.work == Kind::kOperator) last_pass_ns = std::max(last_pass_ns, one.end_ns);
  }
  std::ranges::sort(intervals, {}, &StepInterval::begin_ns);
  Sweep sweep(begin_ns);
  for (const StepInterval& one : intervals) {
    const std::size_t term = term_of(one, last_pass_ns, thread);
    if (term == kTerms || one.end_ns <= begin_ns || one.begin_ns >= end_ns) continue;
    sweep.add(std::max(one.begin_ns, begin_ns), std::min(one.end_ns, end_ns), term);
  }
  sweep.advance(end_ns);
  return sweep.times();
}

std::optional<StepTermTimes> step_terms(const StepShares& shares, bool tells_data) {
  const StepParts& parts = shares.parts;
  const auto length = static_cast<double>(shares.end_ns - shares.begin_ns);
  const auto slight = [&](std::uint64_t ns) { return static_cast<double>(ns) <= StepParts::kSlight * length; };
  if (!slight(parts.unknown_ns)) return std::nullopt;
  StepTermTimes terms;
  terms.computation_ns = shares.computation_ns + parts.own_ns;
  terms.collectives_ns = parts.layout_ns;
  terms.transfers_ns = parts.wire_ns + parts.bubble_ns + parts.unsplit_ns;
  terms.gradients_ns = parts.gradients_ns + parts.unknown_ns;
  terms.idle_ns = shares.idle_ns + shares.exposed_copy_ns;
  terms.own_ns = parts.own_ns;
  if (slight(parts.unsplit_ns)) terms.bubble_ns = parts.bubble_ns;
  if (slight(parts.unjudged_ns)) terms.launch_bound_ns = parts.launching_ns;
  if (tells_data) terms.data_ns = parts.data_ns;
  return terms;
}

}  // namespace trimtab::agent
