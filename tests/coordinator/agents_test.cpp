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
  std::map<std::uint64_t, wire::Welcome> welcomes;        // by peer
  std::map<std::uint64_t, std::uint64_t> answered;        // by peer: the clock in the last answer to a heartbeat
  Agents agents{services,
                jobs,
                {[this](std::uint64_t peer, const std::string& frame) {
                   wire::ToAgent to;
                   if (to.ParseFromString(frame) && to.has_heartbeat()) answered[peer] = to.heartbeat().wall_ns();
                   if (to.has_welcome()) welcomes[peer] = to.welcome();
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

  // What an agent says that was acknowledged all below `held_from`, and has numbered up to `last`.
  bool told_to_renew(std::uint64_t peer, const std::string& node, std::uint64_t held_from, std::uint64_t last) {
    wire::FromAgent from = test::hello_of(node, "of " + node, fingerprint_json());
    from.mutable_hello()->set_held_from(held_from);
    from.mutable_hello()->set_last_batch(last);
    from.mutable_hello()->set_acknowledged_by(store.identity());
    agents.message(peer, from.SerializeAsString());
    return welcomes.at(peer).renew_instance();
  }
  void batch(std::uint64_t peer, std::uint64_t number) {
    wire::FromAgent from;
    from.mutable_cost_batch()->set_batch(number);
    from.mutable_cost_batch()->set_fingerprint_json(fingerprint_json());
    agents.message(peer, from.SerializeAsString());
  }

  JobRun& submit(const std::string& name, const std::string& tenant = "*") {
    Job job;
    job.name = name;
    job.world_size = 2;
    job.steps = 10;
    job.describe = {"describe"};
    job.benchmark = {"benchmark"};
    job.train = {"train"};
    return *jobs.submit(job, true, tenant).value().job;
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
  REQUIRE_FALSE(job.active());
  world.agents.tick();
  CHECK(world.services.counters.waiting.empty());
  world.collective("gpt", 2);  // late news
  CHECK(world.services.counters.waiting.empty());
  CHECK(world.services.counters.collectives.joined == 2);
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

TEST_CASE("a coordinator that was set back says which acknowledged batches it lacks, and goes on without them") {
  World world;
  CHECK_FALSE(world.told_to_renew(1, "n0", 1, 0));
  for (const std::uint64_t number : {1, 2, 3}) world.batch(1, number);
  CHECK_FALSE(world.told_to_renew(2, "n0", 4, 3));
  CHECK(world.services.counters.batches_lost == 0);
  CHECK_FALSE(world.told_to_renew(3, "n0", 9, 10));
  CHECK(world.services.counters.batches_lost == 5);
  CHECK_FALSE(world.told_to_renew(4, "n0", 9, 10));
  CHECK(world.services.counters.batches_lost == 5);
  CHECK_THAT(metrics_text(world.services, world.jobs),
             Catch::Contains("trimtab_cost_batches_total{outcome=\"lost\"} 5"));
}

TEST_CASE("what another coordinator acknowledged is not lost") {
  World world;
  wire::FromAgent from = test::hello_of("n0", "of n0", fingerprint_json());
  from.mutable_hello()->set_held_from(9);
  from.mutable_hello()->set_last_batch(9);
  from.mutable_hello()->set_acknowledged_by("another");
  world.agents.message(1, from.SerializeAsString());
  CHECK_FALSE(world.welcomes.at(1).renew_instance());
  CHECK(world.services.counters.batches_lost == 0);
}

TEST_CASE("an agent that was set back, and a copy of an agent, are given a new instance") {
  World world;
  world.hello("n0", 1);
  for (const std::uint64_t number : {1, 2, 3}) world.batch(1, number);
  // What a connection began with is not true any more when it is said again.
  CHECK_FALSE(world.told_to_renew(1, "n0", 2, 2));
  CHECK(world.told_to_renew(2, "n0", 2, 2));
  CHECK_FALSE(world.told_to_renew(3, "n0", 2, 3));
  // Of an earlier release, which says nothing of its numbers.
  CHECK_FALSE(world.told_to_renew(4, "n0", 0, 0));
  wire::FromAgent copy = test::hello_of("n1", "of n0", fingerprint_json());
  copy.mutable_hello()->set_held_from(4);
  copy.mutable_hello()->set_last_batch(3);
  world.agents.message(5, copy.SerializeAsString());
  CHECK(world.welcomes.at(5).renew_instance());
}

TEST_CASE("a job that is handed in after the state was set back has a launch that no agent has had") {
  World world;
  wire::FromAgent from = test::hello_of("n0", "of n0", fingerprint_json());
  wire::JobLaunch& launch = *from.mutable_hello()->add_launches();
  launch.set_job("gpt");
  launch.set_launch(7);
  world.agents.message(1, from.SerializeAsString());
  CHECK(world.store.last_launch("gpt").value() == 7);
  CHECK(world.submit("gpt").state().launch == 7);
  launch.set_launch(UINT64_MAX);  // no number
  world.agents.message(1, from.SerializeAsString());
  CHECK(world.store.last_launch("gpt").value() == 7);
}

TEST_CASE("a job begins with what its own tenant's jobs of the name have taught, and no other's") {
  const auto [tenant, taught] =
      GENERATE(table<std::string, std::string>({{"*", R"({"of":"nobody"})"}, {"a", R"({"of":"a"})"}, {"b", ""}}));
  World world;
  const std::string hardware = hash(parse_fingerprint(fingerprint_json(), "test").value());
  REQUIRE(world.costs.put_fact(hardware, "calibration/gpt", R"({"of":"nobody"})").ok());
  REQUIRE(world.costs.put_fact(hardware, "failures/gpt/0", R"({"plan":"crash"})").ok());
  REQUIRE(world.costs.put_fact(hardware, "tenant/a/calibration/gpt", R"({"of":"a"})").ok());
  world.hello("n0", 1);
  world.hello("n1", 2);
  const TuningState& state = world.submit("gpt", tenant).state();
  CHECK(state.calibration_json == taught);
  CHECK(state.failed_hashes.size() == (tenant == "*" ? 1 : 0));
}
