#include "trace/fetch.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;
using namespace std::chrono_literals;

TEST_CASE("a trace is waited for as long as it lasts, and given up when then nothing comes") {
  const TraceWait wait(5s, 100s);
  CHECK_FALSE(wait.over(101s));
  CHECK_FALSE(wait.over(105s + TraceWait::kPatience));
  CHECK(wait.over(105s + TraceWait::kPatience + 1ns));
}

TEST_CASE("a trace that takes long to fetch is not given up while it comes") {
  TraceWait wait(5s, 100s);
  wait.came(101s);
  CHECK_FALSE(wait.over(105s + TraceWait::kPatience));
  wait.came(120s);
  CHECK_FALSE(wait.over(120s + TraceWait::kPatience));
  CHECK(wait.over(120s + TraceWait::kPatience + 1ns));
}
