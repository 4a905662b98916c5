#include "cupti/takeover_watch.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::inject::cupti;
using Action = TakeoverWatch::Action;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// A job looked at once a second.
struct Watched {
  TakeoverWatch watch;
  WatchSample sample{.now_ns = 1000 * kSecond};

  Action second() {
    sample.now_ns += kSecond;
    return watch.look(sample);
  }
  // Kernels come, buffers go round, steps end.
  Action busy_second() {
    sample.kernels += 1000;
    sample.requested += 1;
    sample.progress += 1;
    return second();
  }
  // The seconds until an action, at most `most`; 0 when there was none.
  int seconds_until(Action wanted, int most, bool progress) {
    for (int i = 1; i <= most; ++i) {
      sample.progress += progress ? 1 : 0;
      if (second() == wanted) return i;
    }
    return 0;
  }
};

Watched busy() {
  Watched watched;
  for (int i = 0; i < 100; ++i) REQUIRE(watched.busy_second() == Action::kNone);
  return watched;
}

}  // namespace

TEST_CASE("what is told needs no evidence: CUPTI is another's until it is given back, however long that takes") {
  Watched watched = busy();
  watched.watch.taken(watched.sample.now_ns, true);
  CHECK(watched.watch.foreign());
  CHECK(watched.watch.suspected_since_ns() == watched.sample.now_ns);
  CHECK(watched.seconds_until(Action::kReturn, 100'000, true) == 0);
  watched.watch.given_back(watched.sample.now_ns);
  CHECK(watched.seconds_until(Action::kReturn, 10, true) == 1);
  // Being given it back is no return too early: the next doubt's while is not doubled.
  watched.watch.taken(watched.sample.now_ns, true);
  watched.watch.stopped(watched.sample.now_ns);
  CHECK(watched.seconds_until(Action::kReturn, 200, true) == 60);
}

TEST_CASE("one who takes CUPTI and records nothing has it for a while") {
  Watched watched = busy();
  watched.watch.taken(watched.sample.now_ns, false);
  CHECK(watched.seconds_until(Action::kReturn, 200, true) == 60);
}

TEST_CASE("one who stops and begins again is not disturbed meanwhile") {
  Watched watched = busy();
  watched.watch.taken(watched.sample.now_ns, true);
  watched.watch.stopped(watched.sample.now_ns);
  CHECK(watched.seconds_until(Action::kReturn, 30, true) == 0);
  watched.watch.taken(watched.sample.now_ns, true);
  CHECK(watched.seconds_until(Action::kReturn, 1000, true) == 0);
}

TEST_CASE("a job that launches all the time is never left alone") {
  Watched watched = busy();
  for (int i = 0; i < 10000; ++i) CHECK(watched.busy_second() == Action::kNone);
}

TEST_CASE("a job that stands still is no takeover, however long") {
  Watched watched = busy();
  CHECK(watched.seconds_until(Action::kBackOff, 100000, false) == 0);
}

TEST_CASE("a job that has never launched anything is no takeover") {
  Watched watched;
  CHECK(watched.seconds_until(Action::kBackOff, 1000, true) == 0);
}

TEST_CASE("steps that go on without a kernel are a takeover, since the last kernel") {
  Watched watched = busy();
  const std::uint64_t last = watched.sample.now_ns;
  CHECK(watched.seconds_until(Action::kBackOff, 100, true) == 10);
  CHECK(watched.watch.foreign());
  CHECK(watched.watch.suspected_since_ns() == last);
}

TEST_CASE("a buffer of finished records that no flush brings back is a takeover") {
  Watched watched = busy();
  watched.sample.stranded = true;
  CHECK(watched.seconds_until(Action::kBackOff, 100, false) == 6);
  Watched other = busy();
  other.sample.stranded = true;
  for (int i = 0; i < 4; ++i) CHECK(other.second() == Action::kNone);
  other.sample.stranded = false;
  CHECK(other.seconds_until(Action::kBackOff, 100, false) == 0);
}

TEST_CASE("foreign records and kinds that are switched off are a takeover at once") {
  Watched watched = busy();
  watched.sample.foreign = 10;
  CHECK(watched.second() == Action::kBackOff);
  Watched other = busy();
  other.sample.kinds_gone = true;
  CHECK(other.second() == Action::kBackOff);
}

TEST_CASE("a stray record is no takeover") {
  Watched watched = busy();
  for (int i = 0; i < 1000; ++i) {
    watched.sample.foreign += 2;
    CHECK(watched.busy_second() == Action::kNone);
  }
}

TEST_CASE("we come back after a minute, and stay when all is well") {
  Watched watched = busy();
  watched.sample.foreign = 10;
  REQUIRE(watched.second() == Action::kBackOff);
  CHECK(watched.seconds_until(Action::kReturn, 1000, true) == 60);
  CHECK_FALSE(watched.watch.foreign());
  for (int i = 0; i < 1000; ++i) CHECK(watched.busy_second() == Action::kNone);
}

TEST_CASE("coming back too early doubles the wait, to sixteen minutes") {
  Watched watched = busy();
  int expected = 60;
  for (int round = 0; round < 7; ++round) {
    watched.sample.foreign += 10;
    REQUIRE(watched.second() == Action::kBackOff);
    CHECK(watched.seconds_until(Action::kReturn, 10000, true) == expected);
    expected = expected < 960 ? 2 * expected : 960;
  }
  for (int i = 0; i < 20; ++i) CHECK(watched.busy_second() == Action::kNone);
  watched.sample.foreign += 10;
  REQUIRE(watched.second() == Action::kBackOff);
  CHECK(watched.seconds_until(Action::kReturn, 10000, true) == 60);  // it had gone well in between
}

TEST_CASE("a pause that we have made ourselves is no takeover") {
  Watched watched = busy();
  for (int i = 0; i < 1000; ++i) {
    watched.sample.now_ns += kSecond;
    watched.sample.progress += 1;
    watched.watch.paused(watched.sample);
  }
  CHECK(watched.second() == Action::kNone);
  CHECK(watched.busy_second() == Action::kNone);
}
