#include "processes/process_identity.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

using namespace trimtab::agent;

TEST_CASE("a process may have any name") {
  const auto stat = parse_process_stat("42 (a ) R (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2");
  REQUIRE(stat);
  CHECK(stat->state == 'S');
  CHECK(stat->parent == 7);
  CHECK(stat->group == 42);
  CHECK(stat->start_time == 987654);
}

TEST_CASE("text that is no stat is nothing") {
  CHECK_FALSE(parse_process_stat(""));
  CHECK_FALSE(parse_process_stat("42 (x) S 1"));
}

TEST_CASE("this process is alive under its own start time only") {
  const auto stat = process_stat(::getpid());
  REQUIRE(stat);
  CHECK(is_alive(::getpid(), stat->start_time));
  CHECK_FALSE(is_alive(::getpid(), stat->start_time + 1));
  CHECK_FALSE(process_stat(0));
  CHECK_FALSE(process_stat(-1));
}

TEST_CASE("a process belongs to itself and its ancestors, not to others") {
  CHECK(belongs_to(::getpid(), ::getpid()));
  CHECK(belongs_to(::getpid(), ::getppid()));
  CHECK_FALSE(belongs_to(::getppid(), ::getpid()));
  CHECK_FALSE(belongs_to(1, ::getpid()));
}

TEST_CASE("a process's group has members whatever their parents, without the one that leads it") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t leader = ::fork();
  if (leader == 0) {
    ::setpgid(0, 0);
    const pid_t member = ::fork();
    if (member > 0 && ::write(ends[1], &member, sizeof member) != sizeof member) ::_exit(1);
    ::pause();
  }
  REQUIRE(leader > 0);
  pid_t member = 0;
  REQUIRE(::read(ends[0], &member, sizeof member) == sizeof member);
  CHECK(group_members(leader) == std::vector<pid_t>{member});
  ::kill(-leader, SIGKILL);
  ::waitpid(leader, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}
