// Agents that serve one tenant alone, and the jobs of several.

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "../agents_world.hpp"
#include "api/job_documents.hpp"

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
  // That the node is told now, and whether those are all.
  using Told = std::pair<std::set<std::string>, bool>;
  [[nodiscard]] Told kept(std::uint64_t peer) {
    REQUIRE_FALSE(unfinished(peer).empty());
    const wire::UnfinishedJobs last = unfinished(peer).back();
    return {{last.jobs().begin(), last.jobs().end()}, last.complete()};
  }
  void come_with(const std::string& node, std::uint64_t peer, const std::string& tenant,
                 const std::vector<std::string>& has) {
    wire::FromAgent hello = test::hello_of(node, "of " + node, fingerprint_json());
    hello.mutable_hello()->set_tenant(tenant);
    for (const std::string& job : has) hello.mutable_hello()->add_launches()->set_job(job);
    say(peer, hello);
  }
  void stop(const std::string& name) {
    jobs.find(name)->feed(Order::kStop);
    REQUIRE_FALSE(jobs.find(name)->active());
    agents.tick();
  }
  [[nodiscard]] int commands(std::uint64_t peer) const {
    const auto all = told.find(peer);
    if (all == told.end()) return 0;
    const auto is_command = [](const wire::ToAgent& to) { return to.has_command(); };
    return static_cast<int>(std::ranges::count_if(all->second, is_command));
  }
};

}  // namespace

TEST_CASE("one tenant's jobs that are over leave a quarter of max_jobs to others, and its oldest are forgotten early") {
  World world;
  world.services.settings.max_jobs = 32;
  JobTable table(world.services.for_jobs);
  Job job;
  job.world_size = 2;
  job.steps = 10;
  job.describe = job.benchmark = job.train = {"command"};
  const auto hand_in_and_stop = [&](const std::string& name, const std::string& tenant) {
    job.name = name;
    const auto taken = table.submit(job, true, tenant);
    if (!taken.ok()) return taken.error().message;
    table.find(name)->feed(Order::kStop);
    return std::string();
  };
  for (int i = 0; i < 23; ++i) CHECK(hand_in_and_stop("a" + std::to_string(i), "ana").empty());
  CHECK_FALSE(table.surplus());
  CHECK(hand_in_and_stop("a23", "ana").empty());
  CHECK(table.surplus() == table.find("a0")->run());
  CHECK_THAT(hand_in_and_stop("a24", "ana"),
             Catch::Contains("knows 24 jobs of tenant ana") && Catch::Contains("keeps 24"));
  for (int i = 0; i < 8; ++i) CHECK(hand_in_and_stop("b" + std::to_string(i), "bob").empty());
  CHECK_THAT(hand_in_and_stop("b8", "bob"), Catch::Contains("knows 32 jobs, those that are over too"));
  CHECK(hand_in_and_stop("a23", "ana").empty());  // takes its own place
}

TEST_CASE("a tenant has so many jobs that are not over, all tenants so many that are known") {
  World world;
  world.services.settings.max_jobs_of_tenant = 2;
  world.services.settings.max_jobs = 3;
  JobTable few(world.services.for_jobs);
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
  CHECK(json::parse(api::to_json(all_nodes(world.members, world.jobs, {}, {}))).at("nodes")[0].at("instance") ==
        "of n0");
  const Caller bob{"bob", net::Role::kView, "bob"};
  CHECK_FALSE(
      json::parse(api::to_json(all_nodes(world.members, world.jobs, {}, bob))).at("nodes")[0].contains("instance"));
  const json told = json::parse(api::to_json(status_of(world.members, world.jobs, {}, {}, bob, "")));
  CHECK_FALSE(told.at("nodes")[0].contains("instance"));
}

TEST_CASE("lost nodes are shown to those who see all tenants, to their tenant, and to those whose jobs have them") {
  Tenants world;
  world.come("anas", 1, "ana");
  world.come("everybodys", 2, "");
  world.come("other", 3, "");
  world.submit("his", "bob");
  REQUIRE(world.nodes_of("his") == std::vector<std::string>{"everybodys"});
  world.clock.advance(kNodeTimeout + std::chrono::seconds(1));
  world.agents.tick();
  const auto shown_to = [&](const Caller& caller) {
    std::string names;
    const json told = json::parse(api::to_json(all_nodes(world.members, world.jobs, {}, caller)));
    for (const json& node : told.at("nodes")) names += node.at("name").get<std::string>() + " ";
    return names;
  };
  CHECK(shown_to({}) == "anas everybodys other ");
  CHECK(shown_to({"ana", net::Role::kView, "ana"}) == "anas ");
  CHECK(shown_to({"bob", net::Role::kView, "bob"}) == "everybodys ");
  CHECK(shown_to({"eve", net::Role::kView, "eve"}).empty());
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
  CHECK_THAT(job.waits_for(), Catch::Contains("nodes that serve tenant eve have 0; more are on nodes"));
  CHECK(json::parse(job_document(job)).at("waits_for") == job.waits_for());
  CHECK(json::parse(api::to_json(all_nodes(world.members, world.jobs, {}, {}))).at("nodes")[0].at("tenant") == "ana");
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

TEST_CASE("a node is told of unfinished jobs that may run there, and no other's") {
  Tenants world;
  for (const char* name : {"hers", "also-hers"}) world.submit(name, "ana");
  world.submit("his", "bob");
  world.submit("chiefs");
  world.come("n0", 1, "eve");  // no job is hers: all wait
  world.come("n1", 2, "");
  CHECK(world.kept(1) == Tenants::Told{{}, true});
  CHECK(world.kept(2) == Tenants::Told{{"also-hers", "chiefs", "hers", "his"}, true});
  world.submit("eves", "eve");
  world.submit("his-too", "bob");
  world.agents.tick();
  CHECK(world.kept(1) == Tenants::Told{{"eves"}, true});
  const std::size_t before = world.unfinished(1).size();
  for (int i = 0; i < 3; ++i) world.submit("more" + std::to_string(i), "bob");
  world.agents.tick();
  CHECK(world.unfinished(1).size() == before);  // not even that there is something
  for (const wire::UnfinishedJobs& told : world.unfinished(1)) {
    for (const std::string& name : told.jobs()) CHECK(name == "eves");
  }
}

TEST_CASE("a node that does not show any more whose jobs it runs is told of none, and removes nothing") {
  Tenants world;
  world.come("n0", 1, "");
  world.submit("hers", "ana");
  world.agents.tick();
  CHECK(world.kept(1) == Tenants::Told{{"hers"}, true});
  REQUIRE(world.members.bar(1, true));
  world.submit("his", "bob");
  world.agents.tick();
  CHECK(world.kept(1) == Tenants::Told{{}, false});
}

TEST_CASE("what a node has of another tenant's job is kept until that job is over, whoever the node serves by then") {
  Tenants world;
  for (const char* name : {"hers", "over"}) world.submit(name, "ana");
  world.submit("his", "bob");
  world.stop("over");
  // It ran everybody's jobs before; nobody knows of "gone" any more.
  world.come_with("n0", 1, "bob", {"gone", "hers", "over"});
  CHECK(world.kept(1) == Tenants::Told{{"hers", "his"}, true});
  world.submit("hers-too", "ana");
  world.agents.tick();
  CHECK(world.kept(1) == Tenants::Told{{"hers", "his"}, true});
  world.stop("hers");
  CHECK(world.kept(1) == Tenants::Told{{"his"}, true});
  // A hello has no room for more than it names: nobody knows what else is there.
  std::vector<std::string> many;
  for (int i = 0; i < 4096; ++i) many.push_back("job" + std::to_string(i));
  world.come_with("n0", 2, "bob", many);
  CHECK_FALSE(world.kept(2).second);
  world.come_with("n0", 3, "", many);
  CHECK(world.kept(3) == Tenants::Told{{"hers-too", "his"}, true});
  world.come_with("n0", 4, "bob", {});
  CHECK(world.kept(4) == Tenants::Told{{"his"}, true});
}
