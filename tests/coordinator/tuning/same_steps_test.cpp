#include "tuning/change/same_steps.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "../fake_world.hpp"
#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// The incumbent's two launches, which differ by `rerun`, then the candidate's steps, each `factor` times the
// incumbent's and another draw of `noise`. What is said in the end.
std::string said(double factor, const std::string& change_class, double rerun = 0, double noise = 0) {
  Random random(3);
  SameSteps steps(change_class);
  const auto loss = [](std::int64_t step) { return 5.0 + std::sin(static_cast<double>(step)); };
  for (std::int64_t step = 100; step < 112; ++step) steps.incumbent(7, step, loss(step));
  for (std::int64_t step = 100; step < 112; ++step) steps.incumbent(9, step, loss(step) * (1 + rerun));
  std::string why;
  for (std::int64_t step = 100; step < 130; ++step) {
    steps.candidate(step, loss(step) * factor * (1 + noise * random.normal()));
    if (why.empty()) why = steps.why();
  }
  return why;
}

}  // namespace

TEST_CASE("over the same samples a loss may differ by what the class allows", "[same-steps]") {
  CHECK(said(1, "exact").empty());
  CHECK_THAT(said(1.002, "exact"), Catch::Contains("0.2 % higher") && Catch::Contains("class \"exact\""));
  CHECK_THAT(said(0.9, "rounding"), Catch::Contains("10.0 % lower"));
  CHECK(said(1.01, "rounding").empty());
  CHECK(said(1, "statistical", 0, 0.2).empty());
  CHECK_FALSE(said(1.5, "statistical", 0, 0.02).empty());
}

TEST_CASE("… and by what the incumbent's own launches differ", "[same-steps]") {
  CHECK(said(1.002, "exact", 0.002).empty());
  CHECK_FALSE(said(1.02, "exact", 0.002).empty());
}

TEST_CASE("steps that only one of the two has told say nothing", "[same-steps]") {
  SameSteps steps("exact");
  for (std::int64_t step = 0; step < 10; ++step) steps.incumbent(1, step, 1.0);
  for (std::int64_t step = 10; step < 40; ++step) steps.candidate(step, 9.0);
  CHECK(steps.why().empty());
  for (std::int64_t step = 0; step < 4; ++step) steps.candidate(step, 9.0);
  CHECK(steps.why().empty());  // too few yet
  steps.candidate(4, 9.0);
  CHECK_FALSE(steps.why().empty());
}
