#include "records/step_period.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <ctime>
#include <vector>

#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

using Symbols = std::vector<std::uint32_t>;
using Boundary = StepPeriod::Boundary;

// One step of a transformer: embedding, layers forward and backward for each microbatch, then the optimizer. `variant`
// changes what runs, as another plan does.
Symbols step_of(std::uint32_t layers, std::uint32_t microbatches, std::uint32_t variant = 0) {
  Symbols step;
  const std::uint32_t v = 10'000 * variant;
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    step.push_back(v + 1);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (const std::uint32_t k : {10, 11, 12, 10, 13, 14, 15, 12, 16, 17, 16, 12}) step.push_back(v + k);
    }
    for (std::uint32_t k = 30; k < 34; ++k) step.push_back(v + k);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (std::uint32_t k = 40; k < 63; ++k) step.push_back(v + k % 57);
    }
    step.push_back(v + 70);
  }
  for (std::uint32_t k = 80; k < 92; ++k) step.push_back(v + k);
  return step;
}

struct Feed {
  explicit Feed(PeriodOptions options = {}) : period(options) {}
  void add(const Symbols& symbols) {
    for (const std::uint32_t symbol : symbols) {
      const Boundary boundary = period.add(symbol, now);
      now += 20'000;
      regular += boundary == Boundary::kRegular ? 1 : 0;
      if (boundary != Boundary::kNone) lengths.push_back(now - begin);
      if (boundary != Boundary::kNone) begin = now;
    }
  }
  StepPeriod period;
  std::uint64_t now = 1;
  std::uint64_t begin = 0;
  std::uint64_t regular = 0;
  std::vector<std::uint64_t> lengths;
};

Symbols noise(Random& random, const Symbols& step, double rate) {
  Symbols result;
  for (const std::uint32_t symbol : step) {
    if (random.uniform() < rate / 2) continue;
    result.push_back(symbol);
    if (random.uniform() < rate / 2) result.push_back(static_cast<std::uint32_t>(5000 + random.below(200)));
  }
  return result;
}

}  // namespace

TEST_CASE("the step is the optimizer's period, not a layer's or a microbatch's") {
  for (const std::uint32_t microbatches : {1U, 4U, 16U}) {
    INFO(microbatches << " microbatches");
    const Symbols step = step_of(12, microbatches);
    Feed feed;
    for (int i = 0; i < 40 || feed.now < 60'000'000'000; ++i) feed.add(step);
    const auto found = feed.period.found();
    REQUIRE(found);
    CHECK(found->kernels == step.size());
    CHECK(found->confidence > 0.9);
    CHECK(feed.regular > 10);
    CHECK(feed.lengths.back() == step.size() * 20'000);
  }
}

TEST_CASE("warm-up before the first step does not hide the period") {
  Random random(3);
  Feed feed;
  Symbols start;
  for (int i = 0; i < 3000; ++i) start.push_back(static_cast<std::uint32_t>(100'000 + random.below(400)));
  feed.add(start);
  const Symbols step = step_of(6, 2);
  for (int i = 0; i < 200; ++i) feed.add(step);
  REQUIRE(feed.period.found());
  CHECK(feed.period.found()->kernels == step.size());
}

TEST_CASE("kernels that come and go do not break the steps") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Feed feed;
    const Symbols step = step_of(8, 2);
    for (int i = 0; i < 250; ++i) feed.add(noise(random, step, 0.04));
    const auto found = feed.period.found();
    REQUIRE(found);
    CHECK(static_cast<double>(found->kernels) == Approx(step.size()).epsilon(0.06));
    CHECK(feed.regular > 100);
  }
}

TEST_CASE("a loss that is read every tenth step is no step") {
  Feed feed;
  const Symbols step = step_of(4, 1);
  for (int i = 0; i < 600; ++i) {
    feed.add(step);
    if (i % 10 == 9) feed.add({9000, 9001});
  }
  REQUIRE(feed.period.found());
  CHECK(feed.period.found()->kernels == step.size());
}

TEST_CASE("another plan is another period, found again") {
  Feed feed;
  const Symbols before = step_of(8, 4);
  const Symbols after = step_of(8, 2, 1);
  for (int i = 0; i < 120; ++i) feed.add(before);
  REQUIRE(feed.period.found());
  CHECK(feed.period.found()->kernels == before.size());
  feed.add(Symbols(500, 77));  // the switch
  const std::uint64_t until_then = feed.regular;
  for (int i = 0; i < 400; ++i) feed.add(after);
  REQUIRE(feed.period.found());
  CHECK(feed.period.found()->kernels == after.size());
  CHECK(feed.regular > until_then + 100);
}

TEST_CASE("nothing is found in streams without a period") {
  std::uint64_t steps = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Feed feed;
    Symbols symbols;
    const std::uint64_t alphabet = 2 + random.below(300);
    for (int i = 0; i < 100'000; ++i) {
      // Some far more often than others, as kernels are.
      const double u = random.uniform();
      symbols.push_back(static_cast<std::uint32_t>(u * u * u * static_cast<double>(alphabet)));
    }
    feed.add(symbols);
    CHECK_FALSE(feed.period.found());
    steps += feed.regular;
  }
  CHECK(steps == 0);
  Feed constant;
  constant.add(Symbols(100'000, 5));
  CHECK_FALSE(constant.period.found());
}

TEST_CASE("symbols that come evenly, and nothing alike between them, take no more than their time") {
  const auto seconds_for = [](std::uint32_t rare_symbols) {
    Feed feed;
    Random random(5);
    const std::clock_t begun = std::clock();
    for (std::uint32_t i = 0; i < 200'000; ++i) {
      // So many symbols each come every so often, the later ones more often; all others but once.
      const std::uint32_t rare = i % 400 / 8;
      const bool even = i % 8 == 0 && rare < rare_symbols && (i / 400) % (1 + rare % 12) == 0;
      feed.add({even ? 1 + rare : 1000 + i});
    }
    CHECK(feed.regular == 0);
    return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  };
  const double none = seconds_for(0);
  CHECK(seconds_for(48) < 10 * none + 1);
}

TEST_CASE("a short burst is no period: time must have passed") {
  Feed feed;
  const Symbols step = step_of(2, 1);
  for (int i = 0; i < 20; ++i) feed.add(step);
  REQUIRE(feed.now < 1'000'000'000);
  CHECK_FALSE(feed.period.found());
}

TEST_CASE("the period of collectives is found in the same way") {
  Feed feed;
  const Symbols step = {1, 1, 1, 1, 2, 3, 3, 4};
  for (int i = 0; i < 20'000; ++i) feed.add(step);
  REQUIRE(feed.period.found());
  CHECK(feed.period.found()->kernels == step.size());
}
