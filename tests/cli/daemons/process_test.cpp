#include "daemons/process.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "../scratch.hpp"

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("a program's name may hold spaces and parentheses") {
  const auto stat = parse_process_stat(
      "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 50 18446744073709551615 1 1");
  REQUIRE(stat.has_value());
  CHECK(stat->name == "a) b (c");
  CHECK(stat->state == 'S');
  CHECK(stat->start_time == 987654);
}

TEST_CASE("what is no process's stat gives nothing") {
  for (const char* text :
       {"", "42", "42 (a)", "42 (a) ", "42 (a) S 1 2 3", "42 (a) S 1 42 42 0 -1 4 1 0 0 0 1 2 0 0 20 0 1 0 x"}) {
    INFO(text);
    CHECK_FALSE(parse_process_stat(text).has_value());
  }
}

TEST_CASE("a pid with another start time is another process") {
  const SystemClock clock;
  const Scratch scratch;
  const auto sleeper = start_in_background({"/bin/sleep", "60"}, scratch.path("log"));
  REQUIRE(sleeper.ok());
  CHECK(is_alive(*sleeper));
  CHECK(runs_program(*sleeper, "sleep"));
  CHECK_FALSE(runs_program(*sleeper, "trimtab-agent"));
  ProcessIdentity reused = *sleeper;
  reused.start_time += 1;
  CHECK_FALSE(is_alive(reused));
  CHECK_FALSE(runs_program(reused, "sleep"));
  send_signal(reused, SIGKILL);
  CHECK(is_alive(*sleeper));
  send_signal(*sleeper, SIGKILL);
  const auto end = clock.monotonic() + std::chrono::seconds(5);
  while (is_alive(*sleeper) && clock.monotonic() < end) {
  }
  CHECK_FALSE(is_alive(*sleeper));
}

TEST_CASE("a program that cannot be started is an error that names it") {
  const Scratch scratch;
  const auto started = start_in_background({"/nonexistent/program"}, scratch.path("log"));
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().kind == ErrorKind::kUnavailable);
  CHECK(started.error().message.find("/nonexistent/program") != std::string::npos);
  CHECK_FALSE(start_in_background({"/bin/true"}, "/nonexistent/directory/log").ok());
}

TEST_CASE("a command's output and exit code come back, and a slow one is ended") {
  const SystemClock clock;
  const auto said = run_command({"sh", "-c", "echo out; echo err >&2; exit 7"}, clock, std::chrono::seconds(20));
  CHECK(said.exit_code == 7);
  CHECK(said.output == "out\nerr\n");
  const auto slow = run_command({"sleep", "60"}, clock, std::chrono::milliseconds(50));
  CHECK(slow.timed_out);
  CHECK(slow.exit_code == -1);
  CHECK(run_command({"no-such-program-at-all"}, clock, std::chrono::seconds(20)).exit_code != 0);
}
