// A node speaks for itself alone: what it says of others' ranks, commands and traces changes nothing.

#include "agents/wire_events.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "../../peak_memory.hpp"
#include "../agents_world.hpp"
#include "api/metrics.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

constexpr std::uint64_t kCurrentLaunch = 5;
constexpr std::uint64_t kEpoch = 7;

// Two nodes, n0 (peer 1) and n1 (peer 2), and a job in training that has rank 0 on the one and rank 1 on the other. The
// coordinator has just come back.
struct Training : World {
  JobRun* job = nullptr;

  explicit Training(Phase phase = Phase::kTraining) {
    TuningState state;
    state.job.name = "gpt";
    state.job.world_size = 2;
    state.job.steps = 1000;
    state.job.working_directory = "/";
    state.job.describe = {"describe"};
    state.job.benchmark = {"benchmark"};
    state.job.train = {"train"};
    state.phase = phase;
    state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}};
    state.initial = state.incumbent = state.launch_plan = {"{}", "hash"};
    state.launch = kCurrentLaunch;
    state.launch_epoch = state.committed_epoch = state.last_epoch = kEpoch;
    state.epoch_hashes = {{kEpoch, "hash"}};
    REQUIRE(store.add_job(state, 1).ok());
    REQUIRE(jobs.restore().ok());
    job = jobs.find("gpt");
  }
  static wire::RunningRank& add_rank(wire::FromAgent& hello, std::uint32_t rank, std::uint64_t epoch) {
    wire::RunningRank& running = *hello.mutable_hello()->add_running();
    running.set_job("gpt");
    running.set_rank(rank);
    running.set_launch(kCurrentLaunch);
    running.set_epoch(epoch);
    return running;
  }
  static wire::FromAgent introduction(const std::string& node) {
    return test::hello_of(node, "of " + node, fingerprint_json());
  }
  void both_come() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      wire::FromAgent hello = introduction("n" + std::to_string(rank));
      add_rank(hello, rank, 0);
      say(rank + 1, hello);
    }
  }
  void tell(std::uint64_t peer, std::uint32_t rank, const std::function<void(wire::RankEvent&)>& fill,
            std::uint64_t launch = kCurrentLaunch) {
    wire::FromAgent from;
    wire::RankEvent& event = *from.mutable_rank_event();
    event.set_job("gpt");
    event.set_rank(rank);
    event.set_launch(launch);
    fill(event);
    say(peer, from);
  }
  void acknowledge(std::uint64_t peer, std::uint32_t rank, std::uint64_t epoch) {
    tell(peer, rank, [&](wire::RankEvent& event) { event.mutable_plan_ack()->set_epoch(epoch); });
  }
  void exited(std::uint64_t peer, std::uint32_t rank, std::uint64_t launch = kCurrentLaunch) {
    tell(
        peer, rank, [](wire::RankEvent& event) { event.mutable_exited()->set_exit_code(1); }, launch);
  }
  [[nodiscard]] int count(std::uint64_t peer, const std::function<bool(const wire::ToAgent&)>& which) const {
    const auto all = told.find(peer);
    return all == told.end() ? 0 : static_cast<int>(std::ranges::count_if(all->second, which));
  }
  [[nodiscard]] int proposals() const {
    return count(1, [](const wire::ToAgent& to) { return to.has_plan_propose(); });
  }
  [[nodiscard]] int commits() const {
    return count(1, [](const wire::ToAgent& to) { return to.has_plan_commit(); });
  }
  [[nodiscard]] int kills() const {
    return count(1, [](const wire::ToAgent& to) { return to.command().has_kill(); });
  }
  [[nodiscard]] double foreign(const std::string& what) const {
    const auto found = services.foreign.counts().find(what);
    return found == services.foreign.counts().end() ? 0 : found->second;
  }
};

}  // namespace

TEST_CASE("a node that acknowledges a plan for another's rank commits nothing") {
  Training world;
  world.both_come();
  REQUIRE(world.proposals() == 1);  // the incumbent, whatever the ranks run
  const std::uint64_t epoch = world.job->state().last_epoch;
  world.acknowledge(1, 0, epoch);
  world.acknowledge(1, 1, epoch);
  CHECK(world.commits() == 0);
  CHECK(world.foreign("rank") == 1);
  world.acknowledge(2, 1, epoch);
  CHECK(world.commits() == 1);
  CHECK(world.foreign("rank") == 1);
  CHECK(metrics_text(world.services, world.jobs).find("trimtab_foreign_messages_total{what=\"rank\"} 1\n") !=
        std::string::npos);
}

TEST_CASE("a node that says that another's rank has ended ends nothing") {
  Training world;
  world.both_come();
  world.exited(1, 1);
  CHECK(world.kills() == 0);
  CHECK(world.foreign("rank") == 1);
  world.exited(2, 1);
  CHECK(world.kills() == 1);
}

TEST_CASE("what comes late of a launch that is over is no offence, and changes nothing") {
  Training world;
  world.both_come();
  world.exited(1, 1, kCurrentLaunch - 1);
  world.exited(2, 1, kCurrentLaunch - 1);
  CHECK(world.kills() == 0);
  CHECK(world.services.foreign.counts().empty());
}

TEST_CASE("a hello that names another's rank says nothing of what that rank runs") {
  Training world;
  wire::FromAgent second = Training::introduction("n1");
  Training::add_rank(second, 1, 0);  // does not know its epoch
  world.say(2, second);
  wire::FromAgent first = Training::introduction("n0");
  Training::add_rank(first, 0, kEpoch);
  Training::add_rank(first, 1, kEpoch);
  world.say(1, first);
  CHECK(world.proposals() == 1);  // not taken for two ranks that run the incumbent
}

TEST_CASE("a node that answers for a command of another finishes and moves nothing") {
  World world;
  world.hello("n0", 1);
  world.hello("n1", 2);
  const JobRun& job = world.submit("gpt");
  REQUIRE(job.state().phase == Phase::kDescribing);
  const auto command = std::ranges::find_if(world.told[1], [](const wire::ToAgent& to) { return to.has_command(); });
  REQUIRE(command != world.told[1].end());
  wire::FromAgent done;
  done.mutable_command_done()->set_id(command->command().id());
  done.mutable_command_done()->set_error("broken");
  world.say(2, done);
  wire::FromAgent moved;
  moved.mutable_command_progress()->set_id(command->command().id());
  moved.mutable_command_progress()->set_what("nonsense");
  world.say(2, moved);
  CHECK(job.state().phase == Phase::kDescribing);
  CHECK(job.state().outstanding.size() == 1);
  CHECK(world.services.foreign.counts().at("command") == 2);
  wire::FromAgent unknown = done;
  unknown.mutable_command_done()->set_id(99'999);  // of a run that is forgotten
  world.say(2, unknown);
  CHECK(world.services.foreign.counts().at("command") == 2);
  world.say(1, done);
  CHECK(job.state().phase == Phase::kFailed);
}

TEST_CASE("a node neither ends another's part of a trace nor shows what another's ranks do") {
  Training world;
  world.both_come();
  const std::uint64_t trace = world.services.traces.start({"gpt", "*"}, {"n0", "n1"}, {2, 0}, {}).value();
  world.trace_end(1, trace, "n1");
  CHECK_FALSE(world.trace_document(trace).at("nodes")[1].at("ended").get<bool>());
  wire::FromAgent chunk;
  chunk.mutable_trace_chunk()->set_id(trace);
  chunk.mutable_trace_chunk()->set_node("n0");
  chunk.mutable_trace_chunk()->set_rank(1);
  world.say(1, chunk);
  CHECK(world.trace_document(trace).at("chunks") == 0);
  chunk.mutable_trace_chunk()->set_rank(0);
  world.say(1, chunk);
  CHECK(world.trace_document(trace).at("chunks") == 1);
  CHECK(world.foreign("trace") == 2);
  wire::FromAgent activity;
  activity.mutable_rank_activity()->set_job("gpt");
  activity.mutable_rank_activity()->set_rank(1);
  const auto shown = [&] {
    const auto live = json::parse(world.services.live.document("gpt", world.clock.monotonic()));
    return live.at("ranks").size();
  };
  world.say(1, activity);
  CHECK(shown() == 0);
  world.say(2, activity);
  CHECK(shown() == 1);
  CHECK(world.foreign("activity") == 1);
}

TEST_CASE("a node's stamps of another's rank are left out") {
  Training world;
  world.both_come();
  wire::FromAgent stamps;
  stamps.mutable_collective_stamps()->set_job("gpt");
  stamps.mutable_collective_stamps()->set_rank(1);
  world.say(1, stamps);
  CHECK(world.foreign("collective") == 1);
  world.say(2, stamps);
  CHECK(world.foreign("collective") == 1);
}

TEST_CASE("stamps with a fingerprint that no hardware has are left out and counted") {
  Training world;
  world.both_come();
  wire::FromAgent stamps;
  stamps.mutable_collective_stamps()->set_fingerprint_json(std::string(kLongestFingerprint + 1, ' '));
  world.say(1, stamps);
  CHECK(world.services.counters.frames_malformed == 1);
}

TEST_CASE("a node that invents variants, streams and kernels of its rank takes a few kilobytes") {
  Training world;
  world.both_come();
  wire::FromAgent activity;
  wire::RankActivity& said = *activity.mutable_rank_activity();
  said.set_job("gpt");
  for (int i = 0; i < 60'000; ++i) said.add_streams();
  said.add_busiest()->set_name(std::string(50'000, 'k'));
  world.say(1, activity);  // what reading one takes is there from now on
  const test::PeakMemory memory;
  for (int variant = 0; variant < 50; ++variant) {
    said.set_variant(variant % 2 == 0 ? "" : "v" + std::to_string(variant));
    world.say(1, activity);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what is freed for a while
  CHECK(memory.growth_bytes() < 16 << 20);
#endif
  const json live = json::parse(world.services.live.document("gpt", world.clock.monotonic()));
  REQUIRE(live.at("ranks").size() == 1);
  CHECK(live.at("ranks")[0].at("streams").size() == 64);
  CHECK(live.at("ranks")[0].at("busiest")[0].at("name").get<std::string>().size() == 256);
}

TEST_CASE("a node that invents launches at every hello gets few commands, and those that it answers make room") {
  Training world;
  world.both_come();
  const auto come_with = [&world](std::uint64_t first) {
    world.clock.advance(std::chrono::seconds(1));
    world.agents.closed(1, "gone");
    wire::FromAgent hello = Training::introduction("n0");
    for (std::uint64_t launch = first; launch < first + 200; ++launch) {
      Training::add_rank(hello, 0, 0).set_launch(launch);
    }
    world.say(1, hello);
  };
  const auto ids = [&world] {
    std::set<std::uint64_t> all;
    for (const wire::ToAgent& to : world.told[1]) {
      if (to.command().has_kill()) all.insert(to.command().id());
    }
    return all;
  };
  come_with(std::uint64_t{1} << 40);        // more than can have been given out
  const std::size_t of_job = ids().size();  // rank 0 is gone: the job ends what there is of it
  CHECK(of_job <= 1);
  for (std::uint64_t i = 0; i < 20; ++i) come_with(1000 + 200 * i);
  CHECK(ids().size() == of_job + 64);
  const std::size_t sent = world.told[1].size();
  come_with(1000);  // what it was told before it is told again, by the same command
  CHECK(ids().size() == of_job + 64);
  CHECK(world.told[1].size() >= sent + 64);
  for (const std::uint64_t id : ids()) {
    wire::FromAgent done;
    done.mutable_command_done()->set_id(id);
    done.mutable_command_done()->set_ok(true);
    world.say(1, done);
  }
  come_with(20'000);
  CHECK(ids().size() == of_job + 64);  // a minute has not passed
  world.clock.advance(std::chrono::minutes(1));
  come_with(20'000);
  CHECK(ids().size() == of_job + 128);
}

TEST_CASE("a node that introduces itself without end is told to come later, and is taken up then") {
  World world;
  for (std::uint64_t peer = 1; peer <= 20; ++peer) world.hello("n0", peer);
  CHECK(world.members.by_node("n0")->peer < 20);
  CHECK_THAT(world.told[20].back().refused().reason(), Catch::Contains("within ten seconds"));
  world.hello("n1", 21);
  CHECK(world.members.by_node("n1")->peer == 21);
  world.clock.advance(std::chrono::seconds(10));
  world.hello("n0", 22);
  CHECK(world.members.by_node("n0")->peer == 22);
}

TEST_CASE("nodes that come back with a thrown kill switch begin no trial") {
  const bool thrown = GENERATE(true, false);
  Training world(Phase::kTrials);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    wire::FromAgent hello = world.introduction("n" + std::to_string(rank));
    world.add_rank(hello, rank, kEpoch);
    hello.mutable_hello()->set_kill_switch(thrown && rank == 1);
    world.say(rank + 1, hello);
  }
  CHECK(world.job->tuning().held_by() == (thrown ? "the kill switch of node n1 is thrown" : ""));
  CHECK(world.services.counters.searches == (thrown ? 0 : 1));
  const auto log = world.store.audit("", 0, 100).value();
  const auto is_throw = [](const StoredAudit& one) { return one.audit.what == "throw the kill switch"; };
  CHECK(std::ranges::count_if(log, is_throw) == (thrown ? 1 : 0));
}

TEST_CASE("pictures of ranks that no report shows are not kept") {
  Training world;
  world.both_come();
  CHECK(world.job->pictured(0, kEpoch, 5, R"([["forward",0,2]])").ok());
  CHECK(world.job->pictures() == 0);  // its plan is none
  CHECK_FALSE(world.job->pictured(0, kEpoch, 5, "nonsense").ok());
}
