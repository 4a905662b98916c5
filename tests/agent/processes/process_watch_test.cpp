#include "processes/process_watch.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <optional>

#include "../run_loop.hpp"
#include "processes/process_identity.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

constexpr std::size_t kLarge = std::size_t(256) << 20;  // its pages are given back before the process is gone

[[noreturn]] void hold_much_memory(int told) {
  const pid_t pid = ::getpid();
  const bool held =
      ::mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) != MAP_FAILED;
  if (!held || ::write(told, &pid, sizeof pid) != sizeof pid) ::_exit(1);
  for (;;) ::pause();
}

struct Group {
  pid_t leader = 0;
  pid_t member = 0;  // has said that it has its memory
};

Group start_group() {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  Group group;
  group.leader = ::fork();
  if (group.leader == 0) {
    std::signal(SIGTERM, SIG_DFL);  // the test runner's handler is the parent's
    ::setpgid(0, 0);
    if (::fork() == 0) hold_much_memory(ends[1]);
    for (;;) ::pause();
  }
  REQUIRE(group.leader > 0);
  REQUIRE(::read(ends[0], &group.member, sizeof group.member) == sizeof group.member);
  ::close(ends[0]);
  ::close(ends[1]);
  return group;
}

bool is_gone(pid_t pid) {
  const auto stat = process_stat(pid);
  return !stat || stat->ended();
}

}  // namespace

TEST_CASE("a process has ended when what was killed of its group is gone, however long its memory takes") {
  const Group group = start_group();
  net::EventLoop loop;
  std::optional<ProcessEnd> end;
  bool gone = false;
  const auto watch = ProcessWatch::start(loop, group.leader, [&](const ProcessEnd& how) {
    gone = is_gone(group.member);
    end = how;
  });
  REQUIRE(watch.ok());
  ::kill(group.leader, SIGTERM);
  REQUIRE(run_until(loop, [&] { return end.has_value(); }));
  CHECK(gone);
  CHECK(end->known);
  CHECK(end->signal == SIGTERM);
  CHECK(::waitpid(group.leader, nullptr, WNOHANG) == -1);  // reaped
}
