#pragma once

// Before the first search: which costs the job's plans need, and the benchmarks that measure those that nobody knows.
// Where near hardware has them, a few are measured first, and what these say decides which of the others are.

#include <cstdint>
#include <string>
#include <vector>

#include "tuning/outcome.hpp"

namespace trimtab::coordinator {

class Commands;
struct View;

struct Progress {
  std::int32_t done = 0;
  std::int32_t total = 0;
  std::string what;
};

// What survives the coordinator.
struct ProfilingState {
  std::vector<std::string> requests;  // what is left to measure, as documents
  std::vector<std::int32_t> request_sizes;
  std::int32_t request_next = 0;
  std::int32_t request_repeats = 0;  // of that one, after its benchmark was killed; not stored: another counts anew
  std::int32_t costs_reused = 0;
  std::int32_t costs_wanted = 0;
  std::int32_t costs_missing = 0;
  std::int64_t profiling_ns = 0;
  std::int32_t launches_untold = 0;  // of passes that the benchmark has measured; not stored: facts have it
  NearState near;
};

class Profiling {
 public:
  Profiling(ProfilingState& known, const View& view, Commands& commands, Outcome& out)
      : known_(known), view_(view), commands_(commands), out_(out) {}

  void begin();
  enum class Counted { kWait, kFailed, kDone };
  [[nodiscard]] Counted take(const CostsCounted& counted);
  // Why it failed: the last of what was wrong.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  void benchmarked(const CommandFinished& command);
  // Counts again, where costs are waited for.
  void tick();
  void end();

  void take_progress(const CommandMoved& command) { moved_ = {command.done, command.total, command.what}; }
  void forget_progress() { moved_ = {}; }
  [[nodiscard]] Progress progress() const;

 private:
  [[nodiscard]] bool has_next() const;
  void next();
  void ask(const CostsCounted& counted);
  void probe(const CostsCounted& counted);
  void take_over(const CostsCounted& counted);
  void tell_missing(const CostsCounted& counted);
  void tell_untold(std::int32_t launches);

  ProfilingState& known_;
  const View& view_;
  Commands& commands_;
  Outcome& out_;
  Progress moved_;  // of the benchmark that runs
  std::string failure_;
  std::string benchmark_error_;  // of the first benchmark that failed: what follows may only follow from it
  bool killed_ = false;          // a benchmark of the request that runs was killed
  Nanoseconds costs_since_{0};   // when the last benchmark ended and its costs were not there yet
};

}  // namespace trimtab::coordinator
