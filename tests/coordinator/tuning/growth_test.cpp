// An elastic job on fewer nodes than it asked for, and nodes that join.

#include <algorithm>
#include <catch2/catch.hpp>

#include "../simulation/simulated_job.hpp"
#include "tuning/tuning.hpp"

#include "../fake_world.hpp"
#include "../small_cluster.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using trimtab::coordinator::test::cluster_of;

namespace {

constexpr double kSmallMs = 100;

// Two ranks on n0 and n1 train; the job asked for three.
class ElasticJob {
 public:
  explicit ElasticJob(JobMode mode = JobMode::kAuto, Phase phase = Phase::kTraining) : tuning_(state_of(mode, phase)) {
    clock_.advance(std::chrono::hours(1));
    take(tuning_.resume({clock_.monotonic(), clock_.wall()}));
    feed(NodeBack{"n0", {{0, 1, 1}}});
    feed(NodeBack{"n1", {{1, 1, 1}}});
    steps(3);
    finish_spare();
  }

  void feed(const Event& event) { take(tuning_.handle(event, {clock_.monotonic(), clock_.wall()})); }

  // Steps of all ranks, of the latest launch and epoch, each `ms`.
  void steps(int count, double ms = kSmallMs) {
    for (int i = 0; i < count; ++i, ++step_) {
      clock_.advance(std::chrono::milliseconds(static_cast<int>(ms)));
      const TuningState& now = state();
      for (std::int32_t rank = 0; rank < now.world_size(); ++rank) {
        feed(FromRank{rank, now.launch, RankStep{step_, now.launch_epoch, ms, 1, "", 0}});
      }
    }
  }
  void offer(const std::string& refusal = "") {
    NodesOffered offered{{{"n0", 0, 1}, {"n1", 1, 1}, {"n2", 2, 1}}, cluster_of(3), "n2", {}, "", refusal};
    feed(offered);
  }
  void answer(double predicted_ms) {
    SearchReply reply;
    reply.candidates.push_back({{"large", "large"}, "large", {predicted_ms, predicted_ms, predicted_ms, predicted_ms}});
    feed(SearchFinished{state().search.searches, reply});
  }
  // Kills and launches that were asked for are done.
  void carry_out() {
    while (!state().outstanding.empty()) feed(CommandFinished{state().outstanding.front().tag.text, true, "", ""});
  }
  // The first steps on the larger cluster, until they have been measured; other searches find nothing.
  void measure(double ms) {
    for (int i = 0; i < 200 && state().phase != Phase::kTraining && says("is not surely faster") == 0; ++i) {
      if (state().phase == Phase::kTrials) return;
      steps(1, ms);
    }
  }
  void finish_spare() {
    if (asked_ == SearchFor::kSpare) feed(SearchFinished{state().search.searches, {}});
  }

  [[nodiscard]] const TuningState& state() const { return tuning_.state(); }
  [[nodiscard]] const Tuning& tuning() const { return tuning_; }
  [[nodiscard]] SearchFor asked() const { return asked_; }
  [[nodiscard]] long says(const std::string& words) const {
    return std::count_if(notes_.begin(), notes_.end(),
                         [&](const std::string& one) { return one.find(words) != std::string::npos; });
  }
  [[nodiscard]] std::string history() const {
    std::string all;
    for (const std::string& one : notes_) all += one + "\n";
    return all;
  }

 private:
  static TuningState state_of(JobMode mode, Phase phase) {
    TuningState state;
    state.job = fake_job(mode);
    state.job.world_size = 3;
    state.job.steps = 100'000;
    state.job.trials.stop_after = false;
    state.ranks = 2;
    state.phase = phase;
    if (phase == Phase::kTrials) {
      state.doing = Doing::kAwaitingApproval;
      Trial asked;
      asked.id = 1;
      asked.plan = {"other", "other"};
      state.trials.push_back(asked);
    }
    state.job.elastic = true;
    state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}};
    state.cluster = cluster_of(2);
    state.initial = state.incumbent = {"small", "small"};
    state.incumbent_measured = {kSmallMs, kSmallMs - 1, kSmallMs + 1, 20};
    state.epoch_hashes = {{1, "small"}};
    state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
    state.launch_ms = 3000;
    return state;
  }
  void take(const Outcome& told) {
    for (const Action& one : told.actions) {
      if (const auto* search = std::get_if<SearchPlans>(&one)) asked_ = search->purpose;
    }
    for (const Note& one : told.notes) notes_.push_back(one.kind + ": " + one.text);
    if (!told.changed) return;
    // What is stored can be read again.
    REQUIRE(parse_tuning_state(to_json(tuning_.state())).ok());
  }

  ManualClock clock_;
  Tuning tuning_;
  SearchFor asked_ = SearchFor::kJob;
  std::int64_t step_ = 10;
  std::vector<std::string> notes_;
};

}  // namespace

TEST_CASE("a node that joins is planned for, the job is begun anew on it, and stays when that is faster", "[growth]") {
  ElasticJob job;
  INFO(job.history());
  REQUIRE(job.tuning().takes_nodes());
  job.offer();
  REQUIRE(job.asked() == SearchFor::kMoreNodes);
  CHECK(job.tuning().search_task(SearchFor::kMoreNodes).cluster.json == to_json(cluster_of(3)));
  job.answer(60);
  CHECK(job.state().world_size() == 3);
  CHECK(job.state().outstanding.size() == 3);
  job.carry_out();
  CHECK(job.state().launch == 2);
  CHECK_FALSE(job.state().launch_fresh);
  job.measure(62);
  CHECK(job.says("node n2 stays with the job") == 1);
  CHECK(job.state().elastic.before.nodes.empty());
  CHECK(job.state().incumbent.hash == "large");
  CHECK(job.state().elastic.resizes.back().joined == "n2");
  CHECK(job.state().elastic.resizes.back().outcome == "kept");
  CHECK_FALSE(job.tuning().takes_nodes());
  // From the ranks' end to their first step: a step of 62 ms.
  CHECK(job.state().spent.growth_ms == Approx(62));
  CHECK(job.state().overhead_ms() >= job.state().spent.growth_ms);
}

TEST_CASE("more nodes on which a step is faster within the noise alone are left", "[growth]") {
  ElasticJob job;
  job.offer();
  job.answer(60);
  job.carry_out();
  job.measure(kSmallMs - 0.5);
  INFO(job.history());
  CHECK(job.says("it is not surely faster with n2") == 1);
  CHECK(job.state().world_size() == 2);
  CHECK(job.state().spent.growth_ms > 0);
}

TEST_CASE("a node that joins while a trial awaits approval is told of, and the question stands", "[growth]") {
  ElasticJob asks(JobMode::kApprove, Phase::kTrials);
  REQUIRE(asks.state().doing == Doing::kAwaitingApproval);
  CHECK(asks.tuning().takes_nodes());
  asks.offer();
  CHECK(asks.says("a job in mode auto would try") == 1);
  CHECK(asks.state().doing == Doing::kAwaitingApproval);
}

TEST_CASE("a job that is no faster on more nodes goes back to those that it ran on", "[growth]") {
  ElasticJob job;
  job.offer();
  job.answer(60);
  job.carry_out();
  job.measure(130);
  INFO(job.history());
  CHECK(job.says("goes back") == 1);
  CHECK(job.state().world_size() == 2);
  CHECK(job.state().nodes.size() == 2);
  CHECK(job.state().incumbent.hash == "small");
  // Ranks are ended on all three.
  CHECK(job.state().outstanding.size() == 3);
  job.carry_out();
  CHECK(job.state().launch == 3);
  CHECK(job.state().launch_plan.hash == "small");
  CHECK(job.state().elastic.resizes.back().outcome.find("left") == 0);
}

TEST_CASE("launches that do not live on more nodes lead back, and so does the loss of what joined", "[growth]") {
  ElasticJob job;
  job.offer();
  job.answer(60);
  job.carry_out();
  SECTION("crashes") {
    for (int i = 0; i < 2; ++i) {
      CHECK(job.state().world_size() == 3);
      job.feed(FromRank{2, job.state().launch, RankExited{1, 0, "no"}});
      job.carry_out();
    }
  }
  SECTION("a loss") {
    job.feed(NodeLost{"n2"});
    job.feed(Tick{});
    job.carry_out();
  }
  INFO(job.history());
  CHECK(job.state().world_size() == 2);
  CHECK(job.state().phase == Phase::kLaunching);
  CHECK(job.state().launch_plan.hash == "small");
  job.steps(2);
  CHECK(job.state().phase == Phase::kMeasuring);
}

TEST_CASE("a node is not used where no plan pays for it, it cannot be, or nobody may decide so", "[growth]") {
  ElasticJob job;
  job.offer();
  job.answer(kSmallMs + 1);
  CHECK(job.says("does not pay for two launches of 3 s") + job.says("does not pay for two launches") >= 1);
  CHECK(job.state().world_size() == 2);
  job.finish_spare();
  job.offer("it is another machine");
  CHECK(job.says("is not used: it is another machine") == 1);
  ElasticJob asks(JobMode::kApprove);
  asks.offer();
  CHECK(asks.says("a job in mode auto would try") == 1);
  CHECK(asks.state().world_size() == 2);
  ElasticJob frozen;
  frozen.feed(Order::kFreeze);
  CHECK_FALSE(frozen.tuning().takes_nodes());
}
