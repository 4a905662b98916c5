#include "solvers/autopipe/critical_path.hpp"

#include <catch2/catch.hpp>

#include "base/random.hpp"
#include "vectors.hpp"

namespace trimtab::tuner {
namespace {

using autopipe::Pipeline;
using autopipe::PipelineAction;

struct Step {
  std::vector<double> forward, backward, transfer;
  Pipeline pipeline;
  autopipe::RecordedPipeline recorded;

  Step(std::vector<double> f, std::vector<double> b, double c, std::int32_t m, Transfers transfers,
       std::int32_t sliced = 0)
      : forward(std::move(f)), backward(std::move(b)), transfer(forward.size() - 1, c) {
    pipeline = {forward.data(), backward.data(), transfer.data(), static_cast<std::int32_t>(forward.size()), m,
                transfers,      sliced};
    autopipe::PipelineTimes scratch;
    recorded.record(pipeline, scratch);
  }
  [[nodiscard]] std::int32_t master() const { return master_stage(pipeline, recorded); }
};

TEST_CASE("the master stage is where the work is", "[autopipe]") {
  const std::vector<double> even{100, 100, 100, 100};
  CHECK(Step(even, {200, 200, 200, 200}, 0, 8, Transfers::kBlocking).master() == 3);
  CHECK(Step({100, 120, 150, 110}, {200, 240, 300, 220}, 10, 8, Transfers::kBlocking).master() == 2);
  CHECK(Step({100, 150, 120, 110}, {200, 300, 240, 220}, 10, 8, Transfers::kBlocking).master() == 1);
  CHECK(Step({100, 150, 120, 110}, {200, 300, 240, 220}, 10, 8, Transfers::kEager).master() == 1);
  CHECK(Step({100}, {200}, 0, 5, Transfers::kBlocking).master() == 0);
}

TEST_CASE("the critical path leaves no gap but transfers, and slows the step when any of it slows", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5301;
  Random random(kSeed);
  for (int i = 0; i < 3000; ++i) {
    const auto stages = static_cast<std::size_t>(random.between(1, 7));
    std::vector<double> f, b;
    for (std::size_t x = 0; x < stages; ++x) {
      f.push_back(8.0 * static_cast<double>(random.between(50, 120)));
      b.push_back(8.0 * static_cast<double>(random.between(90, 250)));
    }
    const double c = random.below(2) == 0 ? 0 : 8.0 * static_cast<double>(random.between(1, 20));
    const auto m = static_cast<std::int32_t>(random.between(1, 20));
    const Transfers transfers = random.below(2) == 0 ? Transfers::kEager : Transfers::kBlocking;
    const auto sliced =
        static_cast<std::int32_t>(random.between(0, std::min<std::int64_t>(static_cast<std::int64_t>(stages) - 1, m)));
    const Step step(f, b, c, m, transfers, sliced);
    INFO("seed " << kSeed << ", case " << i << ", stages " << stages << ", microbatches " << m << ", sliced "
                 << sliced);
    const std::vector<PipelineAction> path = critical_path(step.pipeline, step.recorded);
    REQUIRE(path.front().stage == 0);
    REQUIRE(path.front().microbatch == m - 1);
    REQUIRE(path.front().end == step.recorded.end());
    REQUIRE(path.back().begin == 0);
    double working = 0;
    for (std::size_t k = 0; k < path.size(); ++k) {
      working += path[k].end - path[k].begin;
      if (k + 1 < path.size()) REQUIRE(path[k + 1].end <= path[k].begin);
    }
    if (c == 0) REQUIRE(working == step.recorded.end());
    REQUIRE(step.master() < static_cast<std::int32_t>(stages));
    // A slower action of the path is a slower step: all of its stage's are slowed, by no less than this one.
    const PipelineAction& one = path[random.below(path.size())];
    (one.forward ? f : b)[one.stage] += 8;
    const double slowed = Step(f, b, c, m, transfers, sliced).recorded.end();
    REQUIRE(slowed >= step.recorded.end() + (one.part == autopipe::Part::kWhole ? 8 : 4));
  }
}

TEST_CASE("the master stage is the authors' planner's wherever that finds one", "[autopipe]") {
  const nlohmann::json vectors = test::autopipe_vectors();
  int all = 0;
  for (const nlohmann::json& vector : vectors.at("pipelines")) {
    const auto f = vector.at("f").get<std::vector<double>>();
    const std::int32_t theirs = vector.value("merak_master", -1);
    if (theirs < 0 || vector.at("m") != 2 * f.size()) continue;
    const Step step(f, vector.at("b").get<std::vector<double>>(), vector.at("comm"), vector.at("m"),
                    Transfers::kBlocking);
    ++all;
    INFO(vector.dump() << " here " << step.master());
    CHECK(step.master() == theirs);
  }
  CHECK(all == 10);
}

}  // namespace
}  // namespace trimtab::tuner
