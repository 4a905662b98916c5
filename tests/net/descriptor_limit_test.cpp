#include "net/daemon.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace trimtab::net;

TEST_CASE("the limit of descriptors goes up to what is wanted, as far as the hard one lets it, and never down") {
  // In a process apart: the hard limit that it lowers stays low.
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{64, 128};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(1);
    if (allow_descriptors(32) != 64) ::_exit(2);
    if (allow_descriptors(100) != 100) ::_exit(3);
    if (allow_descriptors(kAllDescriptors) != 128) ::_exit(4);
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    ::_exit(now.rlim_cur == 128 && now.rlim_max == 128 ? 0 : 5);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
