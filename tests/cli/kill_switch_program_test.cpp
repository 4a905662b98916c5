// The verb as people call it. Always with a directory: without one it would reach other agents of this machine.

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.hpp"

using Catch::Contains;
using nlohmann::json;

TEST_CASE("kill-switch throws, shows and releases the switch of every agent of an 'up'") {
  const Scratch scratch;
  for (const char* agent : {"agents/n0", "agents/n1"}) std::filesystem::create_directories(scratch.path(agent));
  const auto said = [&](const char* order) {
    const Outcome outcome = trimtab_program({"kill-switch", order, "--state", scratch.path(""), "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return json::parse(outcome.out).at("switches");
  };
  const json thrown = said("throw");
  REQUIRE(thrown.size() == 2);
  CHECK_THAT(thrown[0].at("file").get<std::string>(), Contains("agents/n0/kill-switch"));
  for (const json& one : thrown) CHECK(one.at("thrown") == true);
  CHECK(std::filesystem::exists(scratch.path("agents/n1/kill-switch")));
  CHECK(said("show")[1].at("thrown") == true);
  CHECK(said("release")[1].at("thrown") == false);
  CHECK_FALSE(std::filesystem::exists(scratch.path("agents/n1/kill-switch")));
}

TEST_CASE("kill-switch reaches one agent alone by its state") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path("one"));
  const Outcome outcome = trimtab_program({"kill-switch", "throw", "--agent-state", scratch.path("one")});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == scratch.path("one/kill-switch") + ": thrown\n");
}

TEST_CASE("kill-switch says where it found no agent, and which one it could not reach") {
  const Scratch scratch;
  const Outcome none = trimtab_program({"kill-switch", "throw", "--state", scratch.path("none")});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains(scratch.path("none/agents")) && Contains("--agent-state DIR"));

  std::filesystem::create_directories(scratch.path("agents/n0"));
  // A switch that a person cannot take away as a file.
  std::filesystem::create_directories(scratch.path("agents/n1/kill-switch/full"));
  const Outcome failed = trimtab_program({"kill-switch", "release", "--state", scratch.path(""), "--json"});
  CHECK(failed.exit_code == 3);
  CHECK_THAT(failed.err, Contains("agents/n1/kill-switch: cannot be removed"));
  const json switches = json::parse(failed.out).at("switches");
  CHECK(switches[0].at("thrown") == false);
  CHECK(switches[1].at("thrown").is_null());
  CHECK_THAT(switches[1].at("why").get<std::string>(), Contains("cannot be removed"));
}
