#include "trace/fetch.hpp"

#include "jobs/reply_document.hpp"
#include "schema/frame_bounds.hpp"
#include "schema/wire_log.hpp"
#include "trace/wait.hpp"
#include "wire/agent.pb.h"

namespace trimtab::cli {

namespace {

class Fetch {
 public:
  Fetch(const TraceSource& source, Nanoseconds length, TraceEvents& events, const Clock& clock,
        const std::function<bool()>& interrupted)
      : source_(source), events_(events), clock_(clock), interrupted_(interrupted), wait_(length, clock.monotonic()) {}

  // Everything that has come by now; true when that was all.
  Result<bool> look() {
    TRIMTAB_TRY(const std::string body, source_.state());
    TRIMTAB_TRY(fetched_.state, read_reply<api::Trace>(body));
    const api::Trace& state = fetched_.state;
    while (next_ < state.chunks && !(fetched_.interrupted = interrupted_())) {
      TRIMTAB_TRY(const std::string frame, source_.chunk(next_));
      wire::FromAgent message;
      if (check_from_agent(frame).ok() && message.ParseFromString(frame))
        (void)events_.add(message.trace_chunk());  // counted there
      ++next_;
      wait_.came(clock_.monotonic());
    }
    fetched_.interrupted = fetched_.interrupted || interrupted_();
    const bool done = state.state == api::TraceState::kDone && next_ >= state.chunks;
    fetched_.given_up = !done && !fetched_.interrupted && wait_.over(clock_.monotonic());
    return done || fetched_.interrupted || fetched_.given_up;
  }
  FetchedTrace& fetched() { return fetched_; }

 private:
  const TraceSource& source_;
  TraceEvents& events_;
  const Clock& clock_;
  const std::function<bool()>& interrupted_;
  TraceWait wait_;
  std::uint64_t next_ = 0;
  FetchedTrace fetched_;
};

}  // namespace

FetchedTrace fetch_trace(const TraceSource& source, Nanoseconds length, TraceEvents& events, const Clock& clock,
                         const std::function<void()>& pause, const std::function<bool()>& interrupted) {
  hand_over_protobuf_log([](const std::string&) {});  // what cannot be read is left out
  Fetch fetch(source, length, events, clock, interrupted);
  while (true) {
    const Result<bool> over = fetch.look();
    if (!over.ok()) fetch.fetched().lost = over.error().message;
    if (!over.ok() || *over) return std::move(fetch.fetched());
    pause();
  }
}

}  // namespace trimtab::cli
