#include "tuning/change/learning_watch.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A falling loss and a steady gradient norm, with noise.
class Training {
 public:
  explicit Training(std::uint64_t seed = 1) : random_(seed) { watch.runs("before", 0); }

  // So many steps of a plan, until it has to go: after how many, and why.
  std::pair<int, std::string> train(const std::string& plan, int steps, double loss = 1, double norm = 1) {
    for (int i = 0; i < steps; ++i, ++step) {
      watch.runs(plan, step);
      const double noise = 0.02 * random_.normal();
      const std::string why = watch.judge(
          {loss * (slope_ / (10.0 + static_cast<double>(step)) + 3 + noise), norm * (1 + 0.1 * random_.normal()), ""});
      if (!why.empty()) return {i + 1, why};
    }
    return {steps, ""};
  }

  LearningWatch watch;
  std::int64_t step = 0;

 private:
  Random random_;
  double slope_ = 10;
};

}  // namespace

TEST_CASE("a value that is not finite under a new plan is enough, under the old one it is nobody's fault") {
  LearningWatch watch;
  watch.runs("a", 0);
  CHECK(watch.judge({0, 0, "loss"}).empty());
  CHECK(watch.judge({2, 1, ""}).empty());
  watch.runs("b", 2);
  CHECK(watch.watching());
  CHECK(watch.judge({2, 0, "gradient norm"}) == "the gradient norm became no finite number under the new plan");

  LearningWatch broken;
  broken.runs("a", 0);
  (void)broken.judge({0, 0, "loss"});
  broken.runs("b", 1);
  CHECK(broken.judge({0, 0, "loss"}).empty());
}

TEST_CASE("four steps in a row outside of all before the change are needed, and enough") {
  Training rises;
  rises.train("before", 30);
  const auto [steps, why] = rises.train("after", 40, 1.5);
  CHECK(steps == LearningWatch::kConsecutive);
  CHECK_THAT(why, Catch::Contains("the loss of 4 steps in a row under the new plan was above"));
  for (const double factor : {5.0, 0.2}) {
    Training norms;
    norms.train("before", 30);
    CHECK(norms.train("after", 40, 1, factor).first == LearningWatch::kConsecutive);
  }
}

TEST_CASE("a plan that changes nothing stays, and is watched no longer than twenty steps") {
  int alarms = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Training one(seed);
    one.train("before", 40);
    alarms += one.train("after", LearningWatch::kWatched).second.empty() ? 0 : 1;
    CHECK_FALSE(one.watch.watching());
  }
  CHECK(alarms == 0);
  Training late;
  late.train("before", 40);
  late.train("after", LearningWatch::kWatched);
  CHECK(late.train("after", 40, 2).second.empty());
}

TEST_CASE("with few steps before the change, or where nothing is told, nothing is concluded") {
  Training few;
  few.train("before", 10);
  CHECK(few.train("after", 20, 3).second.empty());
  LearningWatch mute;
  mute.runs("a", 0);
  for (int i = 0; i < 30; ++i) CHECK(mute.judge({}).empty());
  mute.runs("b", 30);
  CHECK_FALSE(mute.knows());
}

TEST_CASE("a plan that is gone back to is not watched, and what the one between told is forgotten") {
  Training one;
  one.train("before", 30);
  CHECK_FALSE(one.train("after", 40, 1.5).second.empty());
  one.watch.runs("before", one.step);
  CHECK_FALSE(one.watch.watching());
  CHECK_FALSE(one.watch.recent.empty());
  for (const Learnt& step : one.watch.recent) CHECK(step.loss < 4.5);
}
