#include "daemons/up_state.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "daemons/embedded.hpp"
#include "jobs/coordinator_client.hpp"

using namespace trimtab::cli;

TEST_CASE("up.json comes back as it was written") {
  const UpState state{7431,
                      2,
                      {9, 999},
                      {{"coordinator", {10, 1000}, "/s/coordinator.log", {"/bin/trimtab-coordinator", "--state", "/s"}},
                       {"agent n0", {11, 1001}, "/s/n0.log", {}}}};
  const auto read = parse_up_state(to_json(state), "up.json");
  REQUIRE(read.ok());
  CHECK(read->port == 7431);
  CHECK(read->devices == 2);
  CHECK(read->owner == ProcessIdentity{9, 999});
  REQUIRE(read->processes.size() == 2);
  CHECK(read->processes[1].name == "agent n0");
  CHECK(read->processes[1].identity == ProcessIdentity{11, 1001});
  CHECK(read->processes[0].command == state.processes[0].command);
}

TEST_CASE("half a file, another release's or somebody else's is refused") {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"schema":"trimtab.up/2"})", R"({"schema":"trimtab.up/1","port":"x"})"}) {
    INFO(text);
    CHECK_FALSE(parse_up_state(text, "up.json").ok());
  }
}

TEST_CASE("a coordinator's address is a host and a port, or a port alone") {
  CHECK(parse_address("10.0.0.1:8000")->host == "10.0.0.1");
  CHECK(parse_address("10.0.0.1:8000")->port == 8000);
  CHECK(parse_address("8000")->host == "127.0.0.1");
  CHECK(parse_address("[::1]:8000")->host == "::1");
  for (const char* text : {"", ":", "host:", ":7420", "host:0", "host:70000", "host:74x"}) {
    INFO(text);
    CHECK_FALSE(parse_address(text).ok());
  }
}

TEST_CASE("a job's name cannot reach another path of the API") {
  CHECK(job_target("gpt-cpu_1.0", "/stop") == "/v1/jobs/gpt-cpu_1.0/stop");
  CHECK(job_target("../x?y#z") == "/v1/jobs/..%2Fx%3Fy%23z");
}

TEST_CASE("a socket's path fits its address however long the state directory's is") {
  CHECK(agent_socket("/s", 0) == "/s/agents/n0/agent.sock");
  const std::string longest(200, 'd');
  CHECK(agent_socket("/" + longest, 3).size() < 108);
  CHECK(agent_socket("/" + longest, 3) != agent_socket("/" + longest, 4));
  CHECK(agent_socket("/" + longest, 3) != agent_socket("/x" + longest, 3));
}
