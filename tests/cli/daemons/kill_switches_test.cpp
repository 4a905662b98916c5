#include "verbs/kill_switch.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "loopback.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using Catch::Contains;

namespace {

constexpr uid_t kAna = 4242;
constexpr uid_t kBob = 4243;

struct Machine {
  net::TemporaryDirectory directory;
  AgentState state(const std::string& name, uid_t owner = kAna) const {
    std::filesystem::create_directories(directory / name);
    return {directory / name, owner};
  }
  // Of one that was removed meanwhile, so that nobody can do anything there.
  AgentState gone(uid_t owner) const { return {directory / "gone", owner}; }
};

}  // namespace

TEST_CASE("an order reaches every switch, and does not mind one that is as it should be") {
  const Machine machine;
  const std::vector<AgentState> states{machine.state("a"), machine.state("b")};
  std::ofstream(machine.directory / "a/kill-switch") << "by hand";
  for (int i = 0; i < 2; ++i) {
    const auto thrown = order_kill_switches(KillSwitchOrder::kThrow, states, kAna);
    REQUIRE(thrown.size() == 2);
    for (const KillSwitch& one : thrown) CHECK(one.thrown == true);
    CHECK(thrown[1].file == machine.directory / "b/kill-switch");
    CHECK(std::filesystem::exists(thrown[1].file));
    CHECK(order_outcome(thrown).ok());
  }
  CHECK(order_kill_switches(KillSwitchOrder::kShow, states, kAna)[1].thrown == true);
  for (int i = 0; i < 2; ++i) {
    for (const KillSwitch& one : order_kill_switches(KillSwitchOrder::kRelease, states, kAna))
      CHECK(one.thrown == false);
  }
  CHECK_FALSE(std::filesystem::exists(machine.directory / "a/kill-switch"));
}

TEST_CASE("nothing is written through a link that stands in a switch's place") {
  const Machine machine;
  const AgentState state = machine.state("a");
  std::filesystem::create_symlink(machine.directory / "elsewhere", state.directory + "/kill-switch");
  CHECK(order_kill_switches(KillSwitchOrder::kThrow, {state}, 0)[0].thrown == true);
  CHECK_FALSE(std::filesystem::exists(machine.directory / "elsewhere"));
}

TEST_CASE("what is another user's and cannot be reached is left alone and named, and the others are done") {
  const Machine machine;
  const auto kill_switches =
      order_kill_switches(KillSwitchOrder::kThrow, {machine.gone(kBob), machine.state("a")}, kAna);
  CHECK_FALSE(kill_switches[0].thrown.has_value());
  CHECK(kill_switches[0].left_alone);
  CHECK_THAT(kill_switches[0].why, Contains("user 4243") && Contains("cannot be made"));
  CHECK(kill_switches[1].thrown == true);
  CHECK(order_outcome(kill_switches).ok());
}

TEST_CASE("where root fails, or the caller at one of his own, all others are done and it is an error") {
  const Machine machine;
  const std::vector<AgentState> states{machine.gone(kAna), machine.state("a")};
  for (const uid_t caller : {uid_t{0}, kAna}) {
    std::filesystem::remove(machine.directory / "a/kill-switch");
    const auto kill_switches = order_kill_switches(KillSwitchOrder::kThrow, states, caller);
    CHECK_FALSE(kill_switches[0].left_alone);
    CHECK(kill_switches[1].thrown == true);
    const Status outcome = order_outcome(kill_switches);
    REQUIRE_FALSE(outcome.ok());
    CHECK(outcome.error().kind == ErrorKind::kUnavailable);
    CHECK_THAT(outcome.error().message, Contains(machine.directory / "gone/kill-switch"));
    CHECK(outcome.error().message.find(machine.directory / "a/kill-switch") == std::string::npos);
  }
}

TEST_CASE("an order that reached nobody is an error that names whom it left alone") {
  const Machine machine;
  const AgentState hidden{"/tmp/trimtab-7-n0.x", kBob, "it has it where this user finds nothing"};
  const auto kill_switches = order_kill_switches(KillSwitchOrder::kThrow, {hidden}, kAna);
  CHECK(kill_switches[0].left_alone);
  const Status outcome = order_outcome(kill_switches);
  REQUIRE_FALSE(outcome.ok());
  CHECK_THAT(outcome.error().message, Contains("/tmp/trimtab-7-n0.x/kill-switch") && Contains("--agent-state"));
  CHECK_FALSE(order_kill_switches(KillSwitchOrder::kShow, {hidden}, kAna)[0].thrown.has_value());
}
