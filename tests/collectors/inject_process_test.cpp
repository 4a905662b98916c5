// Nothing happens where nothing is wanted: no agent, a wrong socket, TRIMTAB=0, programs that know nothing of us.

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "process_rig.hpp"

using namespace rig;

namespace {

using Environment = std::map<std::string, std::string>;

// Runs a program of many ranges that must end well and record nothing.
void runs_without_recording(Environment environment) {
  environment["TRIMTAB_LIBRARY"] = INJECT_LIBRARY;
  Program program(RANGES_PROGRAM, {"push:open", "repeat:10000", "threads:1000", "fork:child", "active", "dropped"},
                  environment);
  CHECK(program.read_line() == "active 0");
  CHECK(program.read_line() == "dropped 0");
  CHECK(program.wait() == 0);
}

}  // namespace

TEST_CASE("without a socket in the environment nothing happens") {
  runs_without_recording({});
  runs_without_recording({{"TRIMTAB_SOCKET", ""}});
}

TEST_CASE("TRIMTAB=0 switches everything off, agent or not") {
  TemporaryFolder folder;
  Agent agent(folder.file("agent.sock"));
  runs_without_recording({{"TRIMTAB", "0"}, {"TRIMTAB_SOCKET", folder.file("agent.sock")}});
  CHECK_FALSE(agent.somebody_waits());
}

TEST_CASE("a socket that nobody listens at is no trouble") {
  TemporaryFolder folder;
  runs_without_recording({{"TRIMTAB_SOCKET", folder.file("nobody.sock")}});
  { Agent gone(folder.file("stale.sock")); }
  runs_without_recording({{"TRIMTAB_SOCKET", folder.file("stale.sock")}});
}

TEST_CASE("a socket path that is no socket path is no trouble") {
  TemporaryFolder folder;
  const std::string file = folder.file("file");
  fclose(fopen(file.c_str(), "w"));
  for (const std::string& path :
       {std::string(5000, '/'), std::string(108, 'x'), std::string("/"), std::string("/proc/self/mem"), file,
        std::string("\xff\xfe%s%n"), std::string("/dev/zero")}) {
    runs_without_recording({{"TRIMTAB_SOCKET", path}});
  }
}

TEST_CASE("programs that know nothing of NVTX are not changed") {
  TemporaryFolder folder;
  Agent agent(folder.file("agent.sock"));
  const Environment environment{{"TRIMTAB_SOCKET", folder.file("agent.sock")},
                                {"NVTX_INJECTION64_PATH", INJECT_LIBRARY}};
  Program yes("/bin/true", {}, environment);
  CHECK(yes.wait() == 0);
  Program echo("/bin/echo", {"hello"}, environment);
  CHECK(echo.read_line() == "hello");
  CHECK(echo.wait() == 0);
  CHECK_FALSE(agent.somebody_waits());
}

TEST_CASE("an agent that never reads cannot hold the job up") {
  TemporaryFolder folder;
  Agent agent(folder.file("agent.sock"));  // accepts nobody
  Program program(RANGES_PROGRAM, {"repeat:1000000"},
                  {{"TRIMTAB_SOCKET", folder.file("agent.sock")}, {"TRIMTAB_LIBRARY", INJECT_LIBRARY}});
  CHECK(program.wait() == 0);
}
