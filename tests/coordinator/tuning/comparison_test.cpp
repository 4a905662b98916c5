#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "tuning/change/agreement.hpp"
#include "tuning/launch/step_assembly.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/gains.hpp"
#include "tuning/trial/interleaving.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct Noise {
  double step = 0.05;
  double block = 0.0;
  double outliers = 0.0;  // share of steps that take three times as long
};

Blocks blocks(Random& random, double ms, int count, int steps, const Noise& noise) {
  Blocks all;
  for (int b = 0; b < count; ++b) {
    const double shift = noise.block * random.normal();
    all.emplace_back();
    for (int s = 0; s < steps; ++s) {
      const double spike = random.uniform() < noise.outliers ? 3.0 : 1.0;
      all.back().push_back(ms * spike * std::exp(shift + noise.step * random.normal()));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("exchanging the two plans inverts the ratio") {
  Random random(5);
  const Blocks a = blocks(random, 120, 2, 5, {});
  const Blocks b = blocks(random, 100, 2, 5, {});
  const Ratio forth = compare(a, b, {});
  const Ratio back = compare(b, a, {});
  CHECK(forth.ratio == Approx(1 / back.ratio));
  CHECK(forth.low == Approx(1 / back.high));
}

TEST_CASE("one outlier hardly moves the ratio") {
  Blocks a = {{100, 101, 99, 100, 102}, {100, 98, 101, 100, 99}};
  const Blocks b = {{80, 81, 79, 80, 82}, {80, 78, 81, 80, 79}};
  const double before = compare(a, b, {}).ratio;
  a[0][2] = 5000;
  CHECK(compare(a, b, {}).ratio == Approx(before).epsilon(0.01));
}

TEST_CASE("one step on a side gives an interval that says nothing") {
  const Ratio ratio = compare({{100}}, {{50}}, {});
  CHECK(ratio.ratio == Approx(2));
  CHECK(ratio.low == 0);
  CHECK_FALSE(ratio.has_interval());
  CHECK(words(ratio) == "2.00x as fast (too few steps for an interval)");
  CHECK_FALSE(worth_adopting(ratio, 100, 0, 1000000));
}

TEST_CASE("steps without any spread give a sharp ratio") {
  const Ratio ratio = compare({{100, 100, 100}}, {{50, 50, 50}}, {});
  CHECK(ratio.low == Approx(2).epsilon(1e-6));
  CHECK(ratio.high == Approx(2).epsilon(1e-6));
}

TEST_CASE("a gain is adopted only when it pays for the change over the remaining steps") {
  const Ratio ratio{1.25, 1.25, 1.25};  // saves 20 ms of 100
  CHECK(worth_adopting(ratio, 100, 1000, 51));
  CHECK_FALSE(worth_adopting(ratio, 100, 1000, 49));
  CHECK_FALSE(worth_adopting({1.2, 0.99, 1.4}, 100, 0, 1000000));
  CHECK_FALSE(worth_adopting(ratio, 100, 0, -5));
}

TEST_CASE("a candidate is surely worse only after three steps of which none is as fast") {
  const std::vector<double> incumbent = {100, 101, 99};
  CHECK(surely_worse(incumbent, {140, 150, 145}));
  CHECK_FALSE(surely_worse(incumbent, {140, 150}));
  CHECK_FALSE(surely_worse(incumbent, {125, 125, 125}));
  CHECK_FALSE(surely_worse(incumbent, {90, 200, 300}));
  CHECK_FALSE(surely_worse({}, {200, 200, 200}));
}

TEST_CASE("Student's quantiles fall from 12.7 to 1.96") {
  CHECK(student_t(0.5) == Approx(12.706));
  CHECK(student_t(9) == Approx(2.262));
  CHECK(student_t(25) == Approx(2.060).epsilon(0.002));
  CHECK(student_t(1e12) == Approx(1.960));
}

TEST_CASE("an agreement commits after every rank, later than any of them") {
  using Outcome = Agreement::Outcome;
  Agreement one(4, 3, std::chrono::seconds(60));
  CHECK(one.acknowledge(0, 4, 10) == Outcome::kNothing);
  CHECK(one.acknowledge(0, 4, 10) == Outcome::kNothing);
  CHECK(one.acknowledge(1, 3, 99) == Outcome::kNothing);  // another epoch
  CHECK(one.acknowledge(7, 4, 99) == Outcome::kNothing);  // no such rank
  CHECK(one.acknowledge(1, 4, 14) == Outcome::kNothing);
  CHECK(one.missing_ranks() == "2");
  CHECK(one.activate(0, 4, Nanoseconds(1)) == Outcome::kNothing);  // before the commit
  CHECK(one.acknowledge(2, 4, 12) == Outcome::kAllAcknowledged);
  CHECK(one.commit_step(5) == 15);
  CHECK(one.commit_step(20) == 21);
  one.commit(15, std::chrono::seconds(90));
  CHECK(one.refuse(4) == Outcome::kNothing);  // too late
  CHECK(one.activate(0, 4, Nanoseconds(10)) == Outcome::kNothing);
  CHECK(one.activate(0, 4, Nanoseconds(10)) == Outcome::kNothing);
  CHECK(one.activate(1, 4, Nanoseconds(30), {{.save_ms = 1, .build_ms = 4}}) == Outcome::kNothing);
  CHECK(one.missing_ranks() == "2");
  CHECK(one.activate(2, 4, Nanoseconds(20), {{.save_ms = 9, .build_ms = 9}}) == Outcome::kAllActive);
  CHECK(one.switch_time() == Nanoseconds(30));
  CHECK(one.phases().save_ms == 1);  // the slowest rank's
  CHECK(one.phases().build_ms == 4);
  CHECK_FALSE(one.overdue(std::chrono::seconds(90)));
  CHECK(one.overdue(std::chrono::seconds(91)));
}

TEST_CASE("blocks alternate and warm-up steps are left out after a change only") {
  Interleaving one({2, 2, 3});
  const auto run = [&one](bool changed, double ms) {
    one.begin_block(changed);
    int steps = 1;
    while (!one.add(ms)) ++steps;
    return steps;
  };
  CHECK_FALSE(one.second_is_next());
  CHECK(run(false, 10) == 3);
  CHECK(one.second_is_next());
  CHECK_FALSE(one.pairs_are_whole());
  CHECK(run(true, 20) == 5);
  CHECK(one.pairs_are_whole());
  CHECK(one.second_is_next());  // A B B A: ranks change plan once a pair
  CHECK_FALSE(one.done());
  CHECK(run(false, 21) == 3);
  CHECK_FALSE(one.second_is_next());
  CHECK(run(true, 11) == 5);
  CHECK(one.done());
  CHECK(one.first() == Blocks{{10, 10, 10}, {11, 11, 11}});
  CHECK(one.second() == Blocks{{20, 20, 20}, {21, 21, 21}});
}

TEST_CASE("a plan that is known to be slow is not taken to be warming up beside a fast one") {
  Interleaving one({3, 2, 3});
  const auto warmup_of = [&one](bool changed, double ms) {
    one.begin_block(changed);
    int warmup = one.warming() ? 1 : 0;
    while (!one.add(ms)) warmup += one.warming() ? 1 : 0;
    return warmup;
  };
  CHECK(warmup_of(true, 500) == 2);
  CHECK(warmup_of(true, 100) == 2);
  CHECK(warmup_of(false, 100) == 0);
  CHECK(warmup_of(true, 500) == 2);
}

TEST_CASE("a job's step is over when every rank says so, and takes as long as the slowest") {
  StepAssembly one(2);
  CHECK_FALSE(one.add(0, {5, 1, 100, 0, "", 10}).has_value());
  CHECK_FALSE(one.add(0, {5, 1, 100, 0, "", 10}).has_value());
  CHECK_FALSE(one.add(3, {5, 1, 100, 0, "", 10}).has_value());
  const auto step = one.add(1, {5, 1, 130, 2.5, "abc", 20});
  REQUIRE(step.has_value());
  CHECK(step->wall_ms == 130);
  CHECK(step->loss == 2.5);
  CHECK(step->samples == "abc");
  CHECK(step->epoch == 1);
  (void)one.add(0, {6, 1, 1, 0, "", 0});
  CHECK(one.add(1, {6, 2, 1, 0, "", 0})->epoch == 0);
}

TEST_CASE("a step in which any rank's preparations grew says so, across lost and repeated messages and new processes") {
  StepAssembly one(2);
  auto step = [&one, number = std::int64_t{0}](std::int64_t first, std::int64_t second) mutable {
    ++number;
    (void)one.add(0, {number, 1, 1, 0, "", 0, first});
    (void)one.add(0, {number, 1, 1, 0, "", 0, first});  // the agent tells it again
    return one.add(1, {number, 1, 1, 0, "", 0, second}).value().prepared;
  };
  CHECK_FALSE(step(0, 0));  // not told
  CHECK(step(3, 0));
  CHECK_FALSE(step(3, 0));
  CHECK(step(3, 1));
  (void)one.add(1, {100, 1, 1, 0, "", 0, 1});  // never whole
  one.clear();                                 // a live change of plan: the same processes
  CHECK_FALSE(step(3, 1));
  CHECK(step(2, 1));  // rank 0 began anew, and has prepared twice since
  CHECK_FALSE(step(0, 1));
  CHECK(step(1, 1));
}

TEST_CASE("steps that a rank never reports do not pile up") {
  StepAssembly one(2);
  for (int step = 0; step < 1000; ++step) CHECK_FALSE(one.add(0, {step, 1, 1, 0, "", 0}).has_value());
  CHECK_FALSE(one.add(1, {3, 1, 1, 0, "", 0}).has_value());  // forgotten
  CHECK(one.add(1, {999, 1, 1, 0, "", 0}).has_value());
}
