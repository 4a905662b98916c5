#include "card/kept_steps.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

using namespace trimtab::coordinator;

namespace {

CardStep step_of(std::int64_t number, std::int64_t wall_ms = 10) {
  CardStep step;
  step.step = number;
  step.wall_ns = wall_ms * 1'000'000;
  return step;
}

std::set<std::int64_t> numbers(const KeptSteps& steps) {
  std::set<std::int64_t> all;
  for (const KeptStep& one : steps.all()) all.insert(one.step);
  return all;
}

}  // namespace

TEST_CASE("warm-up and steps that prepare something are not kept") {
  KeptSteps steps(100);
  for (std::int64_t i = 0; i < 10; ++i) {
    CardStep step = step_of(i);
    step.preparations = (i >= 6 ? 1 : 0) + (i >= 8 ? 1 : 0);  // told as a sum
    steps.add(step);
  }
  CHECK(numbers(steps) == std::set<std::int64_t>{3, 4, 5, 7, 9});
  CHECK(steps.told() == 10);
}

TEST_CASE("two ranks that keep different numbers of steps keep the same ones") {
  KeptSteps many(256);
  KeptSteps few(64);
  for (std::int64_t i = 0; i < 20'000; ++i) {
    many.add(step_of(i));
    few.add(step_of(i));
  }
  CHECK(many.all().size() > 64);
  CHECK(many.all().size() <= 256);
  CHECK(few.all().size() <= 64);
  CHECK(few.all().size() >= 16);
  const std::set<std::int64_t> all = numbers(many);
  for (const std::int64_t one : numbers(few)) CHECK(all.contains(one));
}

TEST_CASE("what is kept does not follow a period of the job's steps") {
  KeptSteps steps(512);
  for (std::int64_t i = 0; i < 50'000; ++i) steps.add(step_of(i));
  const auto tenth = std::ranges::count_if(steps.all(), [](const KeptStep& one) { return one.step % 16 == 0; });
  const double share = static_cast<double>(tenth) / static_cast<double>(steps.all().size());
  CHECK(share > 0.02);
  CHECK(share < 0.12);
}

TEST_CASE("steps of more than ten minutes ago go, and longer steps are kept more densely again") {
  KeptSteps steps(64);
  for (std::int64_t i = 0; i < 10'000; ++i) steps.add(step_of(i));
  for (std::int64_t i = 10'000; i < 10'400; ++i) steps.add(step_of(i, 20'000));
  CHECK(steps.all().front().step >= 10'360);
  CHECK(steps.all().size() >= 25);
}

TEST_CASE("a job that goes back forgets the later steps") {
  KeptSteps steps(64);
  for (std::int64_t i = 0; i < 20; ++i) steps.add(step_of(i));
  steps.add(step_of(8));
  CHECK(steps.all().back().step == 8);
  CHECK(numbers(steps).size() == 6);
}

TEST_CASE("evaluation and checkpoints within a step are no part of it, and nonsense is no time") {
  KeptSteps steps(64);
  for (std::int64_t i = 0; i < 4; ++i) {
    CardStep step = step_of(i);
    step.parts = CardParts{};
    step.parts->aside_ns = 4'000'000;
    step.parts->recompute_ns = 9'000'000;
    step.parts->backward_ns = 5'000'000;
    step.parts->data_ns = -3;
    steps.add(step);
  }
  steps.add(step_of(4, 0));
  REQUIRE(steps.all().size() == 1);
  CHECK(steps.all().front().wall == Approx(6));
  CHECK(steps.all().front().recompute == Approx(5));
  CHECK(steps.all().front().data == 0);
}
