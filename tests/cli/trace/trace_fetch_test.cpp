#include "trace/fetch.hpp"

#include <catch2/catch.hpp>
#include <sstream>
#include <vector>

#include "schema/record.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::cli;
using namespace std::chrono_literals;

namespace {

std::string state(int chunks, bool done = false) {
  return R"({"trace":1,"state":")" + std::string(done ? "done" : "running") + R"(","chunks":)" +
         std::to_string(chunks) + "}";
}

// A coordinator whose answers are written down, the last one for ever; a pause lasts 100 ms of the clock by hand.
struct Script {
  std::vector<Result<std::string>> states;
  Result<std::string> chunk = frame();
  ManualClock clock;
  std::size_t asked = 0;
  std::vector<std::uint64_t> fetched;
  bool interrupted = false;
  std::ostringstream out;
  TraceEvents events{out};

  static std::string frame() {
    wire::FromAgent message;
    wire::TraceChunk& chunk = *message.mutable_trace_chunk();
    chunk.set_node("n0");
    chunk.add_names("");
    chunk.add_names("step");
    wire::TraceRecord& record = *chunk.add_records();
    record.set_kind(record::kRange);
    record.set_name(1);
    record.set_duration_ns(1000);
    return message.SerializeAsString();
  }
  FetchedTrace run(Nanoseconds length = 2s) {
    const TraceSource source{[this] { return states[std::min(asked++, states.size() - 1)]; },
                             [this](std::uint64_t number) {
                               fetched.push_back(number);
                               return chunk;
                             }};
    return fetch_trace(
        source, length, events, clock, [this] { clock.advance(100ms); }, [this] { return interrupted; });
  }
};

}  // namespace

TEST_CASE("a trace is fetched chunk by chunk until it is done") {
  Script script;
  script.states = {state(0), state(2), state(2), state(3, true)};
  const FetchedTrace fetched = script.run();
  CHECK(script.fetched == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(script.events.counts().records == 3);
  CHECK(fetched.state.chunks == 3);
  CHECK(fetched.state.state == api::TraceState::kDone);
  CHECK(fetched.lost.empty());
  CHECK_FALSE(fetched.given_up);
}

TEST_CASE("a coordinator whose nodes stay silent is given up in bounded time") {
  Script script;
  script.states = {state(1)};
  const Nanoseconds begin = script.clock.monotonic();
  CHECK(script.run(2s).given_up);
  CHECK(script.clock.monotonic() - begin <= 2s + TraceWait::kPatience + 100ms);
  CHECK(script.events.counts().records == 1);
}

TEST_CASE("a coordinator that is lost between two answers ends the fetch at once, and what had come is kept") {
  Script script;
  script.states = {state(1), state(2), unavailable("nothing listens there")};
  const FetchedTrace fetched = script.run();
  CHECK(fetched.lost == "nothing listens there");
  CHECK(fetched.state.chunks == 2);
  CHECK(script.events.counts().records == 2);
  CHECK(script.asked == 3);
}

TEST_CASE("a chunk that does not come loses the coordinator, and so does an answer that is no object") {
  Script cut;
  cut.states = {state(1)};
  cut.chunk = unavailable("no answer in time");
  CHECK(cut.run().lost == "no answer in time");
  for (const char* text : {"", "[]", "3", "{\"chunks\":", R"({"chunks":"many"})", R"({"state":7})"}) {
    Script odd;
    odd.states = {std::string(text)};
    CHECK(odd.run().lost.find("cannot be understood") != std::string::npos);
  }
}

TEST_CASE("what nobody wants any more is not fetched") {
  Script script;
  script.states = {state(5)};
  script.interrupted = true;
  CHECK(script.run().interrupted);
  CHECK(script.fetched.empty());
}
