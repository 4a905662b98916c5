// Blocks of two plans in turn, and what becomes of one that is broken off.

#include "tuning/trial/interleaving.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

void add(Interleaving& to, int steps, double ms) {
  to.begin_block(false);
  for (int i = 0; i < steps; ++i) (void)to.add(ms);
}

}  // namespace

TEST_CASE("a block that is broken off is among the blocks and not among the whole ones", "[interleaving]") {
  Interleaving one({2, 0, 3});
  CHECK(one.whole_first().empty());
  add(one, 3, 100);
  add(one, 2, 300);
  CHECK(one.second() == Blocks{{300, 300}});
  CHECK(one.whole_second().empty());
  CHECK(one.whole_first() == one.first());
  (void)one.add(300);
  CHECK(one.whole_second() == one.second());
}

TEST_CASE("a burst that ends a trial early is neither the job's noise nor what its plan takes", "[interleaving]") {
  FakeWorld one(fake_job(), {{"initial", 100, 110}, {"other", 97, 80}}, 5, 0.03);
  one.begin();
  const auto changes = [&one] {
    return std::ranges::count_if(one.proposals, [](const ProposePlan& of) { return of.plan_json == "other"; });
  };
  // The third block of the plan: its first two were next to each other.
  one.after_event = [&] { one.faults.slowdown = one.running_plan() == "other" && changes() == 2 ? 3 : 1; };
  REQUIRE(one.run([&] { return !one.state().trials.empty() && !one.state().has_trial(); }));
  INFO(one.history());
  const Trial& trial = one.state().trials.front();
  REQUIRE(changes() == 2);
  CHECK(trial.state == TrialState::kRejected);
  CHECK(trial.reason == FailureReason::kSlower);
  // Two whole blocks and three steps.
  CHECK(trial.measured.steps == 13);
  CHECK(std::sqrt(one.state().noise.squares / one.state().noise.degrees) < 0.06);
  REQUIRE(one.state().observations.back().plan.hash == "other");
  CHECK(one.state().observations.back().measured_ms == Approx(97).epsilon(0.04));
}
