// Agents that serve one tenant alone, and the jobs of several.

#include <algorithm>
#include <catch2/catch.hpp>

#include "agents_world.hpp"
#include "job_documents.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

struct Tenants : World {
  void come(const std::string& node, std::uint64_t peer, const std::string& tenant) {
    wire::FromAgent hello = test::hello_of(node, "of " + node, fingerprint_json());
    hello.mutable_hello()->set_tenant(tenant);
    hello.mutable_hello()->set_devices(2);
    say(peer, hello);
  }
  [[nodiscard]] std::vector<std::string> nodes_of(const std::string& name) {
    std::vector<std::string> nodes;
    for (const NodeShare& share : jobs.find(name)->state().nodes) nodes.push_back(share.node);
    return nodes;
  }
  [[nodiscard]] int commands(std::uint64_t peer) const {
    const auto all = told.find(peer);
    if (all == told.end()) return 0;
    const auto is_command = [](const wire::ToAgent& to) { return to.has_command(); };
    return static_cast<int>(std::ranges::count_if(all->second, is_command));
  }
};

}  // namespace

TEST_CASE("a tenant has so many jobs that are not over, all tenants so many that are known") {
  World world;
  JobTable few(world.services, {2, 3});
  Job job;
  job.world_size = 2;
  job.steps = 10;
  job.describe = job.benchmark = job.train = {"command"};
  const auto hand_in = [&](const std::string& name, const std::string& tenant) {
    job.name = name;
    const auto taken = few.submit(job, true, tenant);
    return taken.ok() ? "" : taken.error().message;
  };
  CHECK(hand_in("a", "ana").empty());
  CHECK(hand_in("b", "ana").empty());
  CHECK_THAT(hand_in("c", "ana"),
             Catch::Contains("tenant ana has 2 jobs that are not over, and may have 2 (max_jobs_of"));
  CHECK(hand_in("a", "ana").empty());  // it runs already
  CHECK(hand_in("c", "bob").empty());
  CHECK_THAT(hand_in("d", "bob"), Catch::Contains("knows 3 jobs, those that are over too, and keeps 3 (max_jobs)"));
  few.find("a")->feed(Order::kStop);
  REQUIRE_FALSE(few.find("a")->active());
  CHECK_FALSE(hand_in("d", "ana").empty());
  CHECK(hand_in("a", "ana").empty());  // takes its own place
  const auto full = few.submit(job, true, "bob");
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().kind == ErrorKind::kNo);
  few.find("b")->feed(Order::kStop);
  few.forget(few.find("b")->run());
  CHECK(hand_in("d", "ana").empty());
}

TEST_CASE("a node's instance is for those who see all tenants") {
  Tenants world;
  world.come("n0", 1, "");
  CHECK(json::parse(nodes_document(world.services, {})).at("nodes")[0].at("instance") == "of n0");
  const Caller bob{"bob", net::Role::kView, "bob"};
  CHECK_FALSE(json::parse(nodes_document(world.services, bob)).at("nodes")[0].contains("instance"));
  CHECK_FALSE(json::parse(status_document(world.services, world.jobs, {}, bob)).at("nodes")[0].contains("instance"));
}

TEST_CASE("two tenants' jobs are each placed on the node of their own, and one without a node is told why it waits") {
  Tenants world;
  world.come("n0", 1, "ana");
  world.come("n1", 2, "bob");
  world.submit("his", "bob");
  world.submit("hers", "ana");
  CHECK(world.nodes_of("hers") == std::vector<std::string>{"n0"});
  CHECK(world.nodes_of("his") == std::vector<std::string>{"n1"});
  const JobRun& job = world.submit("another", "eve");
  CHECK(job.state().phase == Phase::kWaiting);
  CHECK_THAT(job.waits_for(), Catch::Contains("nodes that serve tenant eve have 0; 4 more"));
  CHECK(json::parse(job_document(job)).at("waits_for") == job.waits_for());
  CHECK(json::parse(nodes_document(world.services, {})).at("nodes")[0].at("tenant") == "ana");
  world.come("n2", 3, "");
  CHECK(world.nodes_of("another") == std::vector<std::string>{"n2"});
  CHECK(job.waits_for().empty());
}

TEST_CASE("a node that comes back for another tenant begins nothing for the job that was there") {
  Tenants world;
  world.come("n0", 1, "");
  JobRun& job = world.submit("hers", "ana");
  REQUIRE(job.state().phase == Phase::kDescribing);
  REQUIRE(world.commands(1) == 1);
  world.come("n0", 2, "bob");
  CHECK(world.commands(2) == 0);  // would be sent again to a node that is back
  world.come("n0", 3, "ana");
  CHECK(world.commands(3) == 1);
}
