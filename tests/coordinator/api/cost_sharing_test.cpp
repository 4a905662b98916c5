// Costs between teams: who may read and contribute them, what is refused, and that they price nothing which the cluster
// has measured itself.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../net/loopback.hpp"
#include "../agents_world.hpp"
#include "../token_list.hpp"
#include "api/answer_worker.hpp"
#include "api/api.hpp"
#include "schema/sharing/contributed_source.hpp"
#include "tuner/cost_choice.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using nlohmann::json;

namespace {

struct SharingTokens : TokenList {
  SharingTokens() {
    add("eva", net::Role::kCosts, net::kEveryTenant);
    add("mel", net::Role::kCosts, "mel");
    add("chief", net::Role::kOperate, net::kEveryTenant);
  }
};

struct Sharing : World {
  SharingTokens list;
  Access access = list.access(false);
  Api api{services, jobs, access, 100'000};

  net::HttpResponse ask(const std::string& who, const std::string& method, const std::string& path,
                        const std::string& body = "") {
    net::HttpRequest request{method, path, {}, body, "tt_" + who, "127.0.0.1:1"};
    if (auto denied = api.admit(request)) return *denied;
    return api.handle(request);
  }
  json push(const json& batches, const std::string& who = "eva") {
    const net::HttpResponse answer = ask(who, "POST", "/v1/costs", json{{"batches", batches}}.dump());
    INFO(answer.body);
    REQUIRE(answer.status == 200);
    return json::parse(answer.body);
  }
  [[nodiscard]] std::size_t stored() const { return costs.rows().value().size(); }
};

json cost(const std::string& subject, const std::string& statistics = "") {
  Statistics values;
  values.add(1000);
  return {{"key",
           {{"kind", "operator_forward"},
            {"subject", subject},
            {"dtype", "float32"},
            {"samples", 1},
            {"tp", 1},
            {"sharding", "default"}}},
          {"statistics", statistics.empty() ? values.encode() : statistics}};
}

json batch(const std::vector<json>& costs, const std::string& source = "benchmark",
           const std::string& origin = "theirs") {
  return {{"origin", origin}, {"fingerprint", {{"device", {{"cpu", "x"}}}}}, {"source", source}, {"costs", costs}};
}

// The one reason of an answer in which nothing was stored.
std::string reason(const json& answer) {
  CHECK(answer.at("new") == 0);
  REQUIRE(answer.at("refused").size() == 1);
  return answer.at("refused")[0].at("reason");
}

}  // namespace

TEST_CASE("the role costs reads and contributes costs, and nothing else") {
  Sharing one;
  const std::string push = json{{"batches", json::array({batch({cost("a")})})}}.dump();
  CHECK(one.ask("eva", "POST", "/v1/costs", push).status == 200);
  CHECK(one.ask("chief", "POST", "/v1/costs", push).status == 200);
  const net::HttpResponse viewer = one.ask("wall", "POST", "/v1/costs", push);
  CHECK(viewer.status == 403);
  CHECK_THAT(viewer.body, Contains("this needs the role operate or costs, but wall has the role view"));
  CHECK(one.ask("mel", "POST", "/v1/costs", push).status == 403);  // costs are of no tenant
  CHECK(one.ask("ana", "POST", "/v1/costs", push).status == 403);
  CHECK(one.ask("nobody", "POST", "/v1/costs", push).status == 401);
  for (const char* path : {"/v1/costs", "/v1/costs/parts"}) {
    INFO(path);
    for (const char* who : {"eva", "wall", "chief"}) CHECK(one.ask(who, "GET", path).status == 200);
    for (const char* who : {"mel", "ana", "agent"}) CHECK(one.ask(who, "GET", path).status == 403);
  }
  for (const char* path : {"/v1/status", "/v1/jobs", "/v1/nodes", "/v1/audit", "/metrics", "/v1/jobs/x/report"}) {
    INFO(path);
    CHECK(one.ask("eva", "GET", path).status == 403);
  }
  for (const char* path : {"/v1/jobs", "/v1/profile", "/v1/jobs/x/stop", "/v1/costs/remove"}) {
    INFO(path);
    CHECK(one.ask("eva", "POST", path, "{}").status == 403);
  }
  net::HttpRequest agent{"GET", "/v1/agent", {}, "", "tt_eva", "127.0.0.1:1"};
  agent.upgrade = true;
  CHECK(one.api.admit(agent).has_value());
}

TEST_CASE("the coordinator says who contributes, and what is pushed again is equal") {
  Sharing one;
  const json batches = json::array({batch({cost("a"), cost("b")}), batch({cost("a")}, "training alone host-clock")});
  const json first = one.push(batches);
  CHECK(first.at("contributor") == "eva");
  CHECK(first.at("new") == 3);
  CHECK(one.push(batches).at("equal") == 3);
  CHECK(one.push(batches, "chief").at("new") == 3);  // another's do not meet hers
  const std::vector<CostRow> rows = one.costs.rows().value();
  for (const CostRow& row : rows) {
    const auto who = contributor_of(row.cost.source);
    CHECK((who == "eva" || who == "chief"));
  }
  // What the cluster has itself comes back to it.
  REQUIRE(one.costs.add_batch({"agent0", 1}, Fingerprint{}, "benchmark", {Cost{}}).ok());
  CHECK(one.push(json::array({batch({cost("c")}, "benchmark", "agent0")})).at("own") == 1);
}

TEST_CASE("what a hostile contributor sends is refused with the reason, and what is stored stays") {
  Sharing one;
  one.push(json::array({batch({cost("a")})}));
  const auto refused = [&](const json& costs, const std::string& source = "benchmark") {
    return reason(one.push(json::array({batch(json::array({costs}), source)})));
  };
  for (const char* statistics :
       {"nan", "1;1;1e300;1;1;1;0:1", "1;1;-5;25;-5;-5;0:1", "1;1;1000;1000000;1000;2000;0:1"}) {
    INFO(statistics);
    CHECK_THAT(refused(cost("x", statistics)), Contains("statistics"));
  }
  CHECK_THAT(refused(cost("x", std::string(9000, '1'))), Contains("at most 8192 bytes"));
  CHECK_THAT(refused(cost(std::string(5000, 'x'))), Contains("at most 2048 bytes"));
  json key = cost("x");
  for (const json& bad : {json(-1), json(1e300), json("two")}) {
    key["key"]["samples"] = bad;
    CHECK_THAT(refused(key), Contains("samples"));
  }
  CHECK_THAT(refused(cost("x"), "import:contributor/bob/benchmark"), Contains("contributor \"bob\"'s"));
  CHECK_THAT(refused(cost("x"), "estimated"), Contains("estimates"));
  json wrong = batch({cost("x")});
  wrong["fingerprint"] = {{"device", "none"}};
  CHECK_THAT(reason(one.push(json::array({wrong}))), Contains("fingerprint"));
  wrong["fingerprint"] = {{"device", {{"cpu", std::string(70'000, 'x')}}}};
  CHECK_THAT(reason(one.push(json::array({wrong}))), Contains("at most 65536 bytes"));
  // Beside what is refused the rest is stored.
  const json mixed = one.push(json::array({batch({cost("x", "nan"), cost("good")})}));
  CHECK(mixed.at("new") == 1);
  CHECK(mixed.at("refused").size() == 1);
  // Of many reasons some are told.
  json many = json::array();
  for (int i = 0; i < 100; ++i) many.push_back(cost("x", std::string(9000 + i, '1')));
  CHECK(one.push(json::array({batch(many)})).at("refused").size() <= 17);
  CHECK(one.stored() == 2);
}

TEST_CASE("a push is bounded, and one that is no document changes nothing") {
  Sharing one;
  json many = json::array();
  for (int i = 0; i < 1001; ++i) many.push_back(cost("x" + std::to_string(i)));
  const auto status = [&](const std::string& body) { return one.ask("eva", "POST", "/v1/costs", body).status; };
  CHECK(status(json{{"batches", json::array({batch(many)})}}.dump()) == 400);
  CHECK(status(std::string((1 << 20) + 1, ' ')) == 413);
  for (const char* body :
       {"", "{}", "[]", "nonsense", "{\"batches\": 5}", "{\"batches\": [5]}", "{\"batches\": [{}]}"}) {
    INFO(body);
    CHECK(status(body) == 400);
  }
  CHECK(status(json{{"batches", json::array({batch({cost("a")}, "benchmark", "")})}}.dump()) == 400);
  CHECK(status(json{{"batches", json::array({batch({cost("a")}, "benchmark", "/contributed/bob/x")})}}.dump()) == 400);
  CHECK(one.stored() == 0);
}

TEST_CASE("a push is read off the loop and stored on it") {
  Sharing one;
  AnswerWorker worker(one.loop);
  one.services.answers = &worker;
  net::HttpResponse answer =
      one.ask("eva", "POST", "/v1/costs", json{{"batches", json::array({batch({cost("a")})})}}.dump());
  REQUIRE(answer.later);
  CHECK(one.stored() == 0);
  std::optional<net::HttpResponse> made;
  answer.later([&](net::HttpResponse response) { made = std::move(response); });
  REQUIRE(net::run_until(one.loop, [&] { return made.has_value(); }));
  CHECK(made->status == 200);
  CHECK(one.stored() == 1);
  one.services.answers = nullptr;
}

TEST_CASE("a contributor's costs are removed by who may operate for all, and the audit log says so") {
  Sharing one;
  one.push(json::array({batch({cost("a"), cost("b")})}));
  one.push(json::array({batch({cost("a")})}), "chief");
  const std::string wanted = json{{"contributor", "eva"}}.dump();
  CHECK(one.ask("wall", "POST", "/v1/costs/remove", wanted).status == 403);
  CHECK(one.ask("ana", "POST", "/v1/costs/remove", wanted).status == 403);
  CHECK(one.ask("chief", "POST", "/v1/costs/remove", "{}").status == 400);
  CHECK(one.ask("chief", "POST", "/v1/costs/remove", json{{"contributor", "a b"}}.dump()).status == 400);
  CHECK(one.stored() == 3);
  const net::HttpResponse removed = one.ask("chief", "POST", "/v1/costs/remove", wanted);
  REQUIRE(removed.status == 200);
  CHECK(json::parse(removed.body) == json{{"removed", 2}, {"all", true}});
  CHECK(one.stored() == 1);
  const auto audit = one.store.audit("", 0, 10).value();
  REQUIRE(audit.size() == 1);
  CHECK(audit[0].audit.who == "chief");
  CHECK(audit[0].audit.what == "remove costs of contributor eva");
}

TEST_CASE("contributed costs price what nobody here has measured, and nothing else") {
  Sharing one;
  Statistics slow;
  for (int i = 0; i < 50; ++i) slow.add(9000);
  one.push(json::array({batch({cost("a", slow.encode()), cost("b", slow.encode())})}));
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = "x";
  CostKey key;
  key.kind = CostKind::kOperatorForward;
  key.subject = "a";
  key.dtype = "float32";
  key.samples = 1;
  Statistics own;
  own.add(1000);
  // Even what ranks next to last of the cluster's own stands before it.
  REQUIRE(one.costs.add_batch({"agent0", 1}, fingerprint, "training host-clock waiting", {{key, own}}).ok());
  const auto chosen = tuner::choose_costs(one.costs.costs(hash(fingerprint)).value());
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].statistics == own);
  CHECK(chosen[0].source.kind == CostSource::Kind::kTraining);
  CHECK_FALSE(tuner::is_known(chosen[0]));
  CHECK(chosen[1].statistics == slow);
  CHECK(tuner::rests_on(chosen[1]) == "contributed by eva (benchmark)");
  CHECK(tuner::is_known(chosen[1]));
}
