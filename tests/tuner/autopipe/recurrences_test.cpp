#include "solvers/autopipe/recurrences.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "base/random.hpp"
#include "event_simulation.hpp"
#include "solvers/autopipe/partition.hpp"
#include "vectors.hpp"

namespace trimtab::tuner {
namespace {

using autopipe::Pipeline;
using autopipe::PipelineTimes;
using test::StepInput;

Pipeline view(const StepInput& input) {
  return {input.forward.data(), input.backward.data(), input.transfer.data(),
          input.stages(),       input.microbatches,    input.blocking ? Transfers::kBlocking : Transfers::kEager,
          input.sliced,         input.half_slowdown};
}

double recurrence(const StepInput& input) {
  PipelineTimes scratch;
  return step_time(view(input), scratch);
}

StepInput from_vector(const nlohmann::json& vector, bool blocking) {
  StepInput input;
  input.forward = vector.at("f").get<std::vector<double>>();
  input.backward = vector.at("b").get<std::vector<double>>();
  input.transfer.assign(input.forward.size() - 1, vector.at("comm").get<double>());
  input.microbatches = vector.at("m");
  input.blocking = blocking;
  return input;
}

// The paper's recurrences as printed, with the boundary values that its authors' planner gives them: block y of stage x
// is the forward of microbatch n - 1 - x + y and the backward of y, other warm-up forwards are left out, and no sender
// waits while the pipeline drains. Their planner always takes 2n microbatches. REQUIRES: microbatches >= stages.
double printed_time(const StepInput& in) {
  const std::int32_t n = in.stages();
  const auto at = [](const std::vector<double>& of, std::int32_t x) { return of[static_cast<std::size_t>(x)]; };
  const double comm = n > 1 ? in.transfer.front() : 0;
  std::vector<double> forward(static_cast<std::size_t>(n), -1e18);  // begin of the stage's latest
  std::vector<double> backward(static_cast<std::size_t>(n), -1e18);
  for (std::int32_t y = 0; y < in.microbatches; ++y) {
    const std::vector<double> before = forward;
    for (std::int32_t x = 0; x < n && y > 0; ++x) {
      if (n - 1 - x + y >= in.microbatches) continue;
      double ready = at(backward, x) + at(in.backward, x);
      if (x > 0) ready = std::max(ready, at(before, x - 1) + at(in.forward, x - 1));
      forward[static_cast<std::size_t>(x)] = ready + (x > 0 ? comm : 0);
    }
    if (y == 0) {
      double filled = 0;
      for (std::int32_t x = 0; x + 1 < n; ++x) filled += at(in.forward, x) + comm;
      forward.back() = filled;
    }
    for (std::int32_t x = n - 1; x >= 0; --x) {
      const bool paired = n - 1 - x + y < in.microbatches;
      const double own = paired ? at(forward, x) + at(in.forward, x) : at(backward, x) + at(in.backward, x);
      const bool last = x + 1 == n;
      const double ready = last ? own : std::max(own, at(backward, x + 1) + at(in.backward, x + 1));
      backward[static_cast<std::size_t>(x)] = ready + (last ? 0 : comm);
    }
  }
  return backward.front() + in.backward.front();
}

// Whole multiples of 8, so that halves and slowdowns of quarters stay exact.
StepInput random_step(Random& random) {
  StepInput input;
  const std::int64_t stages = random.between(1, 9);
  const std::int64_t spread = random.between(0, 4);  // of stages: equal to wild
  for (std::int64_t x = 0; x < stages; ++x) {
    input.forward.push_back(8.0 * static_cast<double>(random.between(100 - 24 * spread, 100 + 40 * spread)));
    input.backward.push_back(8.0 * static_cast<double>(random.between(200 - 48 * spread, 200 + 80 * spread)));
  }
  const std::int64_t longest = random.below(3) == 0 ? 0 : random.between(1, 60);
  for (std::int64_t x = 0; x + 1 < stages; ++x) {
    input.transfer.push_back(8.0 * static_cast<double>(random.between(0, longest)));
  }
  input.microbatches = static_cast<std::int32_t>(random.between(1, 3 * stages));
  input.blocking = random.below(2) == 0;
  return input;
}

TEST_CASE("the printed recurrences and the published planner's costs, and where they are too quick",
          "[autopipe][vectors]") {
  int printed = 0;
  int planner = 0;
  int too_quick = 0;
  const nlohmann::json vectors = test::autopipe_vectors();
  for (const nlohmann::json& vector : vectors.at("pipelines")) {
    if (vector.at("printed").is_null()) continue;
    const StepInput input = from_vector(vector, true);
    INFO(vector.dump());
    const double theirs = printed_time(input);
    CHECK(theirs == vector.at("printed").get<double>());
    CHECK(theirs <= recurrence(input));
    too_quick += theirs < recurrence(input) ? 1 : 0;
    ++printed;
    if (!vector.contains("merak_cost")) continue;
    CHECK(theirs == vector.at("merak_cost").get<double>());
    ++planner;
  }
  CHECK(printed > 20);
  CHECK(planner == 10);
  CHECK(too_quick > 0);
  for (const nlohmann::json& vector : vectors.at("partitions")) {
    StepInput input;
    std::int32_t begin = 0;
    for (const std::int32_t end : vector.at("merak_ends").get<std::vector<std::int32_t>>()) {
      const auto sum = [&](const char* of) {
        double all = 0;
        for (std::int32_t i = begin; i < end; ++i) all += vector.at(of)[static_cast<std::size_t>(i)].get<double>();
        return all;
      };
      input.forward.push_back(sum("f"));
      input.backward.push_back(sum("b"));
      begin = end;
    }
    input.transfer.assign(input.forward.size() - 1, vector.at("comm").get<double>());
    input.microbatches = 2 * input.stages();
    INFO(vector.dump());
    CHECK(printed_time(input) == vector.at("merak_cost_at_2p").get<double>());
  }
}

TEST_CASE("the recurrences are an event simulation's times", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5101;
  Random random(kSeed);
  for (int i = 0; i < 40000; ++i) {
    const StepInput input = random_step(random);
    INFO("seed " << kSeed << ", case " << i << ", stages " << input.stages() << ", microbatches " << input.microbatches
                 << (input.blocking ? ", blocking" : ", eager"));
    REQUIRE(recurrence(input) == test::EventSimulation(input).run());
  }
}

TEST_CASE("and with sliced microbatches too, fast and slow halves alike", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5102;
  Random random(kSeed);
  for (int i = 0; i < 40000; ++i) {
    StepInput input = random_step(random);
    input.sliced = static_cast<std::int32_t>(random.between(0, std::min(input.stages(), input.microbatches)));
    input.half_slowdown = 1 + 0.25 * static_cast<double>(random.below(4));
    INFO("seed " << kSeed << ", case " << i << ", stages " << input.stages() << ", microbatches " << input.microbatches
                 << ", sliced " << input.sliced << (input.blocking ? ", blocking" : ", eager"));
    REQUIRE(recurrence(input) == test::EventSimulation(input).run());
  }
}

TEST_CASE("every pipeline of the vectors takes its time", "[autopipe]") {
  const nlohmann::json vectors = test::autopipe_vectors();
  REQUIRE(vectors.at("pipelines").size() == 49);
  for (const nlohmann::json& vector : vectors.at("pipelines")) {
    INFO(vector.dump());
    CHECK(recurrence(from_vector(vector, false)) == vector.at("eager").get<double>());
    CHECK(recurrence(from_vector(vector, true)) == vector.at("blocking").get<double>());
  }
}

// The paper's recurrences as printed, with the boundary values that they leave out read in the natural way: the first
// backward comes straight from the last stage, whatever else the stages run before it.
double as_printed(const StepInput& in) {
  const std::int32_t stages = in.stages();
  const std::int32_t m = in.microbatches;
  const double c = in.transfer.empty() ? 0 : in.transfer.front();
  const auto blocks = [&](std::int32_t x) { return m - stages + x + 1; };
  std::vector<std::vector<double>> f(stages, std::vector<double>(m, -1e300)), b = f;
  double fill = 0;
  for (std::int32_t x = 0; x + 1 < stages; ++x) fill += in.forward[x] + c;
  f[stages - 1][0] = fill;
  for (std::int32_t y = 0; y < m; ++y) {
    for (std::int32_t x = 0; x < stages && y > 0; ++x) {
      if (y >= blocks(x)) continue;
      const double before = x > 0 ? f[x - 1][y - 1] + in.forward[x - 1] : -1e300;
      f[x][y] = std::max(before, b[x][y - 1] + in.backward[x]) + (x > 0 ? c : 0);
    }
    for (std::int32_t x = stages - 1; x >= 0; --x) {
      const double own = y < blocks(x) ? f[x][y] + in.forward[x] : b[x][y - 1] + in.backward[x];
      const double later = x + 1 < stages ? b[x + 1][y] + in.backward[x + 1] : -1e300;
      b[x][y] = std::max(own, later) + (x + 1 < stages ? c : 0);
    }
  }
  return b[0][m - 1] + in.backward[0];
}

TEST_CASE("what the paper's recurrences say as printed: never more than the complete ones", "[autopipe]") {
  int less = 0;
  int all = 0;
  const nlohmann::json vectors = test::autopipe_vectors();
  for (const nlohmann::json& vector : vectors.at("pipelines")) {
    if (vector.at("printed").is_null()) continue;
    const StepInput input = from_vector(vector, true);
    INFO(vector.dump());
    CHECK(as_printed(input) == vector.at("printed").get<double>());
    CHECK(as_printed(input) <= recurrence(input));
    less += as_printed(input) < recurrence(input) ? 1 : 0;
    ++all;
  }
  CHECK(all == 37);
  CHECK(less > 0);
}

TEST_CASE("every slicing of the vectors takes its time, and Algorithm 2 finds its number", "[autopipe]") {
  const nlohmann::json vectors = test::autopipe_vectors();
  REQUIRE(vectors.at("slicer").size() == 17);
  for (const nlohmann::json& vector : vectors.at("slicer")) {
    for (const bool blocking : {false, true}) {
      INFO(vector.dump() << (blocking ? " blocking" : " eager"));
      StepInput input = from_vector(vector, blocking);
      const auto times = vector.at(blocking ? "blocking_by_k" : "eager_by_k").get<std::vector<double>>();
      for (std::size_t sliced = 0; sliced < times.size(); ++sliced) {
        input.sliced = static_cast<std::int32_t>(sliced);
        CHECK(recurrence(input) == times[sliced]);
      }
      input.sliced = 0;
      PipelineTimes scratch;
      const autopipe::SlicingGain gain = best_slicing(view(input), scratch);
      CHECK(gain.plain == times.front());
      CHECK(gain.best == *std::min_element(times.begin(), times.end()));
      CHECK(gain.sliced == std::min_element(times.begin(), times.end()) - times.begin());
      CHECK(algorithm_2(view(input)) == vector.at(blocking ? "k_fixed_blocking" : "k_fixed_eager").get<std::int32_t>());
      CHECK(startup_overhead(view(input), false) == vector.at("startup_plain").get<double>());
      CHECK(startup_overhead(view(input), true) == vector.at("startup_sliced").get<double>());
    }
  }
}

TEST_CASE("Algorithm 2 is within 1.5 % of the exact number on random pipelines", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5103;
  Random random(kSeed);
  double worst = 0;
  for (int i = 0; i < 5000; ++i) {
    StepInput input;
    const auto stages = static_cast<std::size_t>(random.between(2, 8));
    for (std::size_t x = 0; x < stages; ++x) {
      input.forward.push_back(static_cast<double>(random.between(80, 120)));
      input.backward.push_back(2 * input.forward.back());
    }
    input.transfer.assign(stages - 1, static_cast<double>(random.between(0, 20)));
    input.microbatches = 2 * static_cast<std::int32_t>(stages);
    input.blocking = random.below(2) == 0;
    PipelineTimes scratch;
    const autopipe::SlicingGain gain = best_slicing(view(input), scratch);
    input.sliced = algorithm_2(view(input));
    REQUIRE(input.sliced <= std::min(input.stages() - 1, input.microbatches));
    INFO("seed " << kSeed << ", case " << i << ", sliced " << input.sliced << ", best " << gain.sliced);
    const double loss = recurrence(input) / gain.best - 1;
    CHECK(loss < 0.015);
    worst = std::max(worst, loss);
  }
  UNSCOPED_INFO("worst loss " << worst);
}

TEST_CASE("slicing is refused where halves are slow", "[autopipe]") {
  StepInput input{{100, 100}, {200, 200}, {0}, 4, true, 0, 1.4};
  PipelineTimes scratch;
  const autopipe::SlicingGain gain = best_slicing(view(input), scratch);
  CHECK(gain.sliced == 0);
  CHECK(gain.best == gain.plain);
  input.half_slowdown = 1;
  CHECK(best_slicing(view(input), scratch).sliced == 1);
}

}  // namespace
}  // namespace trimtab::tuner
