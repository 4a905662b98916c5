#include "agents/wire_commands.hpp"

#include <catch2/catch.hpp>

#include "schema/database.hpp"
#include "state_store.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// The same database without its owner's rules.
Result<Database> raw(const std::string& name) {
  return Database::open(name, DatabaseMode::kReadWrite, state_migrations());
}

}  // namespace

TEST_CASE("the audit log keeps entries in order and gives them by job") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  auto store = StateStore::open(place.name("state"));
  REQUIRE(store.ok());
  REQUIRE(store->add_audit({"ana@login1", "freeze the job", "a", 1, "night"}, 5).ok());
  REQUIRE(store->add_audit({kCoordinatorActor, "hold the plan", "a", 1, "frozen"}, 6).ok());
  REQUIRE(store->add_audit({"node n0", "throw the kill switch", "", 0, ""}, 7).ok());
  const auto all = store->audit("", 0, 10);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 3);
  CHECK(all->at(0).audit.who == "ana@login1");
  CHECK(all->at(0).audit.why == "night");
  CHECK(all->at(0).at_ns == 5);
  CHECK(all->at(2).audit.what == "throw the kill switch");
  const auto later = store->audit("a", all->at(0).entry, 10);
  REQUIRE(later.ok());
  REQUIRE(later->size() == 1);
  CHECK(later->at(0).audit.what == "hold the plan");
}

TEST_CASE("who takes a job's name after another tenant reads no entry of theirs") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  auto store = StateStore::open(place.name("state"));
  REQUIRE(store.ok());
  REQUIRE(store->add_audit({"ana", "hand in a job", "gpt", 0, "", "research"}, 5).ok());
  REQUIRE(store->add_audit({kCoordinatorActor, "launch", "gpt", 1, "", "research"}, 6).ok());
  REQUIRE(store->add_audit({"chief", "stop the job", "gpt", 1, "old"}, 7).ok());  // of an earlier release
  REQUIRE(store->add_audit({"bob", "hand in a job", "gpt", 0, "", "bob"}, 8).ok());
  REQUIRE(store->add_audit({kCoordinatorActor, "launch", "gpt", 2, "", "bob"}, 9).ok());
  REQUIRE(store->add_audit({"chief", "freeze the job", "gpt", 2, "old"}, 10).ok());
  const auto read = [&](const std::optional<AuditReader>& reader) {
    std::vector<std::int64_t> times;
    const auto entries = store->audit("gpt", 0, 10, reader);
    REQUIRE(entries.ok());
    for (const StoredAudit& entry : *entries) times.push_back(entry.at_ns);
    return times;
  };
  CHECK(read(AuditReader{"bob", 2}) == std::vector<std::int64_t>{8, 9, 10});
  CHECK(read(AuditReader{"research", 1}) == std::vector<std::int64_t>{5, 6, 7});
  CHECK(read(std::nullopt).size() == 6);
}

TEST_CASE("entries of the audit log can be neither changed nor removed") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  const std::string name = place.name("state");
  {
    auto store = StateStore::open(name);
    REQUIRE(store.ok());
    REQUIRE(store->add_audit({"ana", "freeze the job", "a", 1, ""}, 5).ok());
  }
  {
    auto database = raw(name);
    REQUIRE(database.ok());
    CHECK_FALSE(database->execute("UPDATE audit SET who = 'bob'").ok());
    const Status removed = database->execute("DELETE FROM audit");
    REQUIRE_FALSE(removed.ok());
    CHECK(removed.error().message.find("only added to") != std::string::npos);
  }
  auto store = StateStore::open(name);
  REQUIRE(store.ok());
  const auto all = store->audit("", 0, 10);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 1);
  CHECK(all->at(0).audit.who == "ana");
}

TEST_CASE("what the coordinator does to ranks is audited, what it computes is not") {
  CHECK(audited(ProposePlan{4, "{}", false}) == "propose a plan as epoch 4");
  CHECK(audited(ProposePlan{5, "{}", true}) == "propose the incumbent as epoch 5");
  CHECK(audited(KillOn{"t", "n0", 7, ""}) == "end the ranks of launch 7 on n0");
  CHECK(audited(KillOn{"t", "n0", 7, "", true}) == "end the ranks of launch 7 on n0, which save nothing");
  LaunchOn launch;
  launch.node = "n1";
  launch.ranks = {2, 3};
  launch.launch = 7;
  launch.epoch = 9;
  launch.variant = "trial";
  CHECK(audited(launch) == "launch ranks 2 to 3 on n1 (launch 7, epoch 9, variant trial)");
  CHECK(audited(CountCosts{}).empty());
  CHECK(audited(SearchPlans{}).empty());
}
