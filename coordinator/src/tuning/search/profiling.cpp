#include "tuning/search/profiling.hpp"

#include <algorithm>
#include <utility>

#include "tuning/launch/commands.hpp"

namespace trimtab::coordinator {
namespace {

// A batch of costs may arrive a little after the benchmark that measured it has ended.
constexpr Nanoseconds kCostsGrace = std::chrono::seconds(10);

}  // namespace

void Profiling::begin() {
  known_.requests.clear();
  known_.request_sizes.clear();
  known_.request_next = 0;
  costs_since_ = Nanoseconds{0};
  out_.act(CountCosts{});
}

Profiling::Counted Profiling::take(const CostsCounted& counted) {
  failure_ = counted.error;
  if (!counted.error.empty()) return Counted::kFailed;
  known_.costs_missing = counted.missing;
  out_.changed = true;
  const bool first = known_.requests.empty();
  if (first && known_.costs_wanted == 0) {
    known_.costs_reused = counted.known;
    known_.costs_wanted = counted.missing;
  }
  if (counted.missing == 0) return Counted::kDone;
  if (first) {
    known_.requests = counted.requests;
    known_.request_sizes = counted.request_sizes;
    out_.note("phase", std::to_string(counted.known) + " costs are known, " + std::to_string(counted.missing) +
                           " are to be measured");
    next();
    return Counted::kWait;
  }
  if (view_.now.monotonic - costs_since_ < kCostsGrace) return Counted::kWait;  // tick() asks again
  if (counted.known == 0 && !benchmark_error_.empty()) {
    failure_ = "the job's benchmark command failed: " + benchmark_error_;
    return Counted::kFailed;
  }
  out_.note("warning", std::to_string(counted.missing) + " costs could not be measured: " + counted.missing_names);
  return Counted::kDone;
}

bool Profiling::has_next() const {
  return std::cmp_less(known_.request_next, known_.requests.size());
}

// The next request is carried out; when all have been, costs are counted.
void Profiling::next() {
  if (has_next()) {
    moved_ = {};
    out_.changed = true;
    return commands_.benchmark();
  }
  costs_since_ = view_.now.monotonic;
  out_.act(CountCosts{});
}

void Profiling::benchmarked(const CommandFinished& command) {
  if (!command.ok) {
    benchmark_error_ = command.error;
    out_.note("warning", "a benchmark failed: " + command.error);
  }
  if (view_.state.is_outstanding(CommandKind::kBenchmark)) return;
  ++known_.request_next;
  next();
}

void Profiling::tick() {
  const bool runs = view_.state.is_outstanding(CommandKind::kBenchmark);
  if (!known_.requests.empty() && !runs && !has_next()) out_.act(CountCosts{});
}

void Profiling::end() {
  // Of the wall clock, so that a restart in between counts too; a clock that was set back must not give less than
  // nothing.
  known_.profiling_ns += std::max<std::int64_t>(view_.now.wall.count() - view_.state.phase_wall_ns, 0);
  known_.requests.clear();
}

Progress Profiling::progress() const {
  Progress progress{known_.costs_reused, known_.costs_reused + known_.costs_wanted, "costs known"};
  for (std::int32_t i = 0; i < known_.request_next; ++i) progress.done += known_.request_sizes[i];
  if (moved_.total > 0 && known_.request_next < std::ssize(known_.request_sizes)) {
    progress.done += known_.request_sizes[known_.request_next] * moved_.done / moved_.total;
    progress.what = moved_.what.empty() ? progress.what : moved_.what;
  }
  return progress;
}

}  // namespace trimtab::coordinator
