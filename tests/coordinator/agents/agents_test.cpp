// The agents' side without a network: frames in by hand, manual time.

#include "agents/agents.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <vector>

#include "../agents_world.hpp"
#include "../simulation/simulated_job.hpp"
#include "agents/wire_events.hpp"
#include "api/metrics.hpp"
#include "costs/nccl_tables.hpp"
#include "jobs/job_run.hpp"
#include "schema/database.hpp"
#include "schema/fingerprint.hpp"
#include "schema/hash64.hpp"
#include "schema/model.hpp"
#include "tuner/calibration.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

TEST_CASE("a node's clock is known by its heartbeats, and not that of another under its name") {
  World world(GENERATE(from_range(test::backends())));
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

TEST_CASE("of nodes that come under ever new names no clock is kept beyond those that are remembered") {
  constexpr std::size_t kKnown = 3;
  World world("", kKnown);
  for (std::uint64_t peer = 1; peer <= 20; ++peer) {
    const std::string node = "n" + std::to_string(peer);
    world.hello(node, peer);
    for (int i = 0; i < 3; ++i) world.heartbeat_ahead(peer, std::chrono::seconds(90));
    CHECK(world.services.clocks.latest().contains(node));
    CHECK(world.services.clocks.latest().size() <= kKnown);
    world.agents.closed(peer, "gone");
    world.clock.advance(kNodeTimeout + std::chrono::seconds(1));
    world.agents.tick();
  }
  const std::string page = metrics_text(world.services, world.jobs);
  CHECK(page.find("trimtab_node_clock_ahead_seconds{node=\"n20\"}") != std::string::npos);
  CHECK(page.find("node=\"n17\"") == std::string::npos);
}

TEST_CASE("a node that was lost while its connection stood is back when it has introduced itself again") {
  World world(GENERATE(from_range(test::backends())));
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
  World world(GENERATE(from_range(test::backends())));
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

TEST_CASE("a connection is one node's, and has one hello") {
  World world(GENERATE(from_range(test::backends())));
  world.hello("n0", 1);
  CHECK(world.closed.empty());
  const std::size_t before = world.told[1].size();
  world.hello(GENERATE("n0", "n1"), 1);
  CHECK(world.closed == std::set<std::uint64_t>{1});
  CHECK(world.members.by_node("n1") == nullptr);
  REQUIRE(world.told[1].size() == before + 1);
  CHECK_THAT(world.told[1].back().refused().reason(), Catch::Contains("a connection has one hello"));
}

TEST_CASE("a kill switch that flips all the time is written once in a second, and its last state is taken") {
  World world(GENERATE(from_range(test::backends())));
  world.hello("n0", 1);
  const auto rows = [&] { return world.store.audit("", 0, 100).value().size(); };
  const auto is_thrown = [&] { return world.members.by_node("n0")->kill_switch; };
  world.switch_to(1, true);
  CHECK(is_thrown());
  CHECK(rows() == 1);
  for (int i = 0; i < 100; ++i) world.switch_to(1, i % 2 == 1);
  world.switch_to(1, false);
  CHECK(is_thrown());
  world.agents.tick();
  CHECK(rows() == 1);
  world.clock.advance(std::chrono::seconds(1));
  world.agents.tick();
  CHECK_FALSE(is_thrown());
  CHECK(rows() == 2);
  world.switch_to(1, true);
  world.clock.advance(std::chrono::seconds(1));
  world.switch_to(1, true);  // as the heartbeat says that comes next
  CHECK(is_thrown());
  CHECK(rows() == 3);
  world.clock.advance(std::chrono::seconds(1));
  world.agents.tick();
  world.agents.tick();
  CHECK(is_thrown());
  CHECK(rows() == 3);
}

TEST_CASE("a kill switch that was thrown a moment before its node was away is taken when it is back") {
  World world(GENERATE(from_range(test::backends())));
  world.hello("n0", 1);
  world.switch_to(1, true);
  world.switch_to(1, false);
  world.agents.closed(1, "gone");
  world.clock.advance(std::chrono::seconds(5));
  world.agents.tick();
  CHECK(world.members.by_node("n0")->kill_switch);
  world.hello("n0", 2);
  world.switch_to(2, false);
  CHECK_FALSE(world.members.by_node("n0")->kill_switch);
}

TEST_CASE("a trace does not wait for a node that has fallen silent") {
  World world(GENERATE(from_range(test::backends())));
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
  World world(GENERATE(from_range(test::backends())));
  const std::uint64_t trace = world.half_done_trace();
  world.hello("n1", 3);
  CHECK(world.closed == std::set<std::uint64_t>{2});
  world.agents.closed(2, "replaced");
  CHECK(world.trace_document(trace).at("state") == "done");
  CHECK(world.trace_document(trace).at("nodes")[1].at("remark") == "the node was lost");
}

TEST_CASE("what ranks waited for is forgotten when their job is over") {
  World world(GENERATE(from_range(test::backends())));
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
  World world(GENERATE(from_range(test::backends())));
  JobRun& job = world.submit("gpt");
  world.hello("n0", 1);
  REQUIRE(world.unfinished(1).size() >= 1);
  CHECK(world.unfinished(1).back().complete());
  REQUIRE(world.unfinished(1).back().jobs_size() == 1);
  CHECK(world.unfinished(1).back().jobs(0) == "gpt");
  world.agents.tick();
  const std::size_t before = world.unfinished(1).size();
  world.agents.tick();
  CHECK(world.unfinished(1).size() == before);  // nothing new, nothing said
  job.feed(Order::kStop);
  REQUIRE_FALSE(job.active());
  world.agents.tick();
  REQUIRE(world.unfinished(1).size() == before + 1);
  CHECK(world.unfinished(1).back().complete());
  CHECK(world.unfinished(1).back().jobs_size() == 0);
}

TEST_CASE("a node that introduces itself with another fingerprint is other hardware to its jobs") {
  World world(GENERATE(from_range(test::backends())));
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
  World world(GENERATE(from_range(test::backends())));
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
  World world(GENERATE(from_range(test::backends())));
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
  for (const Cost& cost : job.costs().known()) kinds.insert(cost.key.kind);
  CHECK(kinds == std::set<CostKind>{CostKind::kOperatorForward, CostKind::kStepTime});
}

TEST_CASE("a coordinator that was set back says which acknowledged batches it lacks, and goes on without them") {
  World world(GENERATE(from_range(test::backends())));
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
  World world(GENERATE(from_range(test::backends())));
  wire::FromAgent from = test::hello_of("n0", "of n0", fingerprint_json());
  from.mutable_hello()->set_held_from(9);
  from.mutable_hello()->set_last_batch(9);
  from.mutable_hello()->set_acknowledged_by("another");
  world.agents.message(1, from.SerializeAsString());
  CHECK_FALSE(world.welcome(1).renew_instance());
  CHECK(world.services.counters.batches_lost == 0);
}

TEST_CASE("an agent that was set back, and a copy of an agent, are given a new instance") {
  World world(GENERATE(from_range(test::backends())));
  world.hello("n0", 1);
  for (const std::uint64_t number : {1, 2, 3}) world.batch(1, number);
  CHECK(world.told_to_renew(2, "n0", 2, 2));
  CHECK_FALSE(world.told_to_renew(3, "n0", 2, 3));
  // Of an earlier release, which says nothing of its numbers.
  CHECK_FALSE(world.told_to_renew(4, "n0", 0, 0));
  wire::FromAgent copy = test::hello_of("n1", "of n0", fingerprint_json());
  copy.mutable_hello()->set_held_from(4);
  copy.mutable_hello()->set_last_batch(3);
  world.agents.message(5, copy.SerializeAsString());
  CHECK(world.welcome(5).renew_instance());
}

namespace {

// As peer 2, n1 says that a million batches of n0's instance are acknowledged.
void claim_instance_of_n0(World& world) {
  wire::FromAgent claim = test::hello_of("n1", "of n0", fingerprint_json());
  claim.mutable_hello()->set_held_from(1'000'001);
  claim.mutable_hello()->set_last_batch(1'000'000);
  claim.mutable_hello()->set_acknowledged_by(world.store.identity());
  world.say(2, claim);
}

}  // namespace

TEST_CASE("a node that claims another's instance folds, counts and keeps nothing of it") {
  World world(GENERATE(from_range(test::backends())));
  CHECK_FALSE(world.told_to_renew(1, "n0", 1, 0));
  world.batch(1, 1);
  const bool away = GENERATE(false, true);
  if (away) world.agents.closed(1, "gone");
  claim_instance_of_n0(world);
  CHECK(world.welcome(2).renew_instance());
  CHECK(world.services.counters.batches_lost == 0);
  CHECK(world.services.foreign.counts().at("instance") == 1);
  // It may go on with what it has: that counts as its own.
  world.batch(2, 2);
  if (away) CHECK_FALSE(world.told_to_renew(1, "n0", 2, 3));
  for (const std::uint64_t number : {2, 3}) world.batch(1, number);
  CHECK(world.services.counters.batches_stored == 4);
  CHECK(world.services.counters.batches_repeated == 0);
  // The node whose instance it is keeps it, whoever else has it.
  CHECK_FALSE(world.told_to_renew(3, "n0", 4, 3));
  CHECK(world.services.counters.batches_lost == 0);
}

TEST_CASE("before an instance has sent anything, neither of two nodes that claim it counts as lost") {
  World world(GENERATE(from_range(test::backends())));
  CHECK_FALSE(world.told_to_renew(1, "n0", 1, 0));
  claim_instance_of_n0(world);
  CHECK(world.welcome(2).renew_instance());
  CHECK(world.services.counters.batches_lost == 0);
  world.batch(1, 1);
  world.batch(2, 1);
  CHECK(world.services.counters.batches_stored == 2);
}

TEST_CASE("an instance that is a part of another's name is refused") {
  World world(GENERATE(from_range(test::backends())));
  world.hello("n0", 1);
  world.say(2, test::hello_of("n1", "of n0/passive", fingerprint_json()));
  CHECK(world.members.by_node("n1") == nullptr);
  CHECK(world.closed == std::set<std::uint64_t>{2});
}

TEST_CASE("what an agent says of launches does not use up their numbers") {
  World world(GENERATE(from_range(test::backends())));
  std::uint64_t peer = 0;
  const auto say = [&](std::uint64_t number) {
    wire::FromAgent from = test::hello_of("n0", "of n0", fingerprint_json());
    wire::JobLaunch& launch = *from.mutable_hello()->add_launches();
    launch.set_job("gpt");
    launch.set_launch(number);
    world.say(++peer, from);
    return world.store.last_launch("gpt").value();
  };
  CHECK(say(std::uint64_t{1} << 48) == 0);
  CHECK(world.services.foreign.counts().at("launch") == 1);
  CHECK(say(7) == 7);  // a state that was set back is still found out
  CHECK(say(kMostLaunchesAhead) == kMostLaunchesAhead);
  CHECK(say(kMostLaunchesAhead + 1) == kMostLaunchesAhead);
  CHECK(world.services.foreign.counts().at("launch") == 2);
}

TEST_CASE("a job that is over has no series of its own") {
  World world(GENERATE(from_range(test::backends())));
  JobRun& job = world.submit("gpt");
  for (const char* name : {"trimtab_job_step", "trimtab_job_step_seconds", "trimtab_job_halted", "trimtab_job_held",
                           "trimtab_job_overhead_ratio"}) {
    CHECK_THAT(metrics_text(world.services, world.jobs), Catch::Contains(std::string(name) + "{job=\"gpt\"}"));
  }
  job.feed(Order::kStop);
  REQUIRE_FALSE(job.active());
  CHECK_THAT(metrics_text(world.services, world.jobs), !Catch::Contains("job=\"gpt\""));
}

TEST_CASE("a job that is handed in after the state was set back has a launch that no agent has had") {
  World world(GENERATE(from_range(test::backends())));
  wire::FromAgent from = test::hello_of("n0", "of n0", fingerprint_json());
  wire::JobLaunch& launch = *from.mutable_hello()->add_launches();
  launch.set_job("gpt");
  launch.set_launch(7);
  world.agents.message(1, from.SerializeAsString());
  CHECK(world.store.last_launch("gpt").value() == 7);
  CHECK(world.submit("gpt").state().launch == 7);
  launch.set_launch(UINT64_MAX);  // no number
  world.agents.message(2, from.SerializeAsString());
  CHECK(world.store.last_launch("gpt").value() == 7);
}

TEST_CASE("a job begins with what its own tenant's jobs of the name have taught, and no other's") {
  const auto [tenant, taught] =
      GENERATE(table<std::string, std::string>({{"*", R"({"of":"nobody"})"}, {"a", R"({"of":"a"})"}, {"b", ""}}));
  World world(GENERATE(from_range(test::backends())));
  const std::string hardware = hash(parse_fingerprint(fingerprint_json(), "test").value());
  REQUIRE(world.costs.put_fact(hardware, "calibration/gpt", R"({"of":"nobody"})").ok());
  REQUIRE(world.costs.put_fact(hardware, "tenant/a/calibration/gpt", R"({"of":"a"})").ok());
  world.hello("n0", 1);
  world.hello("n1", 2);
  const TuningState& state = world.submit("gpt", tenant).state();
  CHECK(state.calibration_json == taught);
}

// Takes searches and answers none.
struct KeptSearches final : Searches {
  void enqueue(SearchTask task, std::function<void(SearchReply)> /*done*/) override {
    tasks.push_back(std::move(task));
  }
  std::vector<SearchTask> tasks;
};

// What a job of `model` on `memory_limit` is not offered, after a coordinator's restart in its first search.
std::vector<std::string> left_out(World& world, const std::string& model, std::int64_t memory_limit = 0) {
  KeptSearches searches;
  Services services{world.clock, world.store, world.costs, searches, world.members, {}, world.directory, {}, {}};
  TuningState state;
  state.job.name = "gpt";
  state.job.memory_limit = memory_limit;
  state.fingerprint = "hardware";
  state.model_json = model;
  state.phase = Phase::kSearching;
  JobRun(1, state, {}, services.for_jobs).resume();
  return searches.tasks.at(0).excluded;
}

TEST_CASE("a plan that failed an earlier job is not offered to a later one of the same model and limit") {
  World world(GENERATE(from_range(test::backends())));
  Model half = small_input(1, 2).model;
  const std::string model = to_json(half);
  half.operators.pop_back();
  const std::string fact = with_failure(nullptr, "big", "out_of_memory");
  REQUIRE(world.costs.put_fact("hardware", "failures/gpt/0/" + hash64_hex(model), fact).ok());
  CHECK(left_out(world, model) == std::vector<std::string>{"big"});
  CHECK(left_out(world, " " + model) == std::vector<std::string>{"big"});
  CHECK(left_out(world, model, 1 << 30).empty());
  CHECK(left_out(world, to_json(half)).empty());
}

TEST_CASE("a hang rules a plan out in no later job, and a crash only when it is not the first failure") {
  std::string known = with_failure(nullptr, "slept", "hang");
  known = with_failure(&known, "dead", "crash");
  known = with_failure(&known, "big", "out_of_memory");
  CHECK(ruled_out_by(known) == std::vector<std::string>{"big"});
  known = with_failure(&known, "dead", "crash");
  CHECK(ruled_out_by(known) == std::vector<std::string>{"big", "dead"});
  const std::string broken = "[";
  CHECK(ruled_out_by(broken).empty());
  CHECK(ruled_out_by(with_failure(&broken, "big", "out_of_memory")) == std::vector<std::string>{"big"});
}

TuningState in_first_search(const JobRun& job) {
  TuningState state = job.state();
  state.fingerprint = "hardware";
  state.phase = Phase::kTrials;
  state.doing = Doing::kSearching;
  state.initial = state.incumbent = {"{}", "initial"};
  state.search.searches = 1;
  return state;
}

TEST_CASE("a job of another name begins with the factors that its hardware's latest job has learnt, far less sure") {
  World world(GENERATE(from_range(test::backends())));
  JobRun& job = world.submit("gpt", "a");
  tuner::Calibration learnt;
  learnt.computation = {1.3, 0.02};
  learnt.operators = {{"secret", {2, 0.02}}};
  learnt.fixed_ms = 7;
  learnt.observations = GENERATE(4, 0);
  TuningState state = in_first_search(job);
  SearchReply reply;
  reply.calibration_json = tuner::to_json(learnt);
  JobRun(job.run(), state, {}, world.services.for_jobs).feed(SearchFinished{1, reply});
  REQUIRE(world.costs.fact("hardware", "tenant/a/calibration/gpt").value() == reply.calibration_json);
  // One that measures its costs, and learns whose they are.
  const auto prior_of = [&](const std::string& name, const std::string& tenant) {
    JobRun& other = world.submit(name, tenant);
    TuningState profiling = other.state();
    profiling.phase = Phase::kProfiling;
    profiling.fingerprint = "not known yet";
    JobRun run(other.run(), profiling, {}, world.services.for_jobs);
    run.stored(benchmarked("n0", "hardware"));
    CHECK(run.state().calibration_json == run.state().earlier_calibration_json);
    return run.state().earlier_calibration_json;
  };
  CHECK(prior_of("theirs", "b").empty());
  const std::string found = prior_of("bert", "a");
  REQUIRE(found.empty() == (learnt.observations == 0));
  if (found.empty()) return;
  const tuner::Calibration prior = tuner::parse_calibration(found).value();
  CHECK(prior.computation.value == 1.3);
  CHECK(prior.computation.log_sigma > 0.1);
  CHECK(prior.operators.empty());
  CHECK(prior.fixed_ms == 0);
}

TEST_CASE("a job whose machines others use leaves later jobs what memory it needs, and of its times nothing") {
  World world(GENERATE(from_range(test::backends())));
  const auto [values, disturbed] = GENERATE(table<std::uint64_t, std::uint64_t>({{100, 60}, {100, 40}}));
  JobRun& job = world.submit("gpt", "a");
  tuner::Calibration learnt;
  learnt.computation = {1.3, 0.02};
  learnt.memory = {1.2, 0.02};
  learnt.observations = 4;
  tuner::Calibration earlier;
  earlier.computation = {1.1, 0.05};
  earlier.observations = 3;
  TuningState state = in_first_search(job);
  state.earlier_calibration_json = tuner::to_json(earlier);
  SearchReply reply;
  reply.calibration_json = tuner::to_json(learnt);
  JobRun run(job.run(), state, {}, world.services.for_jobs);
  BatchAnswer batch;
  batch.values = {values, disturbed};
  run.stored(batch);
  run.feed(SearchFinished{1, reply});
  CHECK(run.state().calibration_json == reply.calibration_json);  // the job itself goes by it
  const auto kept = tuner::parse_calibration(world.costs.fact("hardware", "tenant/a/calibration/gpt").value().value());
  REQUIRE(kept.ok());
  CHECK(kept->memory.value == 1.2);
  CHECK(kept->computation.value == (2 * disturbed > values ? 1.1 : 1.3));
}

TEST_CASE("a command that the state has no room for is sent when there is room, in the same conversation") {
  World world(GENERATE(from_range(test::backends())));
  world.hello("n0", 1);
  world.hello("n1", 2);
  const auto described = [&] {
    return std::ranges::count_if(world.told[1], [](const wire::ToAgent& to) { return to.command().has_describe(); });
  };
  Database raw = Database::open(world.name_of("state.db"), DatabaseMode::kReadWrite, state_migrations()).value();
  const bool is_file = world.databases->backend() == test::Backend::kSqlite;
  REQUIRE(raw.execute(is_file ? "CREATE TRIGGER full BEFORE INSERT ON commands BEGIN SELECT RAISE(FAIL, 'no room'); END"
                              : "ALTER TABLE commands ADD CONSTRAINT no_room CHECK (false) NOT VALID")
              .ok());
  JobRun& job = world.submit("gpt");
  world.jobs.tick();
  REQUIRE(job.state().phase == Phase::kDescribing);
  CHECK(described() == 0);
  REQUIRE(raw.execute(is_file ? "DROP TRIGGER full" : "ALTER TABLE commands DROP CONSTRAINT no_room").ok());
  world.jobs.tick();
  CHECK(described() == 1);
  world.jobs.tick();
  CHECK(described() == 1);
}
