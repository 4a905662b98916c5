// Names of nodes belong to the tokens that used them first, or whose lines name them: also after a restart, over real
// sockets.

#include "agents/node_names.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "../fake_agent.hpp"
#include "../kept_log.hpp"
#include "../token_list.hpp"
#include "coordinator/daemon.hpp"
#include "state_store.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using net::Role;

namespace {

// Agents' tokens of two tenants who both hand in jobs, and a coordinator that can be started anew.
struct Lab {
  TokenList list;
  KeptLog log;
  SystemClock clock;
  net::EventLoop loop;
  std::unique_ptr<Daemon> daemon;

  explicit Lab(const std::vector<std::string>& nodes_of_bob = {}) {
    list.add("bob", Role::kOperate, "bob");
    list.add("nas", Role::kAgent, "ana");
    give_bob(nodes_of_bob);
    start();
  }
  void give_bob(const std::vector<std::string>& nodes) {
    list.tokens.remove("nbs");
    REQUIRE(list.tokens.add({"nbs", Role::kAgent, "bob", nodes}, "tt_nbs").ok());
    list.write();
  }
  void start() {
    daemon.reset();
    Settings settings;
    settings.port = 0;
    settings.state_directory = list.directory / "state";
    settings.tokens = list.directory / "tokens";
    daemon = Daemon::start(loop, clock, settings).value();
  }
  [[nodiscard]] std::unique_ptr<FakeAgent> agent(const std::string& node, const std::string& token) {
    net::LinkOptions options;
    options.token = [token] { return "tt_" + token; };
    auto one = std::make_unique<FakeAgent>(loop, daemon->port(), node, token + " as " + node, options);
    one->start();
    REQUIRE(coordinator::run_until(loop, [&] { return one->welcomes > 0 || !one->refusals.empty(); }));
    return one;
  }
  // "", or why it is refused.
  std::string refusal(const std::string& node, const std::string& token) {
    const auto one = agent(node, token);
    return one->refusals.empty() ? "" : one->refusals.front();
  }
};

const std::function<bool(const std::string&)> kNobody = [](const std::string&) { return false; };

}  // namespace

TEST_CASE("after a coordinator's restart a node's name is its token's, whoever says hello first") {
  Lab one;
  REQUIRE(one.refusal("nb", "nbs").empty());
  one.start();
  CHECK_THAT(one.refusal("nb", "nas"),
             Contains("the node name nb is another token's, which used it first") && !Contains("nbs"));
  CHECK_THAT(one.log.text(), Contains("The name is the token's of nbs"));
  CHECK(one.refusal("nb", "nbs").empty());
  // Its removal gives its names to others, and so it stays.
  one.list.tokens.remove("nbs");
  one.list.write();
  one.daemon->reload();
  one.give_bob({});
  one.start();
  CHECK(one.refusal("nb", "nas").empty());
  CHECK_THAT(one.refusal("nb", "nbs"), Contains("is another token's"));
}

TEST_CASE("a node that a token's line names is that token's before it has ever come, and the token has no other") {
  Lab one({"nb", "nb-2"});
  CHECK_THAT(one.refusal("nb", "nas"), Contains("does not let the token of nas be node nb"));
  CHECK_THAT(one.refusal("nc", "nbs"), Contains("does not let the token of nbs be node nc"));
  CHECK(one.refusal("nc", "nas").empty());
  CHECK(one.refusal("nb-2", "nbs").empty());
}

TEST_CASE("an operator who names a node in a token's line takes it from whoever has it") {
  Lab one;
  const auto squatter = one.agent("nb", "nas");
  REQUIRE(squatter->welcomes == 1);
  CHECK_FALSE(one.refusal("nb", "nbs").empty());
  one.give_bob({"nb"});
  one.daemon->reload();
  REQUIRE(coordinator::run_until(one.loop, [&] { return !squatter->refusals.empty(); }));
  CHECK_THAT(squatter->refusals.front(), Contains("does not let the token of nas be node nb"));
  CHECK(one.refusal("nb", "nbs").empty());
  CHECK_THAT(one.log.text(), Contains("refused (revoked)"));
}

TEST_CASE("names are stored by token, and what cannot be stored is not taken") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  {
    auto store = StateStore::open(place.name("state"));
    REQUIRE(store.ok());
    REQUIRE(store->save_node_names("anas", {"n0", "n 1", "\xff"}).ok());
    REQUIRE(store->save_node_names("bobs", {"n2"}).ok());
    REQUIRE(store->save_node_names("bobs", {}).ok());
  }
  auto store = StateStore::open(place.name("state"));
  REQUIRE(store.ok());
  const auto stored = store->node_names();
  REQUIRE(stored.ok());
  CHECK(*stored == NodeNames::Stored{{"anas", {"n0", "n 1", "\xff"}}});
  NodeNames names(2);
  bool full = true;
  names.know(*stored, {}, [&](const std::string&, const std::vector<std::string>&) -> Status {
    return full ? unavailable("the disk is full") : Status();
  });
  CHECK_THAT(names.take("n2", "bobs", kNobody).error().message, Contains("the disk is full"));
  full = false;
  CHECK(names.take("n2", "anas", kNobody).ok());
}

TEST_CASE("names that are made up with a token take the place of one another, and of none that was there before") {
  constexpr std::size_t kMost = 2;
  NodeNames names(kMost);
  REQUIRE(names.take("away", "anas", kNobody).ok());
  // As many as may be there at once stay connected, the others are forgotten.
  std::vector<std::string> made_up;
  const auto is_member = [&](const std::string& node) {
    const auto latest = made_up.end() - static_cast<std::ptrdiff_t>(std::min(made_up.size(), kMost - 1));
    return std::find(latest, made_up.end(), node) != made_up.end();
  };
  for (std::size_t i = 0; i < 3 * kTimesRemembered * kMost; ++i) {
    const std::string name = "v" + std::to_string(i);
    REQUIRE(names.take(name, "anas", is_member).ok());
    made_up.push_back(name);
  }
  CHECK_THAT(names.take("away", "bobs", kNobody).error().message, Contains("is another token's"));
  CHECK(names.owner_of(made_up.back()) == "anas");
  const auto held = std::ranges::count_if(made_up, [&](const auto& one) { return names.owner_of(one) == "anas"; });
  CHECK(held == static_cast<std::ptrdiff_t>(kTimesRemembered * kMost - 1));
  // Nobody has those that it gave up.
  const auto given_up = std::ranges::find_if(made_up, [&](const auto& one) { return names.owner_of(one).empty(); });
  REQUIRE(given_up != made_up.end());
  CHECK(names.take(*given_up, "bobs", kNobody).ok());
}
