// How often the intervals of comparison.hpp hold the truth, in worlds that are told apart by what steps share.

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/racing.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr int kRuns = 4000;

struct World {
  std::string name;
  double step = 0.03;   // noise of a single step
  double block = 0;     // and what the steps of a block share
  double outliers = 0;  // share of steps that take three times as long
  bool heavy = false;   // Student's t of three degrees instead of the normal distribution
  double wander = 0;    // a drift that keeps to itself over some 30 steps
  double slope = 0;     // and one that goes on
  // Where a block's trimmed mean meets what the mean of all blocks trims away, their scatter says too much.
  [[nodiscard]] double allowance() const { return outliers > 0 ? 1.5 : 1; }
};

const std::vector<World> kWorlds = {
    {"no noise of blocks"},
    {"noise of blocks like that of steps", 0.03, 0.03},
    {"noise of blocks above that of steps", 0.03, 0.06},
    {"outliers", 0.03, 0, 0.1},
    {"outliers and noise of blocks", 0.03, 0.03, 0.05},
    {"heavy tails", 0.03, 0, 0, true},
    {"heavy tails and noise of blocks", 0.03, 0.03, 0, true},
    {"wandering", 0.03, 0, 0, false, 0.03},
    {"wandering and noise of blocks", 0.03, 0.03, 0, false, 0.03},
    {"a linear drift", 0.03, 0, 0, false, 0, 0.001},
};

class Machine {
 public:
  Machine(const World& world, std::uint64_t seed) : world_(world), random_(seed) {}

  std::vector<double> block(double ms) {
    constexpr int kSteps = 5;
    const double kept = std::exp(-1.0 / 30);
    const double shift = world_.block * random_.normal();
    std::vector<double> times;
    for (int i = 0; i < kSteps; ++i, ++step_) {
      wandered_ = kept * wandered_ + world_.wander * std::sqrt(1 - kept * kept) * random_.normal();
      const double spike = random_.uniform() < world_.outliers ? 3.0 : 1.0;
      times.push_back(ms * spike * std::exp(shift + wandered_ + world_.slope * step_ + world_.step * noise()));
    }
    return times;
  }

 private:
  double noise() {
    const double normal = random_.normal();
    if (!world_.heavy) return normal;
    double squares = 0;
    for (int i = 0; i < 3; ++i) squares += std::pow(random_.normal(), 2);
    return normal / std::sqrt(squares / 3);
  }

  World world_;
  Random random_;
  double wandered_ = 0;
  int step_ = 0;
};

struct Sides {
  Blocks first;
  Blocks second;
  // A B B A A B …
  void add_pair(Machine& machine, double first_ms, double second_ms) {
    const bool first_leads = first.size() % 2 == 0;
    if (first_leads) first.push_back(machine.block(first_ms));
    second.push_back(machine.block(second_ms));
    if (!first_leads) first.push_back(machine.block(first_ms));
  }
};

// What the job has shown of its blocks: nothing, four blocks of the initial plan, also a trial of two pairs and one of
// three, also two trials that ended when the sequential test was sure.
enum class Known { kNothing, kInitialBlocks, kTrials, kRaces };

Sides measured(Machine& machine, int pairs, double first_ms, double second_ms) {
  Sides sides;
  for (int pair = 0; pair < pairs; ++pair) sides.add_pair(machine, first_ms, second_ms);
  return sides;
}

Sides raced(Machine& machine, double second_ms, const PairNoise& noise) {
  const RaceRules rules{6, 0.01, 0, 1'000'000};
  Sides sides;
  do sides.add_pair(machine, 100, second_ms);
  while (look(sides.first, sides.second, noise, rules).state == RaceState::kOpen);
  return sides;
}

PairNoise shown(Machine& machine, Known known) {
  PairNoise noise;
  if (known == Known::kNothing) return noise;
  Blocks alone;
  for (int i = 0; i < 4; ++i) alone.push_back(machine.block(100));
  noise.learn_from_one_plan(alone);
  if (known == Known::kInitialBlocks) return noise;
  for (const double second_ms : {80.0, 105.0}) {
    const bool is_race = known == Known::kRaces;
    const Sides trial =
        is_race ? raced(machine, second_ms, noise) : measured(machine, second_ms < 100 ? 2 : 3, 100, second_ms);
    noise.learn_from_pairs(trial.first, trial.second);
  }
  return noise;
}

struct Judged {
  double covered = 0;  // shares of runs
  double slower = 0;   // the second is said to be surely slower
  double faster = 0;
  double wide = 0;  // mean width over that of an interval that knew the true spread
};

Judged judged(const World& world, Known known, int pairs, int runs) {
  Judged all;
  double width = 0;
  double squares = 0;
  for (int seed = 1; seed <= runs; ++seed) {
    Machine machine(world, static_cast<std::uint64_t>(seed));
    const PairNoise noise = shown(machine, known);
    const Sides sides = measured(machine, pairs, 100, 100);
    const Ratio ratio = compare(sides.first, sides.second, noise);
    all.covered += ratio.low <= 1 && 1 <= ratio.high ? 1.0 / runs : 0;
    all.slower += ratio.high < 1 ? 1.0 / runs : 0;
    all.faster += ratio.low > 1 ? 1.0 / runs : 0;
    width += std::log(ratio.high / ratio.low) / runs;
    squares += std::pow(std::log(ratio.ratio), 2) / runs;
  }
  all.wide = width / (2 * 1.96 * std::sqrt(squares));
  return all;
}

// What a share of so many runs may miss the nominal one by: two standard errors.
double error_of(double share, int runs) {
  return 2 * std::sqrt(share * (1 - share) / runs);
}

void check(Known known, int pairs, double most_wide, int runs = kRuns) {
  for (const World& world : kWorlds) {
    const Judged one = judged(world, known, pairs, runs);
    INFO(world.name << ", " << pairs << " pairs: covered " << one.covered << ", surely slower " << one.slower
                    << ", surely faster " << one.faster << ", width " << one.wide << " times the least");
    CHECK(one.covered >= 0.95 - error_of(0.05, runs));
    CHECK(one.slower <= 0.025 + error_of(0.025, runs));
    CHECK(one.faster <= 0.025 + error_of(0.025, runs));
    CHECK(one.wide <= most_wide * world.allowance());
  }
}

}  // namespace

TEST_CASE("a ratio's interval holds as often as it says, whatever steps of a block share, seeds 1 to 4000",
          "[comparison]") {
  check(Known::kTrials, 3, 1.8);
  check(Known::kTrials, 2, 1.8);
}

TEST_CASE("a ratio's interval holds before a trial has shown what blocks scatter by, seeds 1 to 4000", "[comparison]") {
  check(Known::kInitialBlocks, 3, 2.1);
  check(Known::kInitialBlocks, 2, 2.1);
}

TEST_CASE("a ratio's interval holds where the job has shown nothing, seeds 1 to 4000", "[comparison]") {
  check(Known::kNothing, 3, 2.5);
}

TEST_CASE("a ratio's interval holds after trials that ended as soon as they were sure, seeds 1 to 500",
          "[comparison]") {
  check(Known::kRaces, 3, 1.8, 500);
}

TEST_CASE("one plan's interval holds as often as it says where blocks share noise, seeds 1 to 4000", "[comparison]") {
  for (const World& world : kWorlds) {
    // Outliers move a trimmed mean, and a drift moves the truth.
    if (world.outliers > 0 || world.wander > 0 || world.slope > 0) continue;
    for (const int count : {1, 2, 3}) {
      int covered = 0;
      double width = 0;
      double squares = 0;
      for (int seed = 1; seed <= kRuns; ++seed) {
        Machine machine(world, static_cast<std::uint64_t>(seed));
        const PairNoise noise = shown(machine, Known::kTrials);
        Blocks blocks;
        for (int i = 0; i < count; ++i) blocks.push_back(machine.block(100));
        const Measured measured = summarize(blocks, noise);
        covered += measured.low_ms <= 100 && 100 <= measured.high_ms ? 1 : 0;
        width += std::log(measured.high_ms / measured.low_ms) / kRuns;
        squares += std::pow(std::log(measured.mean_ms / 100), 2) / kRuns;
      }
      const double wide = width / (2 * 1.96 * std::sqrt(squares));
      INFO(world.name << ", " << count << " blocks: covered " << static_cast<double>(covered) / kRuns << ", width "
                      << wide << " times the least");
      CHECK(covered >= (0.95 - error_of(0.05, kRuns)) * kRuns);
      CHECK(wide <= (count == 1 ? 2.2 : 1.8));
    }
  }
}
