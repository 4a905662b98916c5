// Frames that are made to cost the coordinator its memory or its loop: refused, logged and counted, and the others go
// on.

#include <catch2/catch.hpp>
#include <optional>

#include "../../hollow_frames.hpp"
#include "../../peak_memory.hpp"
#include "../agents_world.hpp"
#include "../kept_log.hpp"
#include "api/metrics.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kMostGrowth = 32 << 20;

struct RunningDaemon {
  TemporaryDirectory directory;
  KeptLog log;
  SystemClock clock;
  net::EventLoop loop;
  std::unique_ptr<Daemon> daemon;

  RunningDaemon() {
    Settings settings;
    settings.port = 0;
    settings.state_directory = directory.path();
    settings.max_byte_rate = settings.max_frame;
    daemon = Daemon::start(loop, clock, settings).value();
  }
};

net::LinkOptions wide_link() {
  net::LinkOptions options;
  options.max_queued_bytes = 256U << 20;
  return options;
}

}  // namespace

TEST_CASE("a frame of millions of empty submessages takes no memory of the coordinator's, and is told and counted") {
  for (const test::HollowFrame& kind : test::hollow_frames()) {
    INFO(kind.field);
    const KeptLog log;
    World world;
    spdlog::set_level(spdlog::level::trace);
    world.hello("n0", 1);
    const std::string frame = test::hollow_of_8_mib(kind);
    const test::PeakMemory memory;
    const Nanoseconds begin = SystemClock().monotonic();
    world.agents.message(1, frame);
    CHECK(SystemClock().monotonic() - begin < 200ms);
    CHECK(memory.growth_bytes() < kMostGrowth);
    CHECK(world.closed.contains(1));
    CHECK_THAT(log.text(), Contains("refused (agent): node n0: a frame of ") && Contains(kind.field));
    CHECK(world.services.refusals.counts().at("agent") == 1);
    CHECK(world.services.counters.frames_malformed == 1);
  }
}

TEST_CASE("a thousand frames of too many submessages fill no log, and all are counted") {
  const KeptLog log;
  World world;
  spdlog::set_level(spdlog::level::trace);
  const std::string frame = test::hollow(test::hollow_frames().front(), 5000);
  for (std::uint64_t peer = 1; peer <= 1000; ++peer) world.agents.message(peer, frame);
  const std::string text = log.text();
  CHECK(std::count(text.begin(), text.end(), '\n') == LogPace::kLines);
  CHECK(world.services.refusals.counts().at("agent") == 1000);
}

TEST_CASE("until its hello is accepted a peer sends small frames only, and then large ones") {
  RunningDaemon one;
  wire::FromAgent large;
  large.mutable_command_progress()->set_what(std::string(2 << 20, 'x'));
  FakeAgent unknown(one.loop, one.daemon->port(), "n0", "i0", wide_link());
  unknown.hello_on_open = false;
  unknown.start();
  bool sent = false;
  REQUIRE(run_until(one.loop, [&] {
    sent = sent || unknown.send(large);
    return unknown.closes == 1;
  }));
  unknown.stop();
  CHECK_THAT(one.log.text(), Contains("refused (too_large): 127.0.0.1:") &&
                                 Contains("it sent a frame of more than 1048576 bytes before it had said who it is"));
  FakeAgent known(one.loop, one.daemon->port(), "n1", "i1", wide_link());
  known.start();
  REQUIRE(run_until(one.loop, [&] { return known.welcomes == 1; }));
  REQUIRE(known.send(large));
  known.send_batch(1, "{}", 1);
  CHECK(run_until(one.loop, [&] { return known.acknowledged.contains(1); }));
  CHECK(known.closes == 0);
}

TEST_CASE("a flood of large frames by one agent leaves another's heartbeat answered") {
  RunningDaemon one;
  FakeAgent flood(one.loop, one.daemon->port(), "n0", "i0", wide_link());
  flood.start();
  int answers = 0;
  net::Link* asking = nullptr;
  net::LinkHandlers handlers;
  handlers.opened = [&] { asking->send(test::hello_of("n1", "i1", fingerprint_json()).SerializeAsString()); };
  handlers.message = [&](std::string_view frame) {
    wire::ToAgent to;
    REQUIRE(to.ParseFromArray(frame.data(), static_cast<int>(frame.size())));
    if (to.has_heartbeat()) ++answers;
  };
  net::LinkOptions options;
  options.port = one.daemon->port();
  net::Link other(one.loop, options, handlers, 1);
  asking = &other;
  other.start();
  REQUIRE(run_until(one.loop, [&] { return flood.welcomes == 1 && other.open(); }));
  wire::FromAgent large;
  large.mutable_command_progress()->set_what(std::string(4 << 20, 'x'));
  constexpr int kFrames = 10;  // 40 MiB, of which 8 MiB a second are read
  for (int i = 0; i < kFrames; ++i) REQUIRE(flood.send(large));
  flood.send_batch(1, "{}", 1);
  wire::FromAgent beat;
  beat.mutable_heartbeat()->set_sent_ns(1);
  Nanoseconds longest{0};
  for (int i = 0; i < 20; ++i) {
    const Nanoseconds begin = one.clock.monotonic();
    REQUIRE(other.send(beat.SerializeAsString()));
    REQUIRE(run_until(one.loop, [&] { return answers == i + 1; }));
    longest = std::max(longest, one.clock.monotonic() - begin);
  }
  CHECK(longest < 1s);
  CHECK_FALSE(flood.acknowledged.contains(1));  // behind a flood that is read at its rate
  CHECK(flood.closes == 0);
  CHECK(run_until(one.loop, [&] { return flood.acknowledged.contains(1); }));
}

TEST_CASE("a text that is not UTF-8 is told by protobuf at the debug level of the daemon's own log") {
  RunningDaemon one;
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.start();
  REQUIRE(run_until(one.loop, [&] { return agent.welcomes == 1; }));
  wire::FromAgent broken;
  broken.mutable_command_progress()->set_what("\xff\xfe");
  agent.send(broken);
  REQUIRE(run_until(one.loop, [&] { return agent.refusals.size() == 1; }));
  CHECK_THAT(one.log.text(), Contains("[debug] protobuf: ") && Contains("invalid UTF-8"));
  CHECK_THAT(one.log.text(), Contains("refused (agent): node n0: a frame is not a message"));
}
