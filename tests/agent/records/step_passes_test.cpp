#include "records/step_passes.hpp"

#include <catch2/catch.hpp>
#include <string_view>

#include "../job_range.hpp"

using namespace trimtab::agent;

namespace {

// A step that begins at `begin` and spends 35 ns in passes, 5 of them again.
void run_step(StepPasses& passes, std::uint64_t begin, std::int64_t number) {
  passes.add(range("op/a/forward", begin + 10, begin + 20));
  passes.add(range("transfer/receive", begin + 20, begin + 40));
  passes.add(range("op/a/recompute", begin + 40, begin + 45));
  passes.add(range("op/a/backward", begin + 50, begin + 70));
  passes.add(range("optimizer", begin + 80, begin + 90));
  passes.add(range("step", begin, begin + 100, number));
}

void run_steps(StepPasses& passes, int count) {
  for (int step = 0; step < count; ++step) run_step(passes, 1000 * static_cast<std::uint64_t>(step + 1), step + 1);
}

}  // namespace

TEST_CASE("warm steps of an epoch are timed, and only so many") {
  StepPasses passes;
  passes.begin_epoch(3);
  run_steps(passes, StepPasses::kFirst - 1);
  CHECK(passes.take().empty());
  run_steps(passes, 2 * StepPasses::kSteps);
  const auto timed = passes.take();
  REQUIRE(timed.size() == StepPasses::kSteps);
  CHECK(timed.front().epoch == 3);
  CHECK(timed.front().busy_ns == 35);
  CHECK(passes.take().empty());
}

TEST_CASE("a change of plan begins the count anew") {
  StepPasses passes;
  run_steps(passes, StepPasses::kFirst + StepPasses::kSteps);
  CHECK(passes.take().size() == StepPasses::kSteps);
  passes.add(range("switch", std::uint64_t{100}, std::uint64_t{200}, 7));
  run_steps(passes, StepPasses::kFirst);
  const auto timed = passes.take();
  REQUIRE(timed.size() == 1);
  CHECK(timed.front().epoch == 7);
  CHECK(timed.front().step == StepPasses::kFirst);
}

TEST_CASE("a step whose passes overlap is left out") {
  StepPasses passes;
  run_steps(passes, StepPasses::kFirst - 1);
  passes.add(range("op/a/forward/overlapped", 90'010, 90'030));
  run_step(passes, 90'000, 9);
  CHECK(passes.take().empty());
  run_step(passes, 91'000, 10);
  CHECK(passes.take().size() == 1);
}

TEST_CASE("a step in which ranges were left out is none") {
  StepPasses passes;
  run_steps(passes, StepPasses::kFirst - 1);
  passes.ranges_left_out(90'015);
  run_step(passes, 90'000, 9);
  CHECK(passes.take().empty());
  run_step(passes, 91'000, 10);
  CHECK(passes.take().size() == 1);
}

TEST_CASE("on a device a step waits until its time has been shared out, or never will be") {
  StepPasses passes;
  passes.on_device();
  run_steps(passes, StepPasses::kFirst + 1);
  StepShares shares;
  for (const std::uint64_t number : {StepPasses::kFirst, StepPasses::kFirst + 1}) {
    const std::uint64_t begin = 1000 * number;
    for (const std::uint64_t pass : {10, 40, 50}) passes.add_device_time(range("op/a/forward", begin + pass, 0), 20);
    if (number > StepPasses::kFirst) continue;
    shares.begin_ns = begin;
    shares.end_ns = begin + 100;
    shares.computation_ns = 60;
    shares.exposed_communication_ns = 20;
    shares.exposed_copy_ns = 5;
    shares.idle_ns = 15;
    shares.parts = {.own_ns = 4, .gradients_ns = 10, .bubble_ns = 6, .launching_ns = 9};
  }
  CHECK(passes.take(1000 * StepPasses::kFirst + 99).empty());
  passes.add_shares(shares, false);
  const auto timed = passes.take(1000 * StepPasses::kFirst + 1100);
  REQUIRE(timed.size() == 2);
  CHECK(timed[0].busy_ns == 60);
  CHECK(timed[0].terms == StepTermTimes{64, 0, 6, 10, 20, 4, 6, 9, std::nullopt});
  CHECK_FALSE(timed[1].terms);
  shares.parts.unknown_ns = 1;  // a whole hundredth
  CHECK_FALSE(step_terms(shares, false));
  shares.parts.unknown_ns = 0;
  shares.parts.unsplit_ns = shares.parts.unjudged_ns = 1;
  CHECK(step_terms(shares, true) == StepTermTimes{64, 0, 7, 10, 20, 4, std::nullopt, std::nullopt, 0});
}

TEST_CASE("on a device kernels are counted, and only once they all are known") {
  StepPasses passes;
  passes.on_device();
  run_steps(passes, StepPasses::kFirst);
  CHECK(passes.take().empty());
  const std::uint64_t begin = 1000 * StepPasses::kFirst;
  passes.add_device_time(range("op/a/forward", begin + 10, begin + 20), 100);
  passes.add_device_time(range("op/a/recompute", begin + 40, begin + 45), 50);
  passes.add_device_time(range("op/a/forward", 10, 20), 1000);  // of a step that is not timed
  CHECK(passes.take().empty());
  passes.add_device_time(range("op/a/backward", begin + 50, begin + 70), 200);
  const auto timed = passes.take();
  REQUIRE(timed.size() == 1);
  CHECK(timed.front().busy_ns == 350);
  CHECK(timed.front().step == StepPasses::kFirst);
}
