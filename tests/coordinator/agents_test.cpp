// The agents' side without a network: frames in by hand, manual time.

#include "agents.hpp"

#include <spdlog/spdlog.h>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fake_agent.hpp"
#include "hello_message.hpp"
#include "metrics.hpp"
#include "nccl_tables.hpp"
#include "schema/fingerprint.hpp"
#include "schema/nccl.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

struct World {
  TemporaryDirectory directory;
  ManualClock clock;
  net::EventLoop loop;
  StateStore store = StateStore::open(directory.path() + "/state.db").value();
  CostDatabase costs = CostDatabase::open(directory.path() + "/costs.db", OpenMode::kCreate).value();
  SearchWorker worker{loop, clock};
  Membership members{clock};
  Services services{clock,
                    store,
                    costs,
                    worker,
                    members,
                    {},
                    directory.path(),
                    directory.path() + "/tables",
                    [this](const std::string& node, const wire::ToAgent& to) { return agents.send(node, to); },
                    {}};
  JobTable jobs{services};
  std::set<std::uint64_t> closed;
  std::map<std::uint64_t, std::uint64_t> received_bytes;  // by peer
  std::map<std::uint64_t, std::uint64_t> answered;        // by peer: the clock in the last answer to a heartbeat
  Agents agents{services,
                jobs,
                {[this](std::uint64_t peer, const std::string& frame) {
                   wire::ToAgent to;
                   if (to.ParseFromString(frame) && to.has_heartbeat()) answered[peer] = to.heartbeat().wall_ns();
                   return true;
                 },
                 [this](std::uint64_t p) { closed.insert(p); },
                 {},
                 {},
                 [this](std::uint64_t peer) { return received_bytes[peer]; }}};

  World() { spdlog::set_level(spdlog::level::off); }

  void hello(const std::string& node, std::uint64_t peer) {
    agents.message(peer, test::hello_of(node, "of " + node, fingerprint_json()).SerializeAsString());
  }
  void heartbeat(std::uint64_t peer) {
    wire::FromAgent from;
    from.mutable_heartbeat()->set_sent_ns(1);
    agents.message(peer, from.SerializeAsString());
  }
  // A heartbeat of a node whose clock is so far ahead, and the answer to the one before it.
  void heartbeat_ahead(std::uint64_t peer, Nanoseconds ahead) {
    wire::FromAgent from;
    wire::Heartbeat& beat = *from.mutable_heartbeat();
    beat.set_wall_ns(static_cast<std::uint64_t>((clock.wall() + ahead).count()));
    beat.set_answered_ns(answered[peer]);
    beat.set_heard_ns(answered[peer] + static_cast<std::uint64_t>(ahead.count()));
    clock.advance(std::chrono::microseconds(10));
    agents.message(peer, from.SerializeAsString());
    clock.advance(std::chrono::seconds(2));
  }
  void trace_end(std::uint64_t peer, std::uint64_t trace, const std::string& node) {
    wire::FromAgent from;
    from.mutable_trace_end()->set_id(trace);
    from.mutable_trace_end()->set_node(node);
    agents.message(peer, from.SerializeAsString());
  }
  // Two nodes, of which n0 has sent all that it has of the trace.
  std::uint64_t half_done_trace() {
    hello("n0", 1);
    hello("n1", 2);
    const std::uint64_t trace = services.traces.start("gpt", {"n0", "n1"}, {2, 0}, {}).value();
    trace_end(1, trace, "n0");
    CHECK(trace_document(trace).at("state") == "running");
    return trace;
  }
  json trace_document(std::uint64_t trace) { return json::parse(services.traces.document(trace).value()); }

  JobRun& submit(const std::string& name) {
    Job job;
    job.name = name;
    job.world_size = 2;
    job.steps = 10;
    job.describe = {"describe"};
    job.benchmark = {"benchmark"};
    job.train = {"train"};
    return *jobs.submit(job, true).value().job;
  }
  // Both ranks' stamps of one collective.
  void collective(const std::string& job, std::uint32_t sequence) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      wire::FromAgent from;
      wire::CollectiveStamps& stamps = *from.mutable_collective_stamps();
      stamps.set_job(job);
      stamps.set_rank(rank);
      stamps.set_fingerprint_json(fingerprint_json());
      wire::CollectiveStamp& one = *stamps.add_stamps();
      one.set_communicator(77);
      one.set_sequence(sequence);
      one.set_ranks(2);
      one.set_rank(rank);
      one.set_nodes(1);
      one.set_channels(2);
      one.set_bytes(4096);
      one.set_function(nccl::kAllReduce);
      one.set_begin_ns(1'000'000'000 + sequence * 1'000'000);
      one.set_duration_ns(200'000);
      agents.message(rank + 1, from.SerializeAsString());
    }
  }
  bool has_table(std::int64_t run) const {
    return std::filesystem::exists(directory.path() + "/tables/run-" + std::to_string(run) + "-launch-1");
  }
};

}  // namespace

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
