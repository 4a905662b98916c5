#include "overlap.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

namespace trimtab::bench {

namespace {

constexpr std::int32_t kLowPriority = 0;
constexpr std::int32_t kHighPriority = 1;
constexpr int kWarmUpLaunches = 20;
constexpr double kShortestNs = 100'000;  // Shorter work is launched several times: an event is exact to about 1 µs.
constexpr double kCoverLength = 3;       // A cover lasts this many times what it covers alone, at first.
constexpr double kCoverGrowth = 1.5;
// The cover has the multiprocessors to itself for that long, so that its blocks are resident when the other starts.
constexpr std::int64_t kHeadStartNs = 20'000;
constexpr std::size_t kAttempts = 3;  // for each repetition that is aimed at

// One of the two, with how often it is launched when it is measured and when it covers.
struct Side {
  std::unique_ptr<Workload> workload;
  std::int32_t stream = 0;
  std::int32_t kernels = 1;  // of one launch
  std::int32_t times = 1;
  std::int32_t cover_times = 1;
  double once_ns = 0;

  [[nodiscard]] Launch measured() const { return {workload.get(), stream, times}; }
  [[nodiscard]] Launch cover() const { return {workload.get(), stream, cover_times}; }
  [[nodiscard]] double length_ns() const { return once_ns * times; }
};

Result<Span> alone(Device& device, const Side& side) {
  const std::array launches{side.measured()};
  TRIMTAB_TRY(const auto spans, device.run(launches));
  return spans.front();
}

// The measured side's span, or nothing where the cover did not last.
Result<std::optional<Span>> under(Device& device, const Side& side, const Side& cover) {
  Launch measured = side.measured();
  measured.delay_ns = kHeadStartNs;
  const std::array launches{cover.cover(), measured};
  TRIMTAB_TRY(const auto spans, device.run(launches));
  if (!covers(spans[0], spans[1])) return std::optional<Span>();
  return std::optional(spans[1]);
}

Result<Side> prepare(Device& device, Ranks& ranks, const Chain& chain, std::int32_t stream) {
  Side side;
  side.stream = stream;
  side.kernels = static_cast<std::int32_t>(chain.size());
  TRIMTAB_TRY(side.workload, device.prepare(chain));
  side.times = std::max(1, kWarmUpLaunches / side.kernels);
  TRIMTAB_TRY([[maybe_unused]] const Span warm_up, alone(device, side));
  TRIMTAB_TRY(const Span span, alone(device, side));
  side.once_ns = std::max(1.0, span.length_ns() / side.times);
  TRIMTAB_TRY(const auto times, ranks.largest(std::llround(std::ceil(kShortestNs / side.once_ns))));
  const std::int32_t most = std::max(1, Device::kMaxKernelsPerRun / (4 * side.kernels));
  side.times = static_cast<std::int32_t>(std::clamp<std::int64_t>(times, 1, most));
  return side;
}

// How often the cover may be launched beside the measured side.
std::int32_t most_covers(const Side& cover, const Side& measured) {
  const std::int32_t taken = measured.times * measured.kernels + 1;  // One is the head start's.
  return (Device::kMaxKernelsPerRun - taken) / cover.kernels;
}

Status set_cover(Side& cover, const Side& measured, Ranks& ranks) {
  const double length = kCoverLength * measured.length_ns() + static_cast<double>(kHeadStartNs);
  const double mine = std::ceil(length / cover.once_ns) + 1;
  TRIMTAB_TRY(const std::int64_t wanted, ranks.largest(std::llround(mine)));
  const std::int32_t most = most_covers(cover, measured);
  if (most < 1 || wanted > 4 * std::int64_t{most}) {
    return unavailable("a cover of " + std::to_string(wanted) + " launches would be needed, and " +
                       std::to_string(std::max(most, 0)) +
                       " fit into the device's queue: the two differ too much in length");
  }
  cover.cover_times = static_cast<std::int32_t>(std::min<std::int64_t>(wanted, most));
  return {};
}

void grow_cover(Side& cover, const Side& measured) {
  const auto longer = static_cast<std::int32_t>(std::ceil(cover.cover_times * kCoverGrowth));
  cover.cover_times = std::min(longer, most_covers(cover, measured));
}

struct Repetition {
  double first = 0;
  double second = 0;
  double communication = 0;
  double computation_disturbed = 0;
  double communication_disturbed = 0;
};

class Measurer {
 public:
  Measurer(Device& device, Ranks& ranks, Side computation, Side communication)
      : device_(device), ranks_(ranks), a_(std::move(computation)), b_(std::move(communication)) {}

  Status collect(const OverlapSettings& settings) {
    TRIMTAB_TRY_STATUS(set_cover(b_, a_, ranks_));
    TRIMTAB_TRY_STATUS(set_cover(a_, b_, ranks_));
    const std::size_t wanted = static_cast<std::size_t>(settings.repetitions);
    for (std::size_t attempt = 0; attempt < kAttempts * wanted; ++attempt) {
      TRIMTAB_TRY(const bool lasted, once());
      if (!lasted) ++discarded_;
      TRIMTAB_TRY(const bool enough, ranks_.all(kept() >= wanted));
      if (enough) break;
    }
    if (kept() >= static_cast<std::size_t>(settings.minimum)) return {};
    return unavailable("only " + std::to_string(kept()) + " of " + std::to_string(rows_.size() + discarded_) +
                       " repetitions are usable and " + std::to_string(settings.minimum) + " are needed: in " +
                       std::to_string(discarded_) + " the cover ended early, in " +
                       std::to_string(rows_.size() - kept()) + " the clock was off its median by more than 2 %");
  }

  OverlapResult result(Random& random) const {
    OverlapResult result;
    std::vector<double> noise;
    std::vector<double> computation;
    std::vector<double> communication;
    const std::vector<bool> keep = steady(readings_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!keep[i]) continue;
      const Repetition& row = rows_[i];
      result.computation_ratios.push_back(row.computation_disturbed / row.first);
      result.communication_ratios.push_back(row.communication_disturbed / row.communication);
      noise.push_back(row.second / row.first);
      computation.push_back(row.first / a_.times);
      communication.push_back(row.communication / b_.times);
    }
    result.computation = bootstrap_median(result.computation_ratios, random);
    result.communication = bootstrap_median(result.communication_ratios, random);
    result.noise = bootstrap_median(noise, random);
    result.computation_alone_ns = median(std::move(computation));
    result.communication_alone_ns = median(std::move(communication));
    result.discarded_covers = discarded_;
    result.conditions = conditions_of(readings_);
    return result;
  }

 private:
  [[nodiscard]] std::size_t kept() const {
    const std::vector<bool> keep = steady(readings_);
    return static_cast<std::size_t>(std::count(keep.begin(), keep.end(), true));
  }

  // False where a cover, on this rank or another, did not last.
  Result<bool> once() {
    TRIMTAB_TRY(const Span first, alone(device_, a_));
    TRIMTAB_TRY(const Span communication, alone(device_, b_));
    TRIMTAB_TRY(const auto disturbed_a, under(device_, a_, b_));
    TRIMTAB_TRY(const auto disturbed_b, under(device_, b_, a_));
    TRIMTAB_TRY(const Span second, alone(device_, a_));
    TRIMTAB_TRY(const bool a_lasted, ranks_.all(disturbed_a.has_value()));
    TRIMTAB_TRY(const bool b_lasted, ranks_.all(disturbed_b.has_value()));
    if (!a_lasted) grow_cover(b_, a_);
    if (!b_lasted) grow_cover(a_, b_);
    if (!a_lasted || !b_lasted) return false;
    const Repetition row{first.length_ns(), second.length_ns(), communication.length_ns(), disturbed_a->length_ns(),
                         disturbed_b->length_ns()};
    if (std::min({row.first, row.second, row.communication}) <= 0) {
      return unavailable("the device gave a span of no length");
    }
    rows_.push_back(row);
    readings_.push_back(device_.clocks());
    return true;
  }

  Device& device_;
  Ranks& ranks_;
  Side a_;
  Side b_;
  std::vector<Repetition> rows_;
  std::vector<ClockReading> readings_;
  std::size_t discarded_ = 0;
};

}  // namespace

bool covers(const Span& cover, const Span& covered, double tolerance) {
  return cover.begin_ns <= covered.begin_ns + tolerance * covered.length_ns() && cover.end_ns >= covered.end_ns;
}

Result<OverlapResult> measure_overlap(const OverlapCase& one, const OverlapSettings& settings, Device& device,
                                      Ranks& ranks, Random& random) {
  TRIMTAB_TRY(Side computation, prepare(device, ranks, one.computation, kLowPriority));
  TRIMTAB_TRY(Side communication, prepare(device, ranks, one.communication, kHighPriority));
  Measurer measurer(device, ranks, std::move(computation), std::move(communication));
  TRIMTAB_TRY_STATUS(measurer.collect(settings));
  return measurer.result(random);
}

}  // namespace trimtab::bench
