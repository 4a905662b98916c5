#include "ranks/plan_relay.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace trimtab::agent;

namespace {

std::vector<std::string> types(const std::vector<std::string>& frames) {
  std::vector<std::string> all;
  for (const auto& frame : frames) {
    const auto json = nlohmann::json::parse(frame);
    all.push_back(json["type"].get<std::string>() + (json.contains("epoch") ? " " + json["epoch"].dump() : ""));
  }
  return all;
}

using Types = std::vector<std::string>;

}  // namespace

TEST_CASE("a rank that comes back is told the proposal and the commit it may have missed") {
  PlanRelay relay;
  relay.propose("j", 4, "{}", false);
  CHECK(types(relay.missed("j", 3)) == Types{"plan_propose 4"});
  relay.commit("j", 4, 15);
  CHECK(types(relay.missed("j", 3)) == Types{"plan_propose 4", "plan_commit 4"});
}

TEST_CASE("what the job's target reads of a plan is told again with it, also of the plan that runs") {
  PlanRelay relay;
  relay.propose("j", 4, "{}", true, R"({"kind":"ddp"})");
  for (const std::uint64_t epoch : {3, 4}) {
    const auto missed = relay.missed("j", epoch);
    REQUIRE(missed.size() == 1);
    CHECK(nlohmann::json::parse(missed.front())["target_config"]["kind"] == "ddp");
  }
}

TEST_CASE("a rank that runs the plan already is not told of it") {
  PlanRelay relay;
  relay.propose("j", 4, "{}", false);
  relay.commit("j", 4, 15);
  CHECK(relay.missed("j", 4).empty());
  CHECK(relay.missed("other", 0).empty());
}

TEST_CASE("a cancelled proposal is cancelled again, not proposed again") {
  PlanRelay relay;
  relay.propose("j", 4, "{}", false);
  relay.commit("j", 4, 15);
  relay.cancel("j", 4);
  relay.propose("j", 5, "{}", false);
  CHECK(types(relay.missed("j", 3)) == Types{"plan_cancel 4", "plan_propose 5"});
}

TEST_CASE("a stop is told again until the next launch") {
  PlanRelay relay;
  relay.stop("j", 40);
  CHECK(types(relay.missed("j", 3)) == Types{"stop"});
  relay.forget("j");
  CHECK(relay.missed("j", 3).empty());
}

TEST_CASE("only the latest few proposals are kept") {
  PlanRelay relay;
  for (std::uint64_t epoch = 1; epoch <= 100; ++epoch) relay.propose("j", epoch, "{}", false);
  CHECK(relay.missed("j", 0).size() < 20);
  CHECK(relay.plan("j", 1) == nullptr);
  CHECK(relay.plan("j", 100) != nullptr);
}

TEST_CASE("a proposal of the running plan keeps its commit and says that it is the incumbent now") {
  PlanRelay relay;
  relay.propose("j", 4, "{}", false);
  relay.commit("j", 4, 15);
  relay.propose("j", 4, "{}", true);
  CHECK(types(relay.missed("j", 3)) == Types{"plan_propose 4", "plan_commit 4"});
  CHECK(nlohmann::json::parse(relay.missed("j", 4).at(0))["incumbent"] == true);
}

TEST_CASE("a thrown kill switch takes trials' plans back and leaves incumbents") {
  PlanRelay relay;
  relay.propose("j", 4, "{}", false);
  relay.commit("j", 4, 15);
  relay.propose("j", 5, "{}", true);
  relay.propose("other", 2, "{}", false);
  const auto cancelled = relay.cancel_trials();
  CHECK(types(cancelled.at("j")) == Types{"plan_cancel 4"});
  CHECK(types(cancelled.at("other")) == Types{"plan_cancel 2"});
  CHECK(types(relay.missed("j", 3)) == Types{"plan_cancel 4", "plan_propose 5"});
  CHECK(relay.cancel_trials().empty());
}

TEST_CASE("of jobs that are over nothing is remembered") {
  PlanRelay relay;
  relay.propose("over", 4, "{}", false);
  relay.propose("waits", 4, "{}", false);
  relay.forget_all_but([](const std::string& job) { return job == "waits"; });
  CHECK(relay.plan("over", 4) == nullptr);
  CHECK(relay.plan("waits", 4) != nullptr);
}
