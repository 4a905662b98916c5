// An elastic job that is restarted for its trials loses a node for good: whatever runs then, the job itself goes on
// from its own checkpoint on what is left.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "tuning/tuning.hpp"

#include "../fake_world.hpp"
#include "../small_cluster.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using trimtab::coordinator::test::cluster_of;

namespace {

constexpr std::int64_t kSaved = 5;  // the step that the job's checkpoint is of

// A rank on each of three nodes. A search for the job finds "faster", one for a node fewer finds "spare".
class RestartedJob {
 public:
  explicit RestartedJob(Phase phase) : tuning_(state_of(phase)) {
    clock_.advance(std::chrono::hours(1));
    take(tuning_.resume({clock_.monotonic(), clock_.wall()}));
    for (int rank = 0; rank < 3; ++rank) feed(NodeBack{"n" + std::to_string(rank), {{rank, 1, 1}}});
    for (int rank = 0; rank < 3; ++rank) feed(FromRank{rank, 1, RankStep{10, 1, 100, 1, "", 0}});
  }

  void feed(const Event& event) { take(tuning_.handle(event, {clock_.monotonic(), clock_.wall()})); }
  void lose_for_good(const std::string& node) {
    feed(NodeLost{node});
    for (int second = 0; second < 10; ++second) {
      clock_.advance(std::chrono::seconds(1));
      feed(Tick{});
    }
  }
  // What was asked of the nodes is done.
  void carry_out(CommandKind kind) {
    const std::vector<OutstandingCommand> commands = state().outstanding;
    for (const OutstandingCommand& one : commands) {
      if (one.kind == kind) feed(CommandFinished{one.tag.text, true, "", ""});
    }
  }
  void step(std::int64_t number) {
    clock_.advance(std::chrono::milliseconds(100));
    for (std::int32_t rank = 0; rank < state().world_size(); ++rank) {
      feed(FromRank{rank, state().launch, RankStep{number, state().launch_epoch, 100, 1, "", 0}});
    }
  }

  // The incumbent's block is run; the candidate needs a launch of its own, and the job is asked to end.
  void run_to_trials_launch() {
    for (std::int64_t number = 11; number < 100 && state().doing != Doing::kKilling; ++number) step(number);
    REQUIRE(state().has_trial());
    REQUIRE(state().doing == Doing::kKilling);
    REQUIRE(state().after_kill == AfterKill::kRestart);
  }

  [[nodiscard]] const TuningState& state() const { return tuning_.state(); }
  [[nodiscard]] const std::vector<LaunchOn>& launches() const { return launches_; }
  [[nodiscard]] const std::vector<KillOn>& kills() const { return kills_; }
  [[nodiscard]] std::string history() const {
    std::string all;
    for (const Note& one : notes_) all += one.kind + ": " + one.text + "\n";
    return all;
  }

 private:
  static TuningState state_of(Phase phase) {
    TuningState state;
    state.job = fake_job();
    state.job.delivery = Delivery::kRestart;
    state.job.world_size = 3;
    state.job.steps = 100'000;
    state.job.trials.stop_after = false;
    state.job.elastic = true;
    state.job.allow_restarts = true;
    state.stops.saves_at_stop = true;
    state.phase = phase;
    state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}, {"n2", 2, 1}};
    state.cluster = cluster_of(3);
    state.initial = state.incumbent = {"all", "all"};
    state.initial_measured = state.incumbent_measured = {100, 99, 101, 20};
    state.hardware.probed_plan_hash = "all";  // the hardware was looked at
    state.epoch_hashes = {{1, "all"}};
    state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
    return state;
  }
  void take(const Outcome& told) {
    std::ranges::copy(told.notes, std::back_inserter(notes_));
    if (told.changed) REQUIRE(parse_tuning_state(to_json(tuning_.state())).ok());
    for (const Action& one : told.actions) {
      if (const auto* launch = std::get_if<LaunchOn>(&one)) launches_.push_back(*launch);
      if (const auto* kill = std::get_if<KillOn>(&one)) kills_.push_back(*kill);
      if (const auto* search = std::get_if<SearchPlans>(&one)) answer(*search);
    }
  }
  void answer(const SearchPlans& search) {
    const std::string plan = search.purpose == SearchFor::kSpare ? "spare" : "faster";
    SearchReply reply;
    reply.initial = reply.incumbent = {{"all", "all"}, "all", {100, 100, 95, 105, true}};
    reply.candidates.push_back({{plan, plan}, plan, {50, 50, 45, 55, true}});
    feed(SearchFinished{search.number, reply});
  }

  ManualClock clock_;
  Tuning tuning_;
  std::vector<LaunchOn> launches_;
  std::vector<KillOn> kills_;
  std::vector<Note> notes_;
};

// On two nodes, the job itself, from its checkpoint.
void check_goes_on(RestartedJob& job) {
  INFO(job.history());
  CHECK(job.state().world_size() == 2);
  CHECK(job.state().incumbent.hash == "spare");
  CHECK_FALSE(job.state().has_trial());
  job.carry_out(CommandKind::kKill);
  REQUIRE(job.launches().size() >= 2);
  const std::vector<LaunchOn> last(job.launches().end() - 2, job.launches().end());
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    CHECK(last[rank].node == "n" + std::to_string(rank));
    CHECK(last[rank].ranks == std::vector<std::uint32_t>{rank});
    CHECK(last[rank].plan_json == "spare");
    CHECK(last[rank].variant.empty());
    CHECK(last[rank].steps == 0);
    CHECK_FALSE(last[rank].fresh);
  }
  job.carry_out(CommandKind::kLaunch);
  job.step(kSaved + 1);
  CHECK(job.state().phase == Phase::kMeasuring);
  CHECK(job.state().step == kSaved + 1);
}

}  // namespace

TEST_CASE("a restarted elastic job that trains goes on without a lost node, and says from where", "[spare]") {
  RestartedJob job(Phase::kTraining);
  job.lose_for_good("n2");
  check_goes_on(job);
  CHECK_THAT(job.history(),
             Catch::Contains("ranks: on 2 devices the job goes on at step 6; 5 steps are trained again"));
}

TEST_CASE("a node that is lost anywhere in a trial's launch is left, and the job itself goes on", "[spare]") {
  RestartedJob job(Phase::kTrials);
  job.run_to_trials_launch();
  const std::int64_t trained = job.state().step;
  SECTION("the job has not ended yet") {}
  SECTION("the trial is being launched") {
    job.carry_out(CommandKind::kKill);
    REQUIRE(job.launches().back().variant == kTrialVariant);
  }
  SECTION("the trial runs") {
    job.carry_out(CommandKind::kKill);
    job.carry_out(CommandKind::kLaunch);
    job.step(trained + 1);
    REQUIRE(job.state().doing == Doing::kMeasuring);
  }
  SECTION("its ranks crash before the node has been silent for long") {
    job.carry_out(CommandKind::kKill);
    job.carry_out(CommandKind::kLaunch);
    job.step(trained + 1);
    job.feed(FromRank{0, job.state().launch, RankExited{1, 0, "connection closed by peer"}});
    REQUIRE(job.state().failed_hashes == std::vector<std::string>{"faster"});
  }
  job.lose_for_good("n2");
  CHECK(job.state().failed_hashes.empty());  // nothing was wrong with its plan
  CHECK_FALSE(job.state().was_tried("faster"));
  check_goes_on(job);
}

TEST_CASE("a lost node that comes back is told to end what it may run of former launches", "[spare]") {
  RestartedJob job(Phase::kTrials);
  job.run_to_trials_launch();
  job.carry_out(CommandKind::kKill);  // the trial's launch copies the checkpoint
  const std::uint64_t launch = job.state().launch;
  job.lose_for_good("n2");
  job.carry_out(CommandKind::kKill);
  REQUIRE(job.state().launch == launch + 1);
  const std::size_t before = job.kills().size();
  SECTION("it tells of no rank yet") {
    job.feed(NodeBack{"n2", {}, launch});
  }
  SECTION("it has one of the job itself") {
    job.feed(NodeBack{"n2", {{2, launch, 1}}, launch});
  }
  REQUIRE(job.kills().size() == before + 2);
  const KillOn own = job.kills()[before];
  const KillOn trial = job.kills()[before + 1];
  CHECK((own.node == "n2" && own.variant.empty() && own.launch == launch + 1));
  CHECK(own.unsaved);  // the job has saved since
  CHECK((trial.node == "n2" && trial.variant == kTrialVariant && trial.launch == launch + 1));
}

TEST_CASE("a resized job whose ranks found no checkpoint begins again, and a warning says why", "[spare]") {
  RestartedJob job(Phase::kTraining);
  job.lose_for_good("n0");  // which had it for itself
  job.carry_out(CommandKind::kKill);
  job.carry_out(CommandKind::kLaunch);
  job.step(0);
  CHECK_THAT(job.history(),
             Catch::Contains("warning: on 2 devices the job has begun at step 0 again, after 10 steps") &&
                 Catch::Contains("Its checkpoint must be where every node that may be left reaches"));
}
