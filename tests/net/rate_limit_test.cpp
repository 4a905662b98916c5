#include "net/rate.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

TEST_CASE("a second's worth of frames comes at once, and then the rate holds") {
  RateLimit limit({100, 0});
  const Nanoseconds begin = 1h;
  for (int i = 0; i < 100; ++i) CHECK(limit.take(begin, 1) == 0ns);
  Nanoseconds now = begin;
  int frames = 0;
  for (; now < begin + 10s; ++frames) now += limit.take(now, 1);
  CHECK(frames >= 1000);
  CHECK(frames <= 1010);
}

TEST_CASE("who was quiet may send a second's worth again, and no more") {
  RateLimit limit({100, 0});
  CHECK(limit.take(0ns, 1) == 0ns);
  const Nanoseconds later = 1h;
  int at_once = 0;
  while (limit.take(later, 1) == 0ns) ++at_once;
  CHECK(at_once == 100);
}

TEST_CASE("waiting is worth its timer, and 0 is no limit") {
  RateLimit fast({1'000'000, 0});
  int delayed = 0;
  for (int i = 0; i < 1'000'000; ++i) delayed += fast.take(0ns, 1) == 0ns ? 0 : 1;
  CHECK(delayed == 0);
  CHECK(fast.take(0ns, 1) == RateLimit::kShortestPause);
  RateLimit none({0, 0});
  for (int i = 0; i < 1000; ++i) CHECK(none.take(0ns, 1) == 0ns);
}

TEST_CASE("bytes are held to their rate as frames are, and a frame costs the dearer of the two") {
  RateLimit limit({100, 1'000'000});
  CHECK(limit.take(0ns, 1'000'000) == 0ns);
  CHECK(limit.take(0ns, 500'000) == 500ms);
  CHECK(limit.take(0ns, 1) == 510ms);
  CHECK(limit.take(1h, 100'000'000) == 99s);
  RateLimit frames_alone({100, 0});
  CHECK(frames_alone.take(0ns, std::size_t{1} << 30) == 0ns);
  RateLimit bytes_alone({0, 1000});
  int at_once = 0;
  while (bytes_alone.take(0ns, 100) == 0ns) ++at_once;
  CHECK(at_once == 10);
}
