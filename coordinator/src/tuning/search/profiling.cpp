#include "tuning/search/profiling.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tuning/launch/commands.hpp"

namespace trimtab::coordinator {
namespace {

// A batch of costs may arrive a little after the benchmark that measured it has ended.
constexpr Nanoseconds kCostsGrace = std::chrono::seconds(10);

// Of a benchmark whose process somebody, or the system for want of memory, has killed.
constexpr std::int32_t kMostRepeats = 2;

}  // namespace

void Profiling::begin() {
  // Requests are known by their numbers, and what was asked once is not asked again under the same one.
  const std::int32_t done = known_.near.found.fingerprint.empty() ? 0 : known_.near.requests_done + known_.request_next;
  known_.requests.clear();
  known_.request_sizes.clear();
  known_.request_next = 0;
  known_.request_repeats = 0;
  known_.launches_untold = 0;
  benchmark_error_.clear();
  known_.near = {};
  known_.near.requests_done = done;
  costs_since_ = Nanoseconds{0};
  out_.act(CountCosts{});
}

Profiling::Counted Profiling::take(const CostsCounted& counted) {
  failure_ = counted.error;
  if (!counted.error.empty()) return Counted::kFailed;
  known_.costs_missing = counted.missing;
  out_.changed = true;
  if (counted.launches_untold > 0 && known_.launches_untold == 0) tell_untold(counted.launches_untold);
  if (counted.near.probing) {
    if (!known_.near.decided) probe(counted);
    return Counted::kWait;
  }
  const bool first = known_.requests.empty() || (known_.near.decided && !known_.near.counted);
  if (first && known_.costs_wanted == 0) {
    known_.costs_reused = counted.known;
    known_.costs_wanted = counted.missing;
  }
  if (!counted.near.found.fingerprint.empty()) take_over(counted);
  if (counted.missing == 0) return Counted::kDone;
  if (first) {
    out_.note("phase", std::to_string(counted.known) + " costs are known, " + std::to_string(counted.missing) +
                           " are to be measured");
    ask(counted);
    return Counted::kWait;
  }
  if (view_.now.monotonic - costs_since_ < kCostsGrace) return Counted::kWait;  // tick() asks again
  if (counted.known == 0 && !benchmark_error_.empty()) {
    failure_ = "the job's benchmark command failed: " + benchmark_error_;
    return Counted::kFailed;
  }
  tell_missing(counted);
  return Counted::kDone;
}

// A benchmark that has measured passes and told no launch of them cannot: it is asked once.
void Profiling::tell_missing(const CostsCounted& counted) {
  if (counted.launches_missing > 0 && benchmark_error_.empty()) tell_untold(counted.launches_missing);
  if (counted.missing == counted.launches_missing) return;
  out_.note("warning", std::to_string(counted.missing) + " costs could not be measured: " + counted.missing_names);
}

void Profiling::tell_untold(std::int32_t launches) {
  known_.launches_untold = launches;
  out_.note("warning",
            "the benchmark does not tell " + std::to_string(launches) +
                " launches of passes that it has measured (docs/protocols.md, \"The benchmark command\"). These "
                "stay priced as measured, with what devices wait for their hosts, and it is not asked again");
}

// Behind those that were carried out.
void Profiling::ask(const CostsCounted& counted) {
  std::ranges::copy(counted.requests, std::back_inserter(known_.requests));
  std::ranges::copy(counted.request_sizes, std::back_inserter(known_.request_sizes));
  next();
}

// A few costs are measured first. Once they are known, or not waited for any more, costs are counted again.
void Profiling::probe(const CostsCounted& counted) {
  NearState& near = known_.near;
  if (known_.requests.empty() && counted.near.probes_missing > 0) {
    near.found = counted.near.found;
    near.hardware = view_.state.hardware.costs_hardware;
    near.probes = counted.near.probes_missing;
    if (known_.costs_wanted == 0) {
      known_.costs_reused = counted.known;
      known_.costs_wanted = near.probes;
    }
    out_.note("phase", std::to_string(counted.known) + " costs are known, " + std::to_string(counted.missing) +
                           " are not. Hardware of fingerprint " + near.found.fingerprint + " is near (" +
                           near.found.differences + "): " + std::to_string(near.probes) +
                           " costs are measured first, to see which of its costs hold");
    return ask(counted);
  }
  const bool late = view_.now.monotonic - costs_since_ >= kCostsGrace;
  if (counted.near.probes_missing > 0 && !late) return;  // tick() asks again
  near.found = counted.near.found;
  near.hardware = view_.state.hardware.costs_hardware;
  near.decided = true;
  out_.act(CountCosts{});
}

void Profiling::take_over(const CostsCounted& counted) {
  NearState& near = known_.near;
  if (near.counted) return;
  near.counted = true;
  near.taken_over = counted.near.taken_over;
  near.findings = counted.near.findings;
  if (near.probes > 0) known_.costs_wanted = near.probes + counted.missing;
  out_.note("phase", describe(near));
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
    if (benchmark_error_.empty()) benchmark_error_ = command.error;
    killed_ = killed_ || command.killed;
    out_.note("warning", "a benchmark failed: " + command.error);
  }
  if (view_.state.is_outstanding(CommandKind::kBenchmark)) return;
  if (std::exchange(killed_, false) && known_.request_repeats < kMostRepeats) {
    ++known_.request_repeats;
    out_.note("warning", "the benchmark was ended from outside and is run again (" +
                             std::to_string(known_.request_repeats) + " of " + std::to_string(kMostRepeats) + ")");
    return next();
  }
  known_.request_repeats = 0;
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
