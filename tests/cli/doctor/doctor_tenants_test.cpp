#include "doctor/tenants.hpp"

#include <catch2/catch.hpp>

#include "doctor/daemons.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using Catch::Contains;
using net::Role;

namespace {

net::Tokens tokens_of(const std::vector<net::TokenOwner>& owners) {
  net::Tokens tokens;
  for (const net::TokenOwner& owner : owners) REQUIRE(tokens.add(owner, "tt_" + owner.name).ok());
  return tokens;
}

const std::vector<net::TokenOwner> kOne{{"ana", Role::kOperate, "ana"}, {"wall", Role::kView, "*"}};
const std::vector<net::TokenOwner> kTwo{{"ana", Role::kOperate, "ana"},
                                        {"bob", Role::kOperate, "bob"},
                                        {"n0", Role::kAgent, "n0"},
                                        {"n1", Role::kAgent, "ana"}};

// All that is found, in one text; "" where nothing is.
std::string found(const NodeTenant& node, const std::vector<net::TokenOwner>& owners, bool under_tls) {
  std::string text;
  for (const Check& one : tenant_checks(node, tokens_of(owners), under_tls)) {
    CHECK(one.health != Health::kOk);
    CHECK_FALSE(one.remedy.empty());
    text += one.found + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("doctor finds a node that the coordinator would refuse for its tenant") {
  CHECK_THAT(found({"bob", "ana"}, kOne, true), Contains("jobs of bob") && Contains("for those of ana"));
  CHECK_THAT(found({"*", "ana"}, kTwo, true), Contains("jobs of everybody"));
  CHECK_THAT(found({"ana", std::nullopt}, kTwo, true), Contains("this node's certificate names none"));
  CHECK_THAT(found({"", "*"}, kTwo, true), Contains("agent.toml does not say whose"));
  CHECK_THAT(found({"", std::nullopt}, kTwo, false), Contains("agent.toml does not say whose") &&
                                                         Contains("token n0 is for jobs of tenant n0") &&
                                                         !Contains("token n1"));
}

TEST_CASE("doctor has nothing to say of tenants where nothing is wrong, or where there is one alone") {
  for (const bool under_tls : {false, true}) {
    CHECK(found({"", std::nullopt}, kOne, under_tls).empty());
    CHECK(found({"*", std::nullopt}, kOne, under_tls).empty());
  }
  for (const NodeTenant& node :
       {NodeTenant{"", "ana"}, NodeTenant{"ana", "ana"}, NodeTenant{"*", "*"}, NodeTenant{"bob", "*"}}) {
    CHECK(found(node, kTwo, true).empty());
  }
  CHECK(tenant_checks(NodeTenant{}, std::nullopt, false).empty());
  CHECK(tenant_checks(std::nullopt, std::nullopt, false).empty());
  CHECK(tenant_checks(std::string("/nowhere")).empty());
}

TEST_CASE("doctor says when nodes are turned away because nothing shows whose they are") {
  const auto page = [](int refused) {
    return parse_metric_page("trimtab_nodes{state=\"connected\"} 1\ntrimtab_refused_total{reason=\"node\"} " +
                             std::to_string(refused) + "\n");
  };
  const auto checks = coordinator_checks(page(2), EarlierPage{page(1), std::chrono::seconds(5)});
  REQUIRE(checks.size() == 1);
  CHECK(checks[0].name == "coordinator: tenants");
  CHECK(checks[0].health == Health::kWarn);
  CHECK_THAT(checks[0].found, Contains("2 times"));
  CHECK(overall(coordinator_checks(page(2))) == Health::kOk);
}

TEST_CASE("doctor's remedies for tenants are commands that can be run as they stand") {
  const auto remedy = [](const NodeTenant& node, const std::vector<net::TokenOwner>& owners, bool under_tls) {
    const auto checks = tenant_checks(node, tokens_of(owners), under_tls, "/etc/trimtab/tokens");
    REQUIRE(checks.size() == 1);
    return checks[0].remedy;
  };
  CHECK_THAT(remedy({"bob", "ana", "n7"}, kTwo, true),
             Contains("'trimtab cert issue node n7 --tenant bob --dir CA_DIRECTORY --out n7'"));
  CHECK_THAT(remedy({"*", "ana", "n7"}, kTwo, true), Contains("issue node n7 --tenant \"*\" --dir"));
  CHECK_THAT(remedy({"ana", std::nullopt, "n7"}, kTwo, true),
             Contains("'trimtab cert issue node n7 --tenant TENANT --dir CA_DIRECTORY --out n7'"));
  CHECK_THAT(remedy({"ana", std::nullopt, "n7"}, kTwo, false),
             Contains("'trimtab token remove n0 --tokens /etc/trimtab/tokens'") &&
                 Contains("'trimtab token add n0 --role agent --tenant TENANT --tokens /etc/trimtab/tokens'"));
}
