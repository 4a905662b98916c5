// A node that comes back with another hardware fingerprint than it left with.

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "tuning/tuning.hpp"

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr double kFormerMs = 100;
constexpr double kNowMs = 140;

Cluster cluster(const std::string& fingerprint_of_n1) {
  Cluster two;
  two.nodes.push_back({"n0", "first", 1, 1000, 0});
  two.nodes.push_back({"n1", fingerprint_of_n1, 1, 1000, 0});
  return two;
}

// Two ranks on n0 and n1, which are alike unless `n1` says otherwise, train their adopted plan. Costs are of n0's.
class Training {
 public:
  explicit Training(Phase phase = Phase::kTraining, JobMode mode = JobMode::kAuto, const std::string& n1 = "first")
      : tuning_(std::make_unique<Tuning>(state_of(phase, mode, n1))) {
    take(tuning_->resume({clock_.monotonic(), clock_.wall()}));
    returns("n0", "first");
    if (phase != Phase::kTraining) return;
    returns("n1", n1);
    steps(3, kFormerMs);
  }

  void feed(const Event& event) { take(tuning_->handle(event, {clock_.monotonic(), clock_.wall()})); }
  // With the ranks of the present launch, or without.
  void returns(const std::string& node, const std::string& fingerprint, bool with_ranks = true) {
    const std::int32_t rank = node == "n0" ? 0 : 1;
    NodeBack back{node, {}, 0, fingerprint, 1, 500};
    if (with_ranks) back.ranks.push_back({rank, state().launch, state().launch_epoch});
    feed(back);
  }
  void steps(int count, double ms) {
    for (int i = 0; i < count; ++i, ++step_) {
      clock_.advance(std::chrono::milliseconds(static_cast<int>(ms)));
      for (std::int32_t rank = 0; rank < 2; ++rank) {
        feed(FromRank{rank, state().launch, RankStep{step_, state().launch_epoch, ms, 1, "", 0}});
      }
    }
  }
  void carry_out() {
    while (!state().outstanding.empty()) feed(CommandFinished{state().outstanding.front().tag.text, true, "", ""});
  }

  // Both nodes were away, and are others now.
  void replace_both(bool with_ranks = false) {
    if (!with_ranks) feed(NodeLost{"n0"});
    if (!with_ranks) feed(NodeLost{"n1"});
    returns("n0", "second", with_ranks);
    returns("n1", "second", with_ranks);
  }
  // Of what was done since the last call, that of a kind.
  template <typename One>
  std::vector<One> done() {
    std::vector<One> found;
    for (const Action& action : actions_) {
      if (const auto* one = std::get_if<One>(&action)) found.push_back(*one);
    }
    actions_.clear();
    return found;
  }
  void restart_coordinator() {
    tuning_ = std::make_unique<Tuning>(parse_tuning_state(to_json(tuning_->state())).value());
    take(tuning_->resume({clock_.monotonic(), clock_.wall()}));
  }
  void pass(Nanoseconds time) {
    clock_.advance(time);
    feed(Tick{});
  }

  [[nodiscard]] const TuningState& state() const { return tuning_->state(); }
  [[nodiscard]] long says(const std::string& words) const {
    return std::ranges::count_if(notes_, [&](const auto& one) { return one.find(words) != std::string::npos; });
  }

 private:
  static TuningState state_of(Phase phase, JobMode mode, const std::string& n1) {
    TuningState state;
    state.job = fake_job();
    state.job.mode = mode;
    state.job.steps = 100'000;
    state.job.trials.stop_after = false;
    state.phase = phase;
    state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}};
    state.cluster = cluster(n1);
    state.fingerprint = "first of the job";
    state.hardware.costs_hardware = "first";
    state.calibration_json = state.earlier_calibration_json = "{}";
    state.hardware.slow_devices = {{0, 0.9}, {1, 0.5}};
    state.initial = {"initial", "initial"};
    state.incumbent = {"best", "best"};
    state.incumbent_measured = {kFormerMs, kFormerMs - 1, kFormerMs + 1, 20};
    state.epoch_hashes = {{1, "best"}};
    state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
    if (phase == Phase::kDescribing) state.outstanding = {{"describe", "n0", CommandKind::kDescribe}};
    return state;
  }
  void take(const Outcome& told) {
    std::ranges::copy(told.actions, std::back_inserter(actions_));
    for (const Note& one : told.notes) notes_.push_back(one.text);
    if (told.changed) REQUIRE(parse_tuning_state(to_json(tuning_->state())).ok());
  }

  ManualClock clock_;
  std::unique_ptr<Tuning> tuning_;
  std::vector<Action> actions_;
  std::int64_t step_ = 10;
  std::vector<std::string> notes_;
};

}  // namespace

TEST_CASE("a node that comes back as other hardware is told of, and the job is measured anew with it", "[hardware]") {
  Training job;
  job.feed(NodeLost{"n1"});
  job.returns("n1", "second", false);
  CHECK(job.says("node n1 came back as other hardware: fingerprint second instead of first") == 1);
  CHECK(job.state().hardware.slow_devices == std::map<std::int32_t, double>{{0, 0.9}});
  const Cluster now = *job.state().cluster.said();
  CHECK(now.nodes[1].fingerprint == "second");
  CHECK(now.nodes[1].memory_bytes == 500);
  // What is known of n0's hardware is still the job's.
  CHECK(job.state().fingerprint == "first of the job");
  job.carry_out();
  REQUIRE(job.state().launch == 2);
  job.steps(60, kNowMs);
  CHECK(job.says("the running plan is measured anew, with node n1 as it is now") == 1);
  CHECK(job.state().incumbent.hash == "best");
  CHECK(job.state().incumbent_measured.mean_ms == Approx(kNowMs));
  CHECK(job.state().observations.front().measured_ms == Approx(kNowMs));
  CHECK(job.state().phase == Phase::kTrials);
}

namespace {

Probe computation(std::int32_t device, double ms) {
  return {device, "n" + std::to_string(device), "", "", ms, "computation"};
}

Probe training(std::int32_t device, double ms) {
  return {device, "n" + std::to_string(device), "", "", ms, training_work("best")};
}

}  // namespace

TEST_CASE("how fast a replaced device is comes from a look before any trial, and the search is made with it",
          "[hardware]") {
  Training job;
  // The plan was looked at on the former device, which had half of its speed left.
  const bool trained_before = GENERATE(true, false);
  if (trained_before) job.feed(HardwareProbed{{training(0, 30), training(1, 60)}, "", "best"});
  job.returns("n1", "second");
  job.steps(60, kNowMs);
  REQUIRE(job.state().phase == Phase::kTrials);
  const auto looks = job.done<ProbeHardware>();
  REQUIRE(looks.size() >= 1);
  CHECK(looks.back().computing);
  CHECK(looks.back().takes == kProbeTakes);
  const std::uint64_t searches = job.state().search.searches;
  job.feed(SearchFinished{searches, SearchReply{}});
  CHECK(job.state().doing == Doing::kSearching);  // nothing is decided before the look's answer
  job.feed(HardwareProbed{{computation(0, 10), computation(1, 25), training(0, 30), training(1, 50)}, "", "best"});
  CHECK(job.state().hardware.slow_devices.at(0) == 0.9);
  CHECK(job.state().hardware.slow_devices.at(1) == Approx(trained_before ? 0.6 : 0.4));
  CHECK(job.state().search.searches > searches);
  CHECK(job.state().hardware.unprobed_nodes.empty());
  CHECK(job.says("node n1, which is of other hardware, computes, beside what costs were measured on: device 1 at") ==
        1);
}

TEST_CASE("a device of the kind that costs were measured on is as fast, and one that no probe tells of is told",
          "[hardware]") {
  Training job;
  job.returns("n1", "second");
  job.returns("n1", "first");
  CHECK(job.state().hardware.unprobed_nodes.empty());
  job.returns("n1", "second");
  job.steps(60, kNowMs);
  job.feed(HardwareProbed{{computation(0, 10)}, "", "best"});
  CHECK(job.state().hardware.slow_devices == std::map<std::int32_t, double>{{0, 0.9}});
  CHECK(job.says("no probe has told; it is taken to be as fast") == 1);
}

TEST_CASE("ranks that live while their node's fingerprint changes train on, and are measured anew", "[hardware]") {
  Training job;
  job.returns("n1", "second");
  CHECK(job.state().launch == 1);
  CHECK(job.state().phase == Phase::kMeasuring);
  job.steps(60, kNowMs);
  CHECK(job.state().launch == 1);
  CHECK(job.state().incumbent_measured.mean_ms == Approx(kNowMs));
}

TEST_CASE("where every node is other hardware, nothing learnt of the former is the job's", "[hardware]") {
  Training job;
  job.returns("n0", "second");
  job.returns("n1", "second");
  CHECK(job.state().fingerprint == "second");
  CHECK(job.state().earlier_calibration_json.empty());
  CHECK(job.state().calibration_json.empty());
}

TEST_CASE("on mixed hardware costs stay the job's as long as a node is of theirs", "[hardware]") {
  Training job(Phase::kTraining, JobMode::kAuto, "second");
  const std::string now = GENERATE("third", "first");
  job.returns("n1", now);
  CHECK(job.state().fingerprint == "first of the job");
  CHECK(job.state().calibration_json == "{}");
  CHECK_FALSE(job.state().hardware.unprofiled);
  CHECK(job.state().hardware.slow_devices == std::map<std::int32_t, double>{{0, 0.9}});
  CHECK(job.state().hardware.unprobed_nodes.empty() == (now == "first"));
}

TEST_CASE("on mixed hardware, where no node is of the costs' any more, they are those of most devices", "[hardware]") {
  Training job(Phase::kTraining, JobMode::kAuto, "second");
  const std::string now = GENERATE("second", "third");
  job.returns("n0", now);
  CHECK(job.state().fingerprint == now);
  CHECK(job.state().hardware.costs_hardware == now);
  CHECK(job.state().hardware.unprofiled);
  CHECK(job.state().calibration_json.empty());
  // How slow devices were was beside those that are gone.
  CHECK(job.state().hardware.slow_devices.empty());
  CHECK(job.state().hardware.unprobed_nodes.empty() == (now == "second"));
}

TEST_CASE("the same hardware that comes back changes nothing", "[hardware]") {
  Training job;
  job.feed(NodeLost{"n1"});
  job.returns("n1", "first");
  CHECK(job.says("other hardware") == 0);
  CHECK(job.state().phase == Phase::kTraining);
  CHECK(job.state().hardware.slow_devices.size() == 2);
}

TEST_CASE("a job that is prepared for other hardware than comes back has failed, and says what to do", "[hardware]") {
  Training job(Phase::kDescribing);
  job.returns("n1", "second", false);
  job.carry_out();
  CHECK(job.state().phase == Phase::kFailed);
  CHECK_THAT(job.state().failure,
             Catch::Contains("n1 came back as other hardware") && Catch::Contains("Hand the job in again"));
}

TEST_CASE("a node that comes back with fewer devices than its ranks need halts the job", "[hardware]") {
  TuningState state;
  state.job = fake_job();
  state.phase = Phase::kTraining;
  state.nodes = {{"n0", 0, 2}};
  Cluster one;
  one.nodes.push_back({"n0", "first", 2, 1000, 0});
  state.cluster = one;
  state.incumbent = {"best", "best"};
  state.epoch_hashes = {{1, "best"}};
  state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
  Tuning tuning(state);
  (void)tuning.resume({});
  (void)tuning.handle(NodeBack{"n0", {}, 0, "second", 1, 500}, {});
  REQUIRE(tuning.state().doing == Doing::kKilling);
  (void)tuning.handle(CommandFinished{tuning.state().outstanding.front().tag.text, true, "", ""}, {});
  CHECK(tuning.state().doing == Doing::kHalted);
  CHECK_THAT(tuning.state().failure, Catch::Contains("with 1 devices where the job needs 2"));
}

namespace {

const CostsCounted kNoneKnown{0, 3, {"{}"}, {3}, "a, b", ""};
const CostsCounted kAllKnown{3, 0, {}, {}, "", ""};

}  // namespace

TEST_CASE("where every node is other hardware, the job's costs are measured anew before its next launch",
          "[hardware]") {
  Training job;
  job.replace_both();
  CHECK(job.state().doing == Doing::kKilling);
  (void)job.done<CountCosts>();
  job.carry_out();
  REQUIRE(job.state().phase == Phase::kProfiling);
  CHECK(job.state().fingerprint == "second");
  CHECK(job.done<CountCosts>().size() == 1);
  SECTION("with nobody disturbing") {}
  SECTION("with another coordinator in between") {
    job.restart_coordinator();
    job.returns("n0", "second", false);
    job.returns("n1", "second", false);
  }
  job.feed(kNoneKnown);
  const auto benchmarks = job.done<BenchmarkOn>();
  REQUIRE(benchmarks.size() == 2);
  // Nothing of the first profiling is called so.
  CHECK(benchmarks[0].tag == "benchmark/of-2-0/n0");
  CHECK(benchmarks[0].rendezvous == "benchmark-of-2-0");
  job.carry_out();
  job.feed(kAllKnown);
  CHECK(job.state().profiling.costs_wanted == 3);
  const auto launches = job.done<LaunchOn>();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].plan_json == "best");
  CHECK_FALSE(launches[0].fresh);
  job.carry_out();
  job.steps(60, kNowMs);
  CHECK(job.says("the running plan is measured anew, with node n0, n1 as it is now") == 1);
  CHECK(job.state().initial_measured.mean_ms == Approx(kNowMs));
  CHECK(job.state().phase == Phase::kTrials);
  // Once.
  job.feed(FromRank{0, job.state().launch, RankExited{1, 0, ""}});
  job.carry_out();
  CHECK(job.state().phase == Phase::kTrials);
}

TEST_CASE("ranks that live are ended to measure costs anew in mode auto alone", "[hardware]") {
  const JobMode mode = GENERATE(JobMode::kAuto, JobMode::kRecommend, JobMode::kObserve);
  Training job(Phase::kTraining, mode);
  job.replace_both(true);
  CHECK((job.state().doing == Doing::kKilling) == (mode == JobMode::kAuto));
  // In the others at their next launch.
  if (mode != JobMode::kAuto) job.feed(FromRank{0, job.state().launch, RankExited{1, 0, ""}});
  job.carry_out();
  CHECK((job.state().phase == Phase::kProfiling) == (mode != JobMode::kObserve));
}

TEST_CASE("a job that has trained goes on where its costs cannot be measured anew", "[hardware]") {
  Training job;
  job.replace_both();
  job.carry_out();
  REQUIRE(job.state().phase == Phase::kProfiling);
  SECTION("nobody can say which") {
    job.feed(CostsCounted{0, 0, {}, {}, "", "the database is away"});
  }
  SECTION("the benchmark fails") {
    job.feed(kNoneKnown);
    while (!job.state().outstanding.empty() && job.state().phase == Phase::kProfiling) {
      job.feed(CommandFinished{job.state().outstanding.front().tag.text, false, "no module torch", ""});
    }
    job.pass(std::chrono::seconds(20));
    job.feed(kNoneKnown);
    CHECK(job.says("no module torch") > 0);
  }
  SECTION("a node goes away for good") {
    job.feed(kNoneKnown);
    (void)job.done<KillOn>();
    job.feed(NodeLost{"n1"});
    job.pass(job.state().job.trials.deadline + std::chrono::seconds(1));
    const auto kills = job.done<KillOn>();
    REQUIRE(kills.size() == 2);
    CHECK(kills[0].launch == 0);  // of whatever runs
    job.carry_out();
  }
  CHECK(job.says("costs are not measured anew") == 1);
  CHECK(job.state().phase == Phase::kMeasuring);
  CHECK(job.done<LaunchOn>().size() == 2);
}

TEST_CASE("hardware that changes once more while costs are measured anew is profiled, not the former", "[hardware]") {
  Training job;
  job.replace_both();
  job.carry_out();
  job.feed(kNoneKnown);
  (void)job.done<KillOn>();
  job.returns("n0", "third", false);
  job.returns("n1", "third", false);
  CHECK(job.done<KillOn>().front().launch == 0);
  job.carry_out();
  REQUIRE(job.state().phase == Phase::kProfiling);
  CHECK(job.state().fingerprint == "third");
  job.feed(kNoneKnown);
  CHECK(job.done<BenchmarkOn>().front().tag == "benchmark/of-3-0/n0");
}

TEST_CASE("a job that is stopped while its costs are measured anew ends its benchmarks", "[hardware]") {
  Training job;
  job.replace_both();
  job.carry_out();
  job.feed(kNoneKnown);
  (void)job.done<KillOn>();
  job.feed(Order::kStop);
  CHECK(job.done<KillOn>().front().launch == 0);
  job.carry_out();
  CHECK(job.state().phase == Phase::kStopped);
}
