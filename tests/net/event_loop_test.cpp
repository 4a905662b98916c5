#include "net/event_loop.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <optional>
#include <thread>

#include "loopback.hpp"

using namespace trimtab;
using namespace trimtab::net;

TEST_CASE("a cancelled or destroyed timer does not run") {
  EventLoop loop;
  int ran = 0;
  auto cancelled = loop.after(std::chrono::milliseconds(1), [&] { ++ran; });
  cancelled.cancel();
  {
    const auto destroyed = loop.after(std::chrono::milliseconds(1), [&] { ++ran; });
  }
  const auto end = loop.after(std::chrono::milliseconds(10), [&] { loop.stop(); });
  loop.run();
  CHECK(ran == 0);
}

TEST_CASE("a repeating timer may destroy itself in its own work") {
  EventLoop loop;
  int ran = 0;
  std::optional<EventLoop::Timer> timer;
  timer = loop.every(std::chrono::milliseconds(1), [&] {
    if (++ran == 3) timer.reset();
  });
  const auto end = loop.after(std::chrono::milliseconds(30), [&] { loop.stop(); });
  loop.run();
  CHECK(ran == 3);
}

TEST_CASE("what the loop's thread owns ends the process where another thread calls it while the loop runs") {
  const auto ends_by = [](bool beside) {
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);
      EventLoop loop;
      loop.post([&] {
        if (beside) std::thread([&] { loop.assert_on_loop(); }).join();
        loop.assert_on_loop();
        loop.stop();
      });
      loop.run();
      loop.assert_on_loop();
      std::thread([&] { loop.assert_on_loop(); }).join();  // it does not run any more
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  };
  CHECK(ends_by(false) == 0);
  CHECK(ends_by(true) == SIGABRT);
}

TEST_CASE("assigning to a timer keeps the old one's work from running") {
  EventLoop loop;
  int first = 0;
  int second = 0;
  auto timer = loop.after(std::chrono::milliseconds(1), [&] { ++first; });
  timer = loop.after(std::chrono::milliseconds(2), [&] { ++second; });
  CHECK(run_until(loop, [&] { return second == 1; }));
  CHECK(first == 0);
}

TEST_CASE("a watch calls again as long as its descriptor is readable, and not after its end") {
  EventLoop loop;
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  REQUIRE(::write(ends[1], "abc", 3) == 3);
  int calls = 0;
  {
    const auto watch = loop.when_readable(ends[0], [&] {
      char byte = 0;
      REQUIRE(::read(ends[0], &byte, 1) == 1);
      ++calls;
    });
    CHECK(run_until(loop, [&] { return calls == 3; }));
  }
  REQUIRE(::write(ends[1], "d", 1) == 1);
  const auto end = loop.after(std::chrono::milliseconds(5), [&] { loop.stop(); });
  loop.run();
  CHECK(calls == 3);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("signals arrive as calls on the loop") {
  EventLoop loop;
  int number = 0;
  loop.on_signals(false, [&](int signal) {
    number = signal;
    loop.stop();
  });
  loop.post([] { ::raise(SIGTERM); });
  loop.run();
  CHECK(number == SIGTERM);
}
