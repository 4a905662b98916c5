// The plan for one node fewer: in which modes it is taken, and for which devices.

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

// A rank on each of three nodes, training. What is searched for is found at once.
class ElasticJob {
 public:
  explicit ElasticJob(JobMode mode, std::map<std::int32_t, double> slow_devices = {})
      : tuning_(state_of(mode, std::move(slow_devices))) {
    clock_.advance(std::chrono::hours(1));
    take(tuning_.resume({clock_.monotonic(), clock_.wall()}));
    for (int rank = 0; rank < 3; ++rank) feed(NodeBack{"n" + std::to_string(rank), {{rank, 1, 1}}});
    for (int rank = 0; rank < 3; ++rank) feed(FromRank{rank, 1, RankStep{10, 1, 100, 1, "", 0}});
  }

  void feed(const Event& event) { take(tuning_.handle(event, {clock_.monotonic(), clock_.wall()})); }
  // For longer than it is waited for.
  void lose(const std::string& node, int seconds = 10) {
    feed(NodeLost{node});
    for (int second = 0; second < seconds; ++second) {
      clock_.advance(std::chrono::seconds(1));
      feed(Tick{});
    }
  }

  [[nodiscard]] const TuningState& state() const { return tuning_.state(); }
  // By cluster, the speeds of the devices that plans were searched for.
  [[nodiscard]] const std::vector<std::vector<double>>& searched() const { return searched_; }
  [[nodiscard]] long says(const std::string& words) const {
    return std::ranges::count_if(notes_, [&](const auto& one) { return one.find(words) != std::string::npos; });
  }

 private:
  static TuningState state_of(JobMode mode, std::map<std::int32_t, double> slow_devices) {
    TuningState state;
    state.job = fake_job(mode);
    state.job.world_size = 3;
    state.job.steps = 100'000;
    state.job.trials.stop_after = false;
    state.job.elastic = true;
    state.phase = Phase::kTraining;
    state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}, {"n2", 2, 1}};
    state.cluster = cluster_of(3);
    state.hardware.slow_devices = std::move(slow_devices);
    state.initial = state.incumbent = {"all", "all"};
    state.epoch_hashes = {{1, "all"}};
    state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
    return state;
  }
  void take(const Outcome& told) {
    for (const Note& one : told.notes) notes_.push_back(one.text);
    if (told.changed) REQUIRE(parse_tuning_state(to_json(tuning_.state())).ok());
    for (const Action& one : told.actions) {
      const auto* search = std::get_if<SearchPlans>(&one);
      if (search != nullptr && search->purpose == SearchFor::kSpare) answer(search->number);
    }
  }
  void answer(std::uint64_t number) {
    const SearchTask task = tuning_.search_task(SearchFor::kSpare);
    CHECK(task.slow_devices.empty());
    std::vector<double> speeds;
    for (const Node& node : task.cluster.said()->nodes) speeds.push_back(node.speed_of(0));
    searched_.push_back(speeds);
    const std::string plan = "spare " + std::to_string(searched_.size());
    SearchReply reply;
    reply.candidates.push_back({{plan, plan}, plan, {200, 200, 180, 220, true}});
    feed(SearchFinished{number, reply});
  }

  ManualClock clock_;
  Tuning tuning_;
  std::vector<std::vector<double>> searched_;
  std::vector<std::string> notes_;
};

}  // namespace

TEST_CASE("an elastic job in mode observe waits for a node that was lost, and is told of it once", "[spare]") {
  ElasticJob job(JobMode::kObserve);
  job.lose("n2");
  CHECK(job.state().phase == Phase::kTraining);
  CHECK(job.state().incumbent.hash == "all");
  CHECK(job.state().outstanding.empty());
  CHECK(job.searched().empty());
  CHECK(job.says("The job is in mode observe: it waits") == 1);
  job.feed(NodeBack{"n2", {{2, 1, 1}}});
  CHECK(job.state().doing == Doing::kNothing);
  CHECK(job.state().world_size() == 3);
}

TEST_CASE("in every mode but observe an elastic job goes on without a node that was lost for good", "[spare]") {
  const JobMode mode = GENERATE(JobMode::kRecommend, JobMode::kApprove, JobMode::kAuto);
  ElasticJob job(mode);
  job.lose("n2");
  CHECK(job.state().world_size() == 2);
  CHECK(job.state().incumbent.hash == "spare 1");
  CHECK(job.says("did not come back within the deadline: the job goes on without") == 1);
}

TEST_CASE("the plan for one node fewer is for devices as fast as those that are left", "[spare]") {
  const std::string lost = GENERATE("n0", "n1", "n2");
  // The last stands for its like: the plan that is kept ready is for n0, which is slow, and n1.
  ElasticJob job(JobMode::kAuto, {{0, 0.5}});
  REQUIRE(job.searched() == std::vector<std::vector<double>>{{0.5, 1}});
  job.lose(lost);
  INFO("lost " << lost);
  CHECK(job.state().world_size() == 2);
  CHECK(job.state().incumbent.hash == (lost == "n0" ? "spare 2" : "spare 1"));
  CHECK(job.searched().back() == (lost == "n0" ? std::vector<double>{1, 1} : std::vector<double>{0.5, 1}));
  CHECK(job.state().hardware.slow_devices.size() == (lost == "n0" ? 0 : 1));
}

TEST_CASE("another plan than the one that is kept ready is searched while a node is waited for", "[spare]") {
  ElasticJob job(JobMode::kAuto, {{0, 0.5}});
  job.lose("n0", 3);
  CHECK(job.searched() == std::vector<std::vector<double>>{{0.5, 1}, {1, 1}});
  CHECK(job.state().world_size() == 3);
  job.feed(NodeBack{"n0", {{0, 1, 1}}});
  job.lose("n0");
  CHECK(job.searched().size() == 2);
  CHECK(job.state().incumbent.hash == "spare 2");
}
