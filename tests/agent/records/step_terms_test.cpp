
#include <catch2/catch.hpp>

#include "../job_range.hpp"
#include "records/step_passes.hpp"

using namespace trimtab::agent;

namespace {

constexpr std::uint32_t kMain = 7;
constexpr std::uint32_t kWatcher = 9;

using Kind = RangeName::Kind;

StepInterval of(Kind work, std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread = kMain) {
  return {begin_ns, end_ns, work, thread};
}

}  // namespace

TEST_CASE("a step's time goes to the first of what went on, and to idleness where nothing did") {
  const StepTermTimes terms = step_terms(
      {
          of(Kind::kTransfer, 100, 130),
          of(Kind::kOperator, 130, 200),
          of(Kind::kCollective, 150, 160),  // of the pass: its own tensor-parallel ranks
          of(Kind::kCollective, 200, 215),  // a change of layout
          of(Kind::kOperator, 215, 300),
          of(Kind::kCollective, 280, 340, kWatcher),  // gradients: 40 of it nothing hides
          of(Kind::kCollective, 345, 350),            // the job's own, when all passes are over
          of(Kind::kOptimizer, 350, 360),
      },
      100, 400, kMain);
  CHECK(terms == StepTermTimes{165, 15, 30, 45, 45});
}

TEST_CASE("what lies outside of the step is cut off, and what another thread sends is its own") {
  const StepTermTimes terms =
      step_terms({of(Kind::kCollective, 50, 110, kWatcher), of(Kind::kOperator, 190, 260),
                  of(Kind::kTransfer, 120, 150, kWatcher), of(Kind::kOptimizer, 20, 40), of(Kind::kOperator, 250, 900)},
                 100, 300, kMain);
  CHECK(terms == StepTermTimes{110, 0, 0, 10, 80});
}

TEST_CASE("while gradients are summed a rank that waits for its input waits for that") {
  const StepTermTimes terms = step_terms({of(Kind::kOperator, 0, 10), of(Kind::kCollective, 5, 60, kWatcher),
                                          of(Kind::kTransfer, 20, 50), of(Kind::kOperator, 90, 100)},
                                         0, 100, kMain);
  CHECK(terms == StepTermTimes{20, 0, 30, 20, 30});
}

TEST_CASE("nothing of a step is idleness alone") {
  CHECK(step_terms({}, 5, 25, kMain) == StepTermTimes{0, 0, 0, 0, 20});
  CHECK(step_terms({}, 25, 25, kMain) == StepTermTimes{});
}

TEST_CASE("a timed step tells its terms, and none on a device, where ranges are the host's") {
  for (const bool on_device : {false, true}) {
    StepPasses passes;
    if (on_device) passes.on_device();
    for (int step = 1; step <= StepPasses::kFirst; ++step) {
      const std::uint64_t begin = 1000 * static_cast<std::uint64_t>(step);
      passes.add(range("op/a/forward", begin + 10, begin + 20));
      passes.add(range("transfer/recv", begin + 20, begin + 40));
      passes.add(range("op/a/backward", begin + 50, begin + 70));
      passes.add(range("comm/all_reduce/2", begin + 70, begin + 78));
      passes.add(range("optimizer", begin + 80, begin + 90));
      passes.add(range("step", begin, begin + 100, step));
    }
    const std::uint64_t last = 1000 * StepPasses::kFirst;
    passes.add_device_time(range("op/a/forward", last + 10, last + 20), 100);
    passes.add_device_time(range("op/a/backward", last + 50, last + 70), 200);
    const auto timed = passes.take();
    REQUIRE(timed.size() == 1);
    CHECK(timed.front().busy_ns == (on_device ? 300 : 30));
    if (on_device) {
      CHECK_FALSE(timed.front().terms);
    } else {
      CHECK(timed.front().terms == StepTermTimes{40, 0, 20, 8, 32});
    }
  }
}

TEST_CASE("more waits than there is room for cost the terms, and not what passes took") {
  StepPasses passes;
  for (int step = 1; step <= StepPasses::kFirst; ++step) {
    const std::uint64_t begin = 1'000'000 * static_cast<std::uint64_t>(step);
    passes.add(range("op/a/forward", begin + 10, begin + 30));
    for (std::uint64_t i = 0; i < 70'000; ++i) passes.add(range("comm/all_reduce/2", begin + 40 + i, begin + 41 + i));
    passes.add(range("op/a/backward", begin + 80'000, begin + 80'050));
    passes.add(range("step", begin, begin + 90'000, step));
  }
  const auto timed = passes.take();
  REQUIRE(timed.size() == 1);
  CHECK(timed.front().busy_ns == 70);
  CHECK_FALSE(timed.front().terms);
}
