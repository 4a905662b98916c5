#include "records/step_passes.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace trimtab::agent {
namespace {

bool is_pass(std::string_view name) {
  return name.ends_with("/forward") || name.ends_with("/backward") || name.ends_with("/recompute");
}

}  // namespace

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
  if (record.domain != "trimtab" || record.kind != record::kRange) return;
  if (record.name == "switch") return begin_epoch(static_cast<std::uint64_t>(record.payload));
  if (record.name == "step") return end_step(record);
  const auto work = step_work(record.name);
  if (!work || !times_next()) return;
  if (*work == StepWork::kPass && !is_pass(record.name)) {
    overlapped_ = true;
    return;
  }
  std::size_t& of_kind = *work == StepWork::kPass ? passes_ : waits_;
  if (of_kind >= kMostIntervals) return;
  ++of_kind;
  intervals_.push_back({record.begin_ns, record.end_ns, *work, record.thread});
}

void StepPasses::end_step(const RangeRecord& step) {
  Step ended{{epoch_, step.payload, 0, std::nullopt}, step.begin_ns, step.end_ns};
  for (const StepInterval& one : intervals_) {
    if (one.work != StepWork::kPass || one.begin_ns < step.begin_ns) continue;
    ended.timed.busy_ns += one.end_ns - one.begin_ns;
    ++ended.passes;
  }
  const bool whole = times_next() && !overlapped_ && ended.passes > 0 && passes_ < kMostIntervals;
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
  if (!is_pass(pass.name)) return;
  const auto of = std::ranges::find_if(
      waiting_, [&](const Step& step) { return step.begin_ns <= pass.begin_ns && pass.begin_ns < step.end_ns; });
  if (of == waiting_.end()) return;
  of->device_ns += device_ns;
  if (++of->device_passes < of->passes) return;
  of->timed.busy_ns = of->device_ns;
  done_.push_back(of->timed);
  waiting_.erase(of);
}

std::vector<TimedStep> StepPasses::take() {
  return std::exchange(done_, {});
}

}  // namespace trimtab::agent
