#include "records/trace_recorder.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "../kernel_records.hpp"
#include "base/clock.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace trimtab::agent::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kNow = 1'700'000'000 * kSecond;

class WallClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override {
    return Nanoseconds(static_cast<std::int64_t>(now_ns + set_back_ns));
  }
  [[nodiscard]] Nanoseconds wall() const override { return Nanoseconds(static_cast<std::int64_t>(now_ns)); }
  void set_back(std::uint64_t by_ns) {
    now_ns -= by_ns;
    set_back_ns += by_ns;
  }
  std::uint64_t now_ns = kNow;
  std::uint64_t set_back_ns = 0;
};

// A recorder over two ranks of job "a", with a link that can be closed.
struct Rig {
  Rig()
      : recorder({[this](const wire::FromAgent& message) {
                    if (open) sent.push_back(message);
                    return open;
                  },
                  [](const std::string& job) -> std::vector<TraceRecorder::Ring> {
                    if (job != "a") return {};
                    RangeRecord thread;
                    thread.kind = record::kThreadName;
                    thread.name = "main";
                    thread.thread = 100;
                    return {{1, {"a", "", 0}, 50, false, {thread}}, {2, {"a", "", 1}, 51, true, {}}};
                  },
                  [this](net::LocalPeerId peer, std::uint64_t until_ns) { detail_until_ns[peer] = until_ns; }, clock,
                  "n0"}) {}

  void start(double seconds, std::uint32_t steps, std::uint64_t max_bytes = 0, const std::string& job = "a") {
    wire::TraceStart asked;
    asked.set_id(7);
    asked.set_job(job);
    asked.set_seconds(seconds);
    asked.set_steps(steps);
    asked.set_max_bytes(max_bytes);
    recorder.start(asked);
  }
  void give(net::LocalPeerId peer, const RangeRecord& record) { recorder.records(peer, std::span(&record, 1)); }
  void pass(double seconds) {
    clock.now_ns += static_cast<std::uint64_t>(seconds * 1e9);
    recorder.tick();
  }
  [[nodiscard]] const wire::TraceEnd* end() const {
    return !sent.empty() && sent.back().has_trace_end() ? &sent.back().trace_end() : nullptr;
  }
  [[nodiscard]] std::vector<std::string> names(std::uint32_t rank) const {
    std::vector<std::string> found;
    for (const wire::FromAgent& message : sent) {
      const wire::TraceChunk& chunk = message.trace_chunk();
      if (!message.has_trace_chunk() || chunk.rank() != rank) continue;
      for (const auto& record : chunk.records()) found.push_back(chunk.names(static_cast<int>(record.name())));
    }
    return found;
  }
  WallClock clock;
  bool open = true;
  std::vector<wire::FromAgent> sent;
  std::map<net::LocalPeerId, std::uint64_t> detail_until_ns;
  TraceRecorder recorder;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a trace of some seconds holds what ran in them, from all ranks, and then ends") {
  Rig rig;
  rig.start(2, 0);
  rig.give(1, range("before", 1, kNow - 2 * kSecond, kNow - kSecond));
  rig.give(1, range("into", 2, kNow - kSecond, kNow + kSecond));
  rig.give(1, range("op/a/forward", 3, kNow + kSecond, kNow + kSecond + 500));
  rig.give(2, kernel("k", 9, kNow + 100, kNow + 200));
  rig.give(2, launch(9, 3));
  rig.give(1, range("after", 4, kNow + 2 * kSecond + 1, kNow + 3 * kSecond));
  rig.pass(2.1);
  CHECK(rig.end() == nullptr);  // records may still come, of a device for longer
  rig.give(1, range("late", 5, kNow + kSecond, kNow + kSecond + 5));
  rig.pass(3);
  REQUIRE(rig.end() != nullptr);
  CHECK(rig.recorder.running() == 0);
  CHECK(rig.names(0) == Names{"main", "into", "op/a/forward", "late"});
  CHECK(rig.names(1) == Names{"k", ""});
  const wire::TraceEnd& end = *rig.end();
  CHECK(end.id() == 7);
  CHECK(end.node() == "n0");
  REQUIRE(end.ranks_size() == 2);
  CHECK(end.ranks(0).records() == 4);
  CHECK(end.ranks(0).remark().empty());
  for (const auto& message : rig.sent) {
    if (message.has_trace_chunk()) CHECK(message.trace_chunk().pid() >= 50);
  }
}

TEST_CASE("a trace of steps begins at a step's end and holds whole steps") {
  Rig rig;
  rig.start(0, 2);
  for (const net::LocalPeerId peer : {1, 2}) {
    for (std::uint64_t i = 1; i <= 5; ++i) {
      const std::uint64_t at = kNow + i * 100 * kMillisecond;
      rig.give(peer,
               range("op/a/forward", static_cast<std::uint32_t>(i), at - 90 * kMillisecond, at - 50 * kMillisecond));
      rig.give(peer, range("step", 0, at - 100 * kMillisecond, at, 0, static_cast<std::int64_t>(i)));
    }
  }
  rig.pass(0.5);
  rig.pass(4);
  REQUIRE(rig.end() != nullptr);
  CHECK(rig.end()->ranks(0).steps() == 2);
  CHECK(rig.names(1) == Names{"op/a/forward", "step", "op/a/forward", "step"});
}

TEST_CASE("a job without steps ends a trace of steps with a word about it") {
  Rig rig;
  rig.start(0, 2);
  rig.give(1, range("op/a/forward", 1, kNow + 1, kNow + 2));
  rig.pass(119);
  CHECK(rig.end() == nullptr);
  SECTION("nothing ever") {
    rig.pass(2);
    REQUIRE(rig.end() != nullptr);
    CHECK(rig.end()->ranks(0).remark().find("no step was seen") != std::string::npos);
  }
  SECTION("its steps are found by their period") {
    for (int i = 0; i < 3; ++i) {
      for (const net::LocalPeerId peer : {1, 2}) rig.recorder.step_found(peer, rig.clock.now_ns);
      rig.give(1, range("x", 1, rig.clock.now_ns, rig.clock.now_ns + 2));
      rig.pass(0.1);
    }
    rig.pass(4);
    REQUIRE(rig.end() != nullptr);
    CHECK(rig.end()->ranks(0).steps() == 2);
    CHECK(rig.end()->ranks(0).remark().empty());
    CHECK(rig.names(0) == Names{"main", "x", "x"});
  }
}

TEST_CASE("steps that are found long after they ended are not taken for steps that were recorded") {
  Rig rig;
  rig.start(0, 2);
  const std::uint64_t step = kSecond / 10;
  // A burst of steps whose records have gone by.
  for (std::uint64_t i = 1; i <= 5; ++i) rig.recorder.step_found(1, kNow - 7 * kSecond + i * step);
  for (std::uint64_t i = 0; i < 10; ++i) rig.give(1, range("x", 1, kNow + i * step, kNow + (i + 1) * step));
  rig.pass(7);
  CHECK(rig.end() == nullptr);
  for (std::uint64_t i = 1; i <= 5; ++i) rig.recorder.step_found(1, kNow + i * step);
  rig.recorder.stop(7);
  rig.pass(7);
  REQUIRE(rig.end() != nullptr);
  CHECK(rig.names(0).size() == 1 + 10);
  CHECK(rig.end()->ranks(0).steps() == 2);
}

TEST_CASE("launches are recorded only from a trace's first step on") {
  Rig rig;
  rig.start(0, 1);
  for (std::uint32_t i = 1; i <= 1000; ++i) rig.give(1, launch(i, 1));
  rig.give(1, range("step", 0, kNow, kNow + 100));
  rig.give(1, launch(1001, 1));
  rig.give(1, range("step", 0, kNow + 100, kNow + 200));
  rig.recorder.ring_ended(1);
  rig.pass(0);
  CHECK(rig.names(0) == Names{"main", "", "step"});
}

TEST_CASE("the processes are asked for full detail while a trace of them is taken, for ten minutes at most") {
  Rig rig;
  rig.start(5, 0);
  CHECK(rig.detail_until_ns.at(1) == kNow + 8 * kSecond);
  CHECK(rig.detail_until_ns.at(2) == kNow + 8 * kSecond);
  SECTION("it ends") {
    rig.pass(100);
  }
  SECTION("the link ends") {
    rig.recorder.link_closed();
  }
  SECTION("another is taken longer") {
    wire::TraceStart asked;
    asked.set_id(8);
    asked.set_job("a");
    asked.set_seconds(600);
    rig.recorder.start(asked);
    CHECK(rig.detail_until_ns.at(1) == kNow + 600 * kSecond);
    rig.pass(100);
    CHECK(rig.detail_until_ns.at(1) == kNow + 600 * kSecond);
    rig.recorder.stop(8);
    rig.pass(0);
  }
  CHECK(rig.detail_until_ns.at(1) == 0);
  CHECK(rig.detail_until_ns.at(2) == 0);
}

TEST_CASE("what is too much is dropped and counted, and the account says truncated") {
  Rig rig;
  rig.start(1, 0, 10'000);
  for (std::uint64_t i = 0; i < 5000; ++i) rig.give(1, range("x", 1, kNow + i, kNow + i + 1));
  rig.recorder.dropped(1, 3);
  rig.pass(10);
  REQUIRE(rig.end() != nullptr);
  const wire::TracedRank& rank = rig.end()->ranks(0);
  CHECK(rank.truncated());
  CHECK(rank.records() + rank.dropped() == 5001);
  CHECK(rank.dropped() > 4000);
  CHECK(rank.ring_dropped() == 3);
}

TEST_CASE("a link that takes nothing keeps what fits, and drops and counts the rest") {
  Rig rig;
  rig.start(100, 0, std::uint64_t{1} << 40);
  rig.open = false;
  RangeRecord heavy = range("x", 0x12345678, 1, 1, 3, std::int64_t{1} << 62);
  std::uint64_t given = 0;
  for (; given < 2'000'000; ++given) {
    heavy.begin_ns = kNow + given * 1000;
    heavy.end_ns = heavy.begin_ns + (std::uint64_t{1} << 40);
    rig.give(1, heavy);
  }
  rig.open = true;
  rig.pass(2000);
  REQUIRE(rig.end() != nullptr);
  const wire::TracedRank& rank = rig.end()->ranks(0);
  CHECK(rank.records() == given + 1);
  CHECK(rank.dropped() > 0);
  CHECK(rig.names(0).size() == rank.records() - rank.dropped());
  std::size_t bytes = 0;
  for (const auto& message : rig.sent) {
    CHECK(message.ByteSizeLong() < (std::size_t{8} << 20));
    bytes += message.ByteSizeLong();
  }
  CHECK(bytes <= TraceRecorder::kMostQueuedBytes + (std::size_t{2} << 20));
}

TEST_CASE("traces end with their process, with an order, with the link, and at once where there is no rank") {
  Rig rig;
  SECTION("process") {
    rig.start(100, 0);
    rig.give(1, range("x", 1, kNow + 1, kNow + 2));
    rig.recorder.ring_ended(1);
    rig.recorder.ring_ended(2);
    rig.pass(0);
    REQUIRE(rig.end() != nullptr);
    CHECK(rig.end()->ranks(0).remark() == "the process ended");
    CHECK(rig.names(0) == Names{"main", "x"});
  }
  SECTION("order") {
    rig.start(100, 0);
    rig.recorder.stop(7);
    rig.pass(0);
    REQUIRE(rig.end() != nullptr);
    CHECK(rig.end()->ranks(1).remark() == "it was stopped");
  }
  SECTION("link") {
    rig.start(100, 0);
    rig.recorder.link_closed();
    rig.pass(200);
    CHECK(rig.sent.empty());
    CHECK(rig.recorder.running() == 0);
  }
  SECTION("no rank") {
    rig.start(100, 0, 0, "b");
    rig.pass(0);
    REQUIRE(rig.end() != nullptr);
    CHECK(rig.end()->ranks_size() == 0);
  }
}

TEST_CASE("a trace ends in time though the node's clock is set back") {
  Rig rig;
  rig.start(2, 0);
  rig.clock.set_back(7200 * kSecond);
  rig.pass(1);
  CHECK(rig.recorder.running() == 1);
  rig.pass(6);
  REQUIRE(rig.end() != nullptr);
  REQUIRE(rig.end()->ranks_size() == 2);
  CHECK(rig.end()->ranks(0).remark() == "the node's clock was set back");
  CHECK(rig.recorder.running() == 0);
}
