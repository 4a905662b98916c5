#include "processes/captured_process.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <optional>

#include "../run_loop.hpp"
#include "processes/printable_text.hpp"
#include "processes/process_identity.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

struct Captured {
  net::EventLoop loop;
  std::string output;
  std::optional<CaptureEnd> end;
  std::unique_ptr<CapturedProcess> process;

  Status start(std::vector<std::string> arguments, Nanoseconds deadline = 10s) {
    ProcessRequest request;
    request.arguments = std::move(arguments);
    request.environment = {{"PATH", "/usr/bin:/bin"}};
    request.working_directory = "/";
    auto started = CapturedProcess::start(
        loop, std::move(request), deadline,
        {[this](std::string_view bytes) { output += bytes; }, [this](const CaptureEnd& how) { end = how; }});
    if (!started.ok()) return started.error();
    process = std::move(started).value();
    return {};
  }
  void run(std::vector<std::string> arguments, Nanoseconds deadline = 10s) {
    REQUIRE(start(std::move(arguments), deadline).ok());
    REQUIRE(run_until(loop, [this] { return end.has_value(); }));
  }
};

}  // namespace

TEST_CASE("all output is heard, however much, and a clean end") {
  Captured captured;
  captured.run({"seq", "200000"});
  CHECK(captured.end->end.clean());
  CHECK(captured.output.ends_with("\n199999\n200000\n"));
  CHECK(captured.output.size() == 1288895);
}

TEST_CASE("a failure carries its exit code and the tail of its error output") {
  Captured captured;
  captured.run({"ls", "/nonexistent-path"});
  CHECK(captured.end->end.known);
  CHECK(captured.end->end.exit_code == 2);
  CHECK(captured.end->error_tail.find("nonexistent-path") != std::string::npos);
}

TEST_CASE("a command that does not end is ended at its deadline") {
  Captured captured;
  captured.run({"sleep", "60"}, 30ms);
  CHECK(captured.end->timed_out);
  CHECK(captured.end->end.signal == SIGKILL);
  CHECK(describe(captured.end->end) == "was ended by signal 9 (Killed)");
}

TEST_CASE("destroying it ends the process") {
  Captured captured;
  REQUIRE(captured.start({"sleep", "60"}).ok());
  captured.process.reset();
  const auto quiet = captured.loop.after(10ms, [&] { captured.loop.stop(); });
  captured.loop.run();
  CHECK_FALSE(captured.end.has_value());
}

TEST_CASE("a command that cannot start says so") {
  Captured captured;
  const auto started = captured.start({"no-such-program"});
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().message.find("no-such-program") != std::string::npos);
}

TEST_CASE("the last lines are whole and printable") {
  CHECK(last_lines("one\ntwo\nthree\n", 100) == "one\ntwo\nthree");
  CHECK(last_lines("one\ntwo\nthree\n", 8) == "three");
  CHECK(last_lines("a\x1b[31mred\n", 100) == "a?[31mred");
  CHECK(last_lines("", 10).empty());
  CHECK(last_lines_of_file("/nonexistent-file", 10).empty());
}
