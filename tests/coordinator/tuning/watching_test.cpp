// Jobs that their users launched: what is told of their ranks moves them, and nothing is asked of anybody.

#include <catch2/catch.hpp>

#include "tuning/tuning.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct Watched {
  ManualClock clock;
  std::unique_ptr<Tuning> tuning;
  std::vector<std::string> notes;
  std::vector<MeasuredStep> steps;

  explicit Watched(std::int32_t world_size = 2) {
    TuningState state;
    state.launch = 1;
    state.job.name = "train";
    state.watched = true;
    state.job.world_size = world_size;
    state.initial = state.incumbent = {"", std::string(kAsLaunched)};
    tuning = std::make_unique<Tuning>(std::move(state));
    took(tuning->begin(now()));
  }
  [[nodiscard]] Moment now() const { return {clock.monotonic(), clock.wall()}; }
  [[nodiscard]] const TuningState& state() const { return tuning->state(); }

  void took(const Outcome& told) {
    CHECK(told.actions.empty());  // whatever happens
    for (const Note& note : told.notes) notes.push_back(note.text);
    std::ranges::copy(told.steps, std::back_inserter(steps));
    CHECK(told.decisions.empty());
  }
  void feed(const Event& event) { took(tuning->handle(event, now())); }
  void pass(Nanoseconds time) {
    clock.advance(time);
    feed(Tick{});
  }
  void rank(std::int32_t number, std::uint64_t launch = 1, std::int32_t world_size = 2,
            const std::string& node = "n0") {
    feed(RankWatched{node, "hash", number, launch, world_size});
  }
  void tell(std::int32_t number, const RankNews& news, std::uint64_t launch = 1) {
    feed(FromRank{number, launch, news});
  }
  void step(std::int32_t number, std::int64_t step, double ms, std::uint64_t launch = 1) {
    RankStep told;
    told.step = step;
    told.wall_ms = ms;
    told.loss = 2;
    tell(number, told, launch);
  }
  void both_step(std::int64_t number, double ms = 10) {
    step(0, number, ms);
    step(1, number, ms);
  }
  void both_run() {
    rank(0);
    rank(1);
    REQUIRE(state().phase == Phase::kTraining);
  }
  // Another coordinator goes on from what was stored.
  void restart_coordinator() {
    tuning = std::make_unique<Tuning>(parse_tuning_state(to_json(state())).value());
    took(tuning->resume(now()));
  }
  [[nodiscard]] bool has_note(const std::string& text) const {
    return std::ranges::any_of(notes, [&](const std::string& one) { return one.find(text) != std::string::npos; });
  }
};

constexpr std::chrono::seconds kSecond(1);

}  // namespace

TEST_CASE("a watched job trains once all its ranks are told of, and says how long a step takes", "[watching]") {
  Watched one;
  CHECK(one.state().phase == Phase::kWaiting);
  one.rank(0);
  CHECK(one.state().phase == Phase::kWaiting);
  one.rank(1, 1, 2, "n1");
  CHECK(one.state().phase == Phase::kTraining);
  CHECK(one.state().nodes == std::vector<NodeShare>{{"n0", 0, 1}, {"n1", 1, 1}});
  CHECK(one.state().fingerprint == "hash");
  for (int i = 1; i <= 60; ++i) {
    one.step(0, i, 10);
    one.step(1, i, 12);
  }
  CHECK(one.state().step == 60);
  CHECK(one.state().step_ms == 12);
  CHECK(one.state().loss == 2);
  CHECK(one.state().initial_measured.steps == 20);
  CHECK(one.state().initial_measured.mean_ms == Approx(12));
  CHECK(one.has_note("as its user launched it"));
  CHECK(std::ranges::count_if(one.steps, [](const MeasuredStep& step) { return !step.warmup; }) == 20);
}

TEST_CASE("ranks that never come are not waited for: steps are those of the ranks that are known", "[watching]") {
  Watched one;
  one.rank(0);
  one.pass(29 * kSecond);
  CHECK(one.state().phase == Phase::kWaiting);
  one.pass(2 * kSecond);
  CHECK(one.state().phase == Phase::kTraining);
  CHECK(one.has_note("1 of 2 ranks"));
  one.step(0, 1, 10);
  CHECK(one.state().step == 1);
  one.rank(1);
  one.step(0, 2, 10);
  CHECK(one.state().step == 1);  // of both by now
  one.step(1, 2, 10);
  CHECK(one.state().step == 2);
}

TEST_CASE("a watched job is finished when all its ranks have ended well", "[watching]") {
  Watched one;
  one.both_run();
  one.tell(0, RankSaidBye{});
  one.tell(0, RankExited{0, 0, ""});
  CHECK(one.state().phase == Phase::kTraining);
  one.step(1, 5, 10);  // the living one goes on
  CHECK(one.state().step == 5);
  one.tell(1, RankExited{0, 0, ""});
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().failure.empty());
}

TEST_CASE("a rank that was quicker than the others came does not end the job", "[watching]") {
  Watched one;
  one.rank(0);
  one.tell(0, RankExited{0, 0, ""});
  CHECK(one.state().phase == Phase::kWaiting);
  SECTION("they come") {
    one.rank(1);
    CHECK(one.state().phase == Phase::kTraining);
    one.tell(1, RankExited{0, 0, ""});
  }
  SECTION("they do not") {
    one.pass(31 * kSecond);
    CHECK(one.state().phase == Phase::kTraining);
    one.pass(kSecond);
  }
  CHECK(one.state().phase == Phase::kFinished);
}

TEST_CASE("a rank that ended badly ends the job after a minute, in which its launcher may start it again",
          "[watching]") {
  Watched one;
  one.both_run();
  one.tell(0, RankExited{-1, 0, ""});
  one.tell(1, RankExited{0, 15, ""});
  one.pass(59 * kSecond);
  CHECK(one.state().phase == Phase::kTraining);
  SECTION("nobody does") {
    one.pass(2 * kSecond);
    CHECK(one.state().phase == Phase::kFailed);
    CHECK_THAT(one.state().failure, Catch::Contains("rank 0 ended"));
  }
  SECTION("it goes on as the same run, with as many ranks as there are then") {
    one.rank(0, 2, 1);
    one.pass(2 * kSecond);
    CHECK(one.state().phase == Phase::kTraining);
    CHECK(one.state().launch == 2);
    CHECK(one.state().world_size() == 1);
    one.tell(1, RankExited{-1, 0, ""}, 1);  // late news of the launch before
    one.step(0, 7, 10, 2);
    CHECK(one.state().step == 7);
    one.tell(0, RankExited{0, 0, ""}, 2);
    CHECK(one.state().phase == Phase::kFinished);
  }
}

TEST_CASE("a further run of the same name is told from a restart of this one", "[watching]") {
  Watched one;
  one.both_run();
  const RankWatched again{"n0", "hash", 0, 1, 2};
  CHECK_FALSE(one.tuning->watching().is_over_for(again));
  one.tell(0, RankExited{-1, 0, ""});
  CHECK_FALSE(one.tuning->watching().is_over_for(again));
  one.tell(1, RankExited{-1, 0, ""});
  CHECK(one.tuning->watching().is_over_for(again));
  CHECK_FALSE(one.tuning->watching().is_over_for({"n0", "hash", 0, 2, 2}));
  one.feed(RunReplaced{});
  CHECK(one.state().phase == Phase::kFailed);
}

TEST_CASE("a rank that lives on one node is no other node's", "[watching]") {
  Watched one;
  one.both_run();
  CHECK(one.tuning->watching().is_held_elsewhere({"n1", "hash", 0, 1, 2}));
  CHECK_FALSE(one.tuning->watching().is_held_elsewhere({"n0", "hash", 0, 1, 2}));
  CHECK_FALSE(one.tuning->watching().is_held_elsewhere({"n1", "hash", 0, 2, 2}));
  one.feed(NodeLost{"n0"});
  CHECK_FALSE(one.tuning->watching().is_held_elsewhere({"n1", "hash", 0, 1, 2}));
}

TEST_CASE("silence of a watched job is told once, and nothing is ended", "[watching]") {
  Watched one;
  one.both_run();
  one.pass(one.state().job.hang + kSecond);
  one.pass(one.state().job.hang);
  CHECK(one.state().phase == Phase::kTraining);
  CHECK(std::ranges::count_if(
            one.notes, [](const std::string& note) { return note.find("no sign of life") != std::string::npos; }) == 1);
}

TEST_CASE("a coordinator that is started anew goes on with the ranks that agents still tell of", "[watching]") {
  Watched one;
  one.rank(0);
  one.rank(1, 1, 2, "n1");
  one.both_step(3);
  one.restart_coordinator();
  CHECK(one.state().phase == Phase::kTraining);
  one.feed(NodeBack{"n0", {{0, 1, 0, true}}});
  SECTION("both") {
    one.feed(NodeBack{"n1", {{1, 1, 0, true}}});
    one.rank(0);
    one.rank(1, 1, 2, "n1");
    one.both_step(4);
    CHECK(one.state().step == 4);
    one.pass(std::chrono::minutes(5));
    CHECK(one.state().phase == Phase::kTraining);
  }
  SECTION("of which one has ended meanwhile, as its agent tells") {
    one.feed(NodeBack{"n1", {}});
    one.tell(1, RankExited{0, 0, ""});
    one.step(0, 5, 10);
    CHECK(one.state().step == 5);
    one.tell(0, RankExited{0, 0, ""});
    CHECK(one.state().phase == Phase::kFinished);
  }
  SECTION("of which nobody knows how one has ended") {
    one.feed(NodeBack{"n1", {}});
    one.tell(0, RankExited{0, 0, ""});
    one.pass(61 * kSecond);
    CHECK(one.state().phase == Phase::kFailed);
    CHECK_THAT(one.state().failure, Catch::Contains("rank 1 ended while its agent was away"));
  }
  SECTION("whose node does not come back") {
    one.tell(0, RankExited{0, 0, ""});
    one.pass(std::chrono::minutes(59));
    CHECK(one.state().phase == Phase::kTraining);
    one.pass(std::chrono::minutes(2));
    CHECK(one.state().phase == Phase::kFailed);
  }
}

TEST_CASE("orders, searches and kill switches change nothing of a watched job", "[watching]") {
  Watched one;
  one.both_run();
  const std::string before = to_json(one.state());
  for (const Order order : {Order::kStop, Order::kFreeze, Order::kUnfreeze, Order::kApprove, Order::kResume}) {
    one.feed(order);
  }
  one.feed(SearchFinished{1, {}});
  one.feed(NodesReady{{{"n0", 0, 2}}, ClusterText("{}"), "other"});
  one.feed(KillSwitches{{"n0"}});
  CHECK(one.tuning->kill_switches() == KillSwitches{{"n0"}});
  CHECK(one.tuning->held_by().empty());
  CHECK(to_json(one.state()) == before);
}

TEST_CASE("ranks come in any order and from any node", "[watching]") {
  Watched one(6);
  for (const std::int32_t rank : {4, 0, 5, 2}) one.rank(rank, 1, 6);
  one.rank(1, 1, 6, "n1");
  one.rank(3, 1, 6, "n1");
  CHECK(one.state().phase == Phase::kTraining);
  CHECK(one.state().nodes ==
        std::vector<NodeShare>{{"n0", 0, 1}, {"n1", 1, 1}, {"n0", 2, 1}, {"n1", 3, 1}, {"n0", 4, 2}});
  one.tell(5, RankExited{-1, 0, ""});
  one.rank(5, 1, 6, "n1");  // its process was started on another node
  CHECK(one.state().nodes.back() == NodeShare{"n1", 5, 1});
  CHECK(one.has_note("rank 5 runs again"));
}
