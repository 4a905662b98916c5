#include "base/log_pace.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

namespace {

int said_of(LogPace& pace, int lines, Nanoseconds now) {
  int said = 0;
  for (int i = 0; i < lines; ++i) said += pace.next(now).say ? 1 : 0;
  return said;
}

}  // namespace

TEST_CASE("ten lines in ten seconds are said, and then how many were left out") {
  LogPace pace;
  const Nanoseconds begin = std::chrono::hours(1);
  CHECK(said_of(pace, 1000, begin) == LogPace::kLines);
  CHECK(said_of(pace, 5, begin + LogPace::kPeriod - Nanoseconds(1)) == 0);
  const LogPace::Answer next = pace.next(begin + LogPace::kPeriod);
  CHECK(next.say);
  CHECK(next.left_out == 995);
  CHECK(pace.next(begin + LogPace::kPeriod).left_out == 0);
  CHECK(said_of(pace, 1000, begin + LogPace::kPeriod) == LogPace::kLines - 2);
  // For ever.
  for (int i = 1; i <= 100; ++i) CHECK(said_of(pace, 1000, begin + (i + 1) * LogPace::kPeriod) == LogPace::kLines);
}

TEST_CASE("a process that has just begun says its first lines") {
  LogPace pace;
  CHECK(said_of(pace, 3, Nanoseconds(5)) == 3);
}
