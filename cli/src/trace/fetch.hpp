#pragma once

// Fetching a trace that the coordinator takes, chunk by chunk, until it is done, silent, lost or no longer wanted.

#include <algorithm>
#include <functional>

#include "base/clock.hpp"
#include "schema/api/trace.hpp"
#include "trace/events.hpp"

namespace trimtab::cli {

// How long whoever fetches a trace waits for it: as long as it was to be, then as long as something still comes.
class TraceWait {
 public:
  static constexpr Nanoseconds kPatience = std::chrono::seconds(30);

  TraceWait(Nanoseconds length, Nanoseconds now) : last_(now + length) {}

  void came(Nanoseconds now) { last_ = std::max(last_, now); }
  // Nothing has come for too long: a node is silent.
  [[nodiscard]] bool over(Nanoseconds now) const { return now > last_ + kPatience; }

 private:
  Nanoseconds last_;
};

// Where a trace comes from; the coordinator's two answers (docs/protocols.md, "Traces"). Each is bounded in time.
struct TraceSource {
  std::function<Result<std::string>()> state;               // an api::Trace
  std::function<Result<std::string>(std::uint64_t)> chunk;  // empty when it has not come
};

struct FetchedTrace {
  api::Trace state;  // the last one that came
  bool interrupted = false;
  bool given_up = false;  // the coordinator answered, but for TraceWait::kPatience nothing new came
  std::string lost;       // why the coordinator could not be asked any more; what had come is in the events
};

// `pause` waits a little between two looks; `interrupted` says that nobody wants the rest.
[[nodiscard]] FetchedTrace fetch_trace(const TraceSource& source, Nanoseconds length, TraceEvents& events,
                                       const Clock& clock, const std::function<void()>& pause,
                                       const std::function<bool()>& interrupted);

}  // namespace trimtab::cli
