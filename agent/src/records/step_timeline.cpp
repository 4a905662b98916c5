#include "records/step_timeline.hpp"

#include <algorithm>

namespace trimtab::agent {

namespace {

constexpr int kPicturedStep = 4;
// Operators of one pass follow each other this closely; they make one bar.
constexpr std::uint64_t kSamePassNs = 2'000'000;

}  // namespace

void StepTimeline::begin_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  steps_ = 0;
  bars_.clear();
}

std::optional<TimelineKind> StepTimeline::kind_of(const RangeName& range) {
  if (range.kind == RangeName::Kind::kOptimizer) return TimelineKind::kOptimizer;
  if (range.kind == RangeName::Kind::kTransfer) return TimelineKind::kTransfer;
  if (range.kind == RangeName::Kind::kCollective) return TimelineKind::kGradientSync;
  // All operators of a microbatch, as trimtab.parallel names them.
  if (range.what == "microbatch/forward") return TimelineKind::kForward;
  if (range.what == "microbatch/backward") return TimelineKind::kBackward;
  switch (range.pass) {
    case RangeName::Pass::kForward:
      return TimelineKind::kForward;
    case RangeName::Pass::kBackward:
      return TimelineKind::kBackward;
    case RangeName::Pass::kRecompute:
      return TimelineKind::kRecompute;
    case RangeName::Pass::kUnknown:
      break;
  }
  return std::nullopt;
}

std::optional<StepPicture> StepTimeline::add(const RangeRecord& record) {
  if (record.range.kind == RangeName::Kind::kPlanChange) begin_epoch(static_cast<std::uint64_t>(record.payload));
  if (record.range.kind != RangeName::Kind::kStep) {
    const auto kind = kind_of(record.range);
    if (kind && bars_.size() < kMaxBars) bars_.push_back({*kind, record.begin_ns, record.end_ns});
    return std::nullopt;
  }
  std::optional<StepPicture> done;
  // A step with more ranges than fit would be a false picture.
  if (++steps_ == kPicturedStep && bars_.size() < kMaxBars) done = picture(record);
  bars_.clear();
  return done;
}

StepPicture StepTimeline::picture(const RangeRecord& step) {
  return {epoch_, step.payload, step.begin_ns, bars_json(merged(step), step.begin_ns)};
}

// Records come when ranges end; bars are drawn by their beginnings. Passes of neighbouring operators become one bar.
std::vector<StepTimeline::Bar> StepTimeline::merged(const RangeRecord& step) {
  std::erase_if(bars_, [&](const Bar& bar) { return bar.begin_ns < step.begin_ns; });
  std::ranges::sort(bars_, {}, &Bar::begin_ns);
  std::vector<Bar> result;
  for (const Bar& bar : bars_) {
    const bool pass = bar.kind <= TimelineKind::kRecompute;
    if (pass && !result.empty() && result.back().kind == bar.kind &&
        bar.begin_ns < result.back().end_ns + kSamePassNs) {
      result.back().end_ns = std::max(result.back().end_ns, bar.end_ns);
    } else {
      result.push_back(bar);
    }
  }
  return result;
}

std::string StepTimeline::bars_json(const std::vector<Bar>& bars, std::uint64_t begin_ns) {
  std::string text = "[";
  for (const Bar& bar : bars) {
    if (text.size() > 1) text += ',';
    text += "[\"" + std::string(to_string(bar.kind)) + "\"," + std::to_string(bar.begin_ns - begin_ns) + ',' +
            std::to_string(bar.end_ns - begin_ns) + ']';
  }
  return text + ']';
}

}  // namespace trimtab::agent
