// The agents' side without a network: frames in by hand, manual time.

#include "agents.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <vector>

#include "agents_world.hpp"
#include "metrics.hpp"
#include "nccl_tables.hpp"
#include "schema/fingerprint.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

TEST_CASE("a node's clock is known by its heartbeats, and not that of another under its name") {
  World world;
  world.hello("n0", 1);
  for (int i = 0; i < 3; ++i) world.heartbeat_ahead(1, std::chrono::seconds(90));
  const auto said = world.services.clocks.latest();
  REQUIRE(said.contains("n0"));
  CHECK(std::abs(said.at("n0").ns - 90'000'000'000) <= 10'000);
  CHECK(said.at("n0").uncertainty_ns <= 10'001);
  CHECK(metrics_text(world.services, world.jobs).find("trimtab_node_clock_ahead_seconds{node=\"n0\"} 90\n") !=
        std::string::npos);
  world.hello("n0", 2);
  CHECK(world.services.clocks.latest().empty());
}

TEST_CASE("a node that was lost while its connection stood is back when it has introduced itself again") {
  World world;
  world.hello("n0", 1);
  world.clock.advance(kNodeTimeout + Nanoseconds(1));
  world.agents.tick();
  CHECK(world.closed == std::set<std::uint64_t>{1});
  CHECK(world.members.by_node("n0")->lost);
  CHECK(world.members.by_node("n0")->peer == 0);
  world.heartbeat(1);  // on its way when the connection was closed
  CHECK(world.members.by_node("n0")->lost);
  world.hello("n0", 2);
  CHECK_FALSE(world.members.by_node("n0")->lost);
  CHECK(world.members.by_node("n0")->peer == 2);
  world.agents.closed(1, "closed by this side");
  CHECK(world.members.by_node("n0")->peer == 2);
}

TEST_CASE("a node whose message takes longer than the time-out to come is not lost, and one that stops half way is") {
  World world;
  world.hello("n0", 1);
  world.hello("n1", 2);
  for (int second = 0; second < 60; ++second) {
    world.clock.advance(std::chrono::seconds(1));
    world.received_bytes[1] += 8000;
    if (second < 5) world.received_bytes[2] += 8000;
    world.agents.tick();
    CHECK_FALSE(world.members.by_node("n0")->lost);
    CHECK(world.members.by_node("n1")->lost == (second >= 5 + 10));
  }
  CHECK(world.closed == std::set<std::uint64_t>{2});
}

TEST_CASE("a connection is one node's") {
  World world;
  world.hello("n0", 1);
  world.hello("n0", 1);
  CHECK(world.closed.empty());
  world.hello("n1", 1);
  CHECK(world.closed == std::set<std::uint64_t>{1});
  CHECK(world.members.by_node("n1") == nullptr);
}

TEST_CASE("a trace does not wait for a node that has fallen silent") {
  World world;
  const std::uint64_t trace = world.half_done_trace();
  world.clock.advance(kNodeTimeout);
  world.heartbeat(1);
  world.agents.tick();
  CHECK(world.trace_document(trace).at("state") == "running");
  world.clock.advance(Nanoseconds(1));
  world.agents.tick();
  CHECK(world.trace_document(trace).at("state") == "done");
  CHECK(world.trace_document(trace).at("nodes")[1].at("remark") == "the node was lost");
}

TEST_CASE("a trace does not wait for a node that comes again before its former connection has ended") {
  World world;
  const std::uint64_t trace = world.half_done_trace();
  world.hello("n1", 3);
  CHECK(world.closed == std::set<std::uint64_t>{2});
  world.agents.closed(2, "replaced");
  CHECK(world.trace_document(trace).at("state") == "done");
  CHECK(world.trace_document(trace).at("nodes")[1].at("remark") == "the node was lost");
}

TEST_CASE("what ranks waited for is forgotten when their job is over") {
  World world;
  world.hello("n0", 1);
  world.hello("n1", 2);
  JobRun& job = world.submit("gpt");
  REQUIRE(job.active());
  world.collective("gpt", 1);
  world.agents.tick();
  REQUIRE(world.services.counters.waiting.size() == 2);
  job.feed(Order::kStop);
  // Its description runs on n0.
  for (const char* node : {"n0", "n1"}) job.feed(CommandFinished{"kill/0/" + std::string(node), true, "", ""});
  REQUIRE_FALSE(job.active());
  world.agents.tick();
  CHECK(world.services.counters.waiting.empty());
  world.collective("gpt", 2);  // late news
  CHECK(world.services.counters.waiting.empty());
  CHECK(world.services.counters.collectives.joined == 2);
}

TEST_CASE("agents are told which jobs are not over, at their hello and when that changes") {
  World world;
  JobRun& job = world.submit("gpt");
  world.hello("n0", 1);
  REQUIRE(world.unfinished[1].size() >= 1);
  CHECK(world.unfinished[1].back().complete());
  REQUIRE(world.unfinished[1].back().jobs_size() == 1);
  CHECK(world.unfinished[1].back().jobs(0) == "gpt");
  world.agents.tick();
  const std::size_t before = world.unfinished[1].size();
  world.agents.tick();
  CHECK(world.unfinished[1].size() == before);  // nothing new, nothing said
  job.feed(Order::kStop);
  REQUIRE_FALSE(job.active());
  world.agents.tick();
  REQUIRE(world.unfinished[1].size() == before + 1);
  CHECK(world.unfinished[1].back().complete());
  CHECK(world.unfinished[1].back().jobs_size() == 0);
}

TEST_CASE("a node that introduces itself with another fingerprint is other hardware to its jobs") {
  World world;
  world.hello("n0", 1);
  world.hello("n1", 2);
  JobRun& job = world.submit("gpt");
  REQUIRE(job.state().phase == Phase::kDescribing);
  world.hello("n1", 3);
  CHECK(job.state().phase == Phase::kDescribing);
  Fingerprint other;
  other.device["gpu"] = "another";
  world.agents.message(4, test::hello_of("n1", "of n1", to_json(other)).SerializeAsString());
  CHECK(job.state().phase == Phase::kStopping);
  CHECK_THAT(job.state().failure,
             Catch::Contains("node n1 came back as other hardware: fingerprint " + hash(other) + " instead of "));
}

TEST_CASE("the tables of a run that is over go with the next job") {
  World world;
  JobRun& first = world.submit("first");
  JobRun& second = world.submit("second");
  const auto none = [] { return std::vector<Cost>(); };
  for (const JobRun* job : {&first, &second}) {
    REQUIRE(nccl_table_of_launch(world.services.nccl_table_directory, job->run(), 1, none).ok());
  }
  const std::int64_t over = first.run();
  first.feed(Order::kStop);
  REQUIRE_FALSE(first.active());
  world.submit("third");
  CHECK_FALSE(world.has_table(over));
  CHECK(world.has_table(second.run()));
}

TEST_CASE("plans are priced without what is kept of single kernels and ranges") {
  World world;
  const JobRun& job = world.submit("gpt");
  std::vector<Cost> all;
  for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kStepTime, CostKind::kRange, CostKind::kKernel}) {
    Cost& cost = all.emplace_back();
    cost.key.kind = kind;
    cost.key.subject = "a";
    cost.statistics.add(1);
  }
  const Fingerprint fingerprint = parse_fingerprint(fingerprint_json(), "test").value();
  REQUIRE(world.costs.add_batch({"somebody", 1}, fingerprint, "passive", all).ok());
  world.hello("n0", 1);
  world.hello("n1", 2);
  REQUIRE(job.state().fingerprint == hash(fingerprint));
  std::set<CostKind> kinds;
  for (const Cost& cost : job.known_costs()) kinds.insert(cost.key.kind);
  CHECK(kinds == std::set<CostKind>{CostKind::kOperatorForward, CostKind::kStepTime});
}
