// A node that comes back with another hardware fingerprint than it left with.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "tuning/tuning.hpp"

#include "fake_world.hpp"

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

// Two ranks on n0 and n1, which are alike, train their adopted plan.
class Training {
 public:
  explicit Training(Phase phase = Phase::kTraining) : tuning_(state_of(phase)) {
    take(tuning_.resume({clock_.monotonic(), clock_.wall()}));
    returns("n0", "first");
    if (phase != Phase::kTraining) return;
    returns("n1", "first");
    steps(3, kFormerMs);
  }

  void feed(const Event& event) { take(tuning_.handle(event, {clock_.monotonic(), clock_.wall()})); }
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
    while (!state().outstanding.empty()) feed(CommandFinished{state().outstanding.front().tag, true, "", ""});
  }

  [[nodiscard]] const TuningState& state() const { return tuning_.state(); }
  [[nodiscard]] long says(const std::string& words) const {
    return std::ranges::count_if(notes_, [&](const auto& one) { return one.find(words) != std::string::npos; });
  }

 private:
  static TuningState state_of(Phase phase) {
    TuningState state;
    state.job = fake_job();
    state.job.steps = 100'000;
    state.job.trials.stop_after = false;
    state.phase = phase;
    state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}};
    state.cluster_json = to_json(cluster("first"));
    state.fingerprint = "first";
    state.calibration_json = state.earlier_calibration_json = "{}";
    state.slow_devices = {{0, 0.9}, {1, 0.5}};
    state.initial = {"initial", "initial"};
    state.incumbent = {"best", "best"};
    state.incumbent_measured = {kFormerMs, kFormerMs - 1, kFormerMs + 1, 20};
    state.epoch_hashes = {{1, "best"}};
    state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
    if (phase == Phase::kDescribing) state.outstanding = {{"describe", "n0", CommandKind::kDescribe}};
    return state;
  }
  void take(const std::vector<Action>&) {
    for (const Note& one : tuning_.take_notes()) notes_.push_back(one.text);
    if (tuning_.take_transition()) REQUIRE(parse_tuning_state(to_json(tuning_.state())).ok());
  }

  ManualClock clock_;
  Tuning tuning_;
  std::int64_t step_ = 10;
  std::vector<std::string> notes_;
};

}  // namespace

TEST_CASE("a node that comes back as other hardware is told of, and the job is measured anew with it", "[hardware]") {
  Training job;
  job.feed(NodeLost{"n1"});
  job.returns("n1", "second", false);
  CHECK(job.says("node n1 came back as other hardware: fingerprint second instead of first") == 1);
  CHECK(job.state().slow_devices == std::map<std::int32_t, double>{{0, 0.9}});
  const Cluster now = parse_cluster(job.state().cluster_json, "").value();
  CHECK(now.nodes[1].fingerprint == "second");
  CHECK(now.nodes[1].memory_bytes == 500);
  // What is known of n0's hardware is still the job's.
  CHECK(job.state().fingerprint == "first");
  job.carry_out();
  REQUIRE(job.state().launch == 2);
  job.steps(60, kNowMs);
  CHECK(job.says("the running plan is measured anew, with node n1 as it is now") == 1);
  CHECK(job.state().incumbent.hash == "best");
  CHECK(job.state().incumbent_measured.mean_ms == Approx(kNowMs));
  CHECK(job.state().observations.front().measured_ms == Approx(kNowMs));
  CHECK(job.state().phase == Phase::kTrials);
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

TEST_CASE("the same hardware that comes back changes nothing", "[hardware]") {
  Training job;
  job.feed(NodeLost{"n1"});
  job.returns("n1", "first");
  CHECK(job.says("other hardware") == 0);
  CHECK(job.state().phase == Phase::kTraining);
  CHECK(job.state().slow_devices.size() == 2);
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
  state.cluster_json = to_json(one);
  state.incumbent = {"best", "best"};
  state.epoch_hashes = {{1, "best"}};
  state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
  Tuning tuning(state);
  (void)tuning.resume({});
  (void)tuning.handle(NodeBack{"n0", {}, 0, "second", 1, 500}, {});
  REQUIRE(tuning.state().doing == Doing::kKilling);
  (void)tuning.handle(CommandFinished{tuning.state().outstanding.front().tag, true, "", ""}, {});
  CHECK(tuning.state().doing == Doing::kHalted);
  CHECK_THAT(tuning.state().failure, Catch::Contains("with 1 devices where the job needs 2"));
}
