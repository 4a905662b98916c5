// One tenant's jobs are nothing that another tenant is told by name.

#include "tenants.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "../agents_world.hpp"
#include "../observed_job.hpp"
#include "../token_list.hpp"
#include "api/api.hpp"
#include "schema/job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using nlohmann::json;

namespace {

constexpr const char* kSecret = "secret-merger-llama";

std::string submission(const Job& job) {
  return json{{"job", json::parse(to_json(job))}, {"tune", true}}.dump();
}

// A node of all tenants, which bob's job has, and ana's jobs, which wait for it.
struct Shared {
  World world;
  TokenList tokens;
  std::optional<Access> access;
  std::optional<Api> api;

  Shared() {
    tokens.add("bob", net::Role::kOperate, "bob");
    tokens.add("chief", net::Role::kOperate, net::kEveryTenant);
    access.emplace(tokens.access(false));
    api.emplace(world.services, world.jobs, *access, 1000);
    world.hello("n0", 1);
    CHECK(ask("tt_bob", "POST", "/v1/jobs", submission(job_of(kSecret, 1))).status == 201);
    CHECK(ask("tt_ana", "POST", "/v1/jobs", submission(job_of("hers", 1))).status == 201);
    CHECK(ask("tt_ana", "POST", "/v1/jobs", submission(job_of("also-hers", 2))).status == 201);
    world.jobs.tick();
    world.agents.tick();
  }
  net::HttpResponse ask(const std::string& token, const std::string& method, const std::string& path,
                        const std::string& body = "", const std::map<std::string, std::string>& query = {}) {
    net::HttpRequest request{method, path, query, body};
    request.token = token;
    if (auto turned_down = api->admit(request)) return *turned_down;
    return api->handle(request);
  }
  // Of every route, with what there may be in its path, its query and its body.
  std::string everything(const std::string& token) {
    std::string all;
    for (const auto& [method, path] : Api::routes()) {
      for (const char* id : {"hers", "1"}) {
        const auto hole = path.find("{id}");
        const std::string target = hole == std::string::npos ? path : std::string(path).replace(hole, 4, id);
        for (const std::string& body :
             {std::string(), std::string(R"({"seconds": 1})"), submission(job_of("more", 9))}) {
          all += ask(token, method, target, body).body + "\n";
        }
        all += ask(token, method, target, "", {{"job", id}, {"all", "1"}}).body + "\n";
      }
      world.jobs.tick();
    }
    return all;
  }
};

}  // namespace

TEST_CASE("no answer to one tenant names another's job") {
  Shared one;
  const std::string waits = one.world.jobs.find("hers")->waits_for();
  CHECK_THAT(waits, Contains("0 of 1 are free: others are of a job of another tenant"));
  CHECK_THAT(one.everything("tt_ana"), Contains("a job of another tenant") && !Contains(kSecret));
  CHECK_THAT(one.everything("tt_chief"), Contains(kSecret));
}

TEST_CASE("an agent of one tenant is told of no other's job") {
  Shared one;
  wire::FromAgent hello = test::hello_of("na", "of na", fingerprint_json());
  hello.mutable_hello()->set_tenant("ana");
  one.world.say(2, hello);
  one.world.jobs.tick();
  one.world.agents.tick();
  REQUIRE_FALSE(one.world.told[2].empty());
  for (const wire::ToAgent& to : one.world.told[2]) CHECK_THAT(to.SerializeAsString(), !Contains(kSecret));
}

TEST_CASE("a job that is stored without room is told to its own tenant alone") {
  Shared one;
  one.world.services.settings.budgets.memory = 1;
  JobTable again(one.world.services.for_jobs);
  REQUIRE(again.restore().ok());
  REQUIRE(again.unloaded().contains(kSecret));
  const auto hers = again.submit(job_of(kSecret, 1), true, "ana");
  REQUIRE_FALSE(hers.ok());
  CHECK_THAT(hers.error().message, Contains("is taken by another tenant") && !Contains("bob"));
}

TEST_CASE("jobs are told by name to their tenant, and by number to others") {
  const std::vector<OwnedJob> jobs = {{"b", "ana"}, {"x", "bob"}, {"a", "ana"}, {"y", "cho"}};
  CHECK(told_jobs(jobs, "ana") == "a, b and 2 jobs of other tenants");
  CHECK(told_jobs(jobs, "bob") == "x and 3 jobs of other tenants");
  CHECK(told_jobs(jobs, "eve") == "4 jobs of other tenants");
  CHECK(told_jobs(jobs, net::kEveryTenant) == "a, b, x, y");
  CHECK(told_jobs({{"x", "bob"}}, "ana") == "a job of another tenant");
}
