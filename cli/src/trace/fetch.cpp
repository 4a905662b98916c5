#include "trace/fetch.hpp"

#include "jobs/coordinator_client.hpp"
#include "schema/frame_bounds.hpp"
#include "schema/wire_log.hpp"

namespace trimtab::cli {

FetchedTrace fetch_trace(const TraceSource& source, Nanoseconds length, TraceEvents& events, const Clock& clock,
                         const std::function<void()>& pause, const std::function<bool()>& interrupted) {
  hand_over_protobuf_log([](const std::string&) {});  // what cannot be read is left out
  FetchedTrace fetched;
  TraceWait wait(length, clock.monotonic());
  std::uint64_t next = 0;
  // Everything that has come by now; true when that was all.
  const auto look = [&]() -> Result<bool> {
    TRIMTAB_TRY(const std::string body, source.state());
    TRIMTAB_TRY(fetched.state, read_reply<api::Trace>(body));
    while (next < fetched.state.chunks && !(fetched.interrupted = interrupted())) {
      TRIMTAB_TRY(const std::string frame, source.chunk(next));
      wire::FromAgent message;
      if (check_from_agent(frame).ok() && message.ParseFromString(frame))
        (void)events.add(message.trace_chunk());  // counted there
      ++next;
      wait.came(clock.monotonic());
    }
    fetched.interrupted = fetched.interrupted || interrupted();
    const bool done = fetched.state.state == api::TraceState::kDone && next >= fetched.state.chunks;
    fetched.given_up = !done && !fetched.interrupted && wait.over(clock.monotonic());
    return done || fetched.interrupted || fetched.given_up;
  };
  while (true) {
    const Result<bool> over = look();
    if (!over.ok()) fetched.lost = over.error().message;
    if (!over.ok() || *over) return fetched;
    pause();
  }
}

}  // namespace trimtab::cli
