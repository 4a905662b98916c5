#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"
#include "tuning/change/settling.hpp"
#include "tuning/trial/racing.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A machine: its own noise, a slow drift that neighbouring blocks share in part, checkpoints.
class Machine {
 public:
  Machine(std::uint64_t seed, double noise, double drift, bool linear = false)
      : random_(seed), noise_(noise), drift_(drift), linear_(linear) {}

  // Somebody else uses it for some steps, which take so many times as long.
  void disturb(int first, int steps, double times) {
    disturbed_ = first;
    disturbed_end_ = first + steps;
    times_ = times;
  }
  std::vector<double> block(double ms, int steps = 5) {
    std::vector<double> times;
    for (int i = 0; i < steps; ++i, ++step_) {
      const double kept = std::exp(-1.0 / 30);
      state_ = kept * state_ + drift_ * std::sqrt(1 - kept * kept) * random_.normal();
      const double slope = linear_ ? 0.001 * step_ : 0;
      const double spike = step_ % 47 == 0 ? 2.5 : 1.0;
      const double shared = step_ >= disturbed_ && step_ < disturbed_end_ ? times_ : 1.0;
      times.push_back(ms * spike * shared * std::exp(state_ + slope + noise_ * random_.normal()));
    }
    return times;
  }

 private:
  Random random_;
  double noise_;
  double drift_;
  bool linear_;
  double state_ = 0;
  int step_ = 1;
  int disturbed_ = 0;
  int disturbed_end_ = 0;
  double times_ = 1;
};

struct Raced {
  Race race;
  int pairs = 0;
};

// As the tuning machine does it: four blocks of the first plan alone, then A B B A A B ….
Raced raced(Machine& machine, double first_ms, double second_ms, const RaceRules& rules) {
  PairNoise noise;
  Blocks alone;
  for (int i = 0; i < 4; ++i) alone.push_back(machine.block(first_ms));
  noise.learn_from_one_plan(alone);
  Blocks first;
  Blocks second;
  for (int pair = 0;; ++pair) {
    if (pair % 2 == 0) first.push_back(machine.block(first_ms));
    second.push_back(machine.block(second_ms));
    if (pair % 2 == 1) first.push_back(machine.block(first_ms));
    const Race race = look(first, second, noise, rules);
    if (race.state != RaceState::kOpen) return {race, pair + 1};
  }
}

const RaceRules kRules{6, 0.01, 0, 1'000'000};

double share_called_faster(double second_ms, double noise, double drift, bool linear = false, int runs = 2000) {
  int faster = 0;
  for (int run = 0; run < runs; ++run) {
    Machine machine(1000 + run, noise, drift, linear);
    if (raced(machine, 100, second_ms, kRules).race.state == RaceState::kFaster) ++faster;
  }
  return static_cast<double>(faster) / runs;
}

}  // namespace

TEST_CASE("a plan that is no faster is called faster at most as often as is stated, seeds 1000 to 2999", "[racing]") {
  CHECK(share_called_faster(100, 0.02, 0) <= kErrorRate);
  CHECK(share_called_faster(100, 0.02, 0.01) <= kErrorRate);
  CHECK(share_called_faster(100, 0.05, 0.03) <= kErrorRate);
  CHECK(share_called_faster(100, 0.02, 0.01, true) <= kErrorRate);
  CHECK(share_called_faster(101, 0.02, 0.01) <= kErrorRate);
}

TEST_CASE("a plan that is clearly faster is nearly always found, after few pairs, seeds 1 to 200", "[racing]") {
  int found = 0;
  int pairs = 0;
  for (int seed = 1; seed <= 200; ++seed) {
    Machine machine(seed, 0.02, 0.01);
    const Raced one = raced(machine, 100, 90, kRules);
    found += one.race.state == RaceState::kFaster ? 1 : 0;
    pairs += one.pairs;
  }
  INFO(found << " of 200 found after " << pairs / 200.0 << " pairs");
  CHECK(found >= 190);
  CHECK(pairs <= 200 * 3);
}

TEST_CASE("a plan that is clearly slower ends after the first pair or two, seeds 1 to 200", "[racing]") {
  int pairs = 0;
  for (int seed = 1; seed <= 200; ++seed) {
    Machine machine(seed, 0.02, 0.01);
    const Raced one = raced(machine, 100, 115, kRules);
    CHECK(one.race.state != RaceState::kFaster);
    pairs += one.pairs;
  }
  CHECK(pairs <= 200 * 2);
}

TEST_CASE("the interval holds over all looks, seeds 1 to 1000", "[racing]") {
  int covered = 0;
  for (int seed = 1; seed <= 1000; ++seed) {
    Machine machine(seed, 0.03, 0.01);
    const Race race = raced(machine, 105, 100, kRules).race;
    if (race.ratio.low <= 1.05 && 1.05 <= race.ratio.high) ++covered;
  }
  CHECK(covered >= 950);
}

TEST_CASE("one slow step in a block changes no verdict", "[racing]") {
  PairNoise noise{8 * 0.0001, 8};
  Blocks first = {{100, 101, 99, 100, 100}, {100, 100, 101, 99, 100}};
  const Blocks second = {{90, 91, 89, 90, 90}, {90, 90, 91, 89, 90}};
  CHECK(look(first, second, noise, kRules).state == RaceState::kFaster);
  first[0][1] = 900;
  const Race race = look(first, second, noise, kRules);
  CHECK(race.state == RaceState::kFaster);
  CHECK(race.ratio.ratio == Approx(100.0 / 90).epsilon(0.01));
}

TEST_CASE("looks become rarer, and a race of more pairs has hardly more of them", "[racing]") {
  CHECK(looks_of(1) == 1);
  CHECK(looks_of(4) == 4);
  CHECK(looks_of(6) == 5);
  CHECK(looks_of(9) == 6);
  CHECK(looks_of(12) == 7);
  const PairNoise noise{8 * 1e-6, 8};
  Blocks first(4, {100, 101, 99, 100, 100});
  Blocks second(4, {95, 96, 94, 95, 95});
  first.push_back(first.front());
  second.push_back(second.front());
  CHECK(look(first, second, noise, kRules).state == RaceState::kOpen);
  first.push_back(first.front());
  second.push_back(second.front());
  CHECK(look(first, second, noise, kRules).state == RaceState::kFaster);
}

TEST_CASE("twelve pairs find most gains of 3 % and keep the error rate, seeds 1000 to 2999", "[racing]") {
  RaceRules rules = kRules;
  rules.pairs = 12;
  int found = 0;
  int wrong = 0;
  for (int seed = 1000; seed < 3000; ++seed) {
    Machine better(seed, 0.02, 0.01);
    Machine same(seed, 0.02, 0.01);
    found += raced(better, 100, 97, rules).race.state == RaceState::kFaster ? 1 : 0;
    wrong += raced(same, 100, 100, rules).race.state == RaceState::kFaster ? 1 : 0;
  }
  INFO(found << " of 2000 found, " << wrong << " of 2000 wrong");
  CHECK(found >= 1200);
  CHECK(wrong <= 2000 * kErrorRate);
}

TEST_CASE("a gain that does not pay for the change is not called faster", "[racing]") {
  const PairNoise noise{8 * 0.0001, 8};
  const Blocks first = {{100, 100, 100}, {100, 100, 100}, {100, 100, 100}};
  const Blocks second = {{90, 90, 90}, {90, 90, 90}, {90, 90, 90}};
  RaceRules rules = kRules;
  rules.switch_ms = 5000;
  rules.remaining_steps = 100;
  CHECK(look(first, second, noise, rules).state != RaceState::kFaster);
  rules.remaining_steps = 10'000;
  const Race race = look(first, second, noise, rules);
  CHECK(race.state == RaceState::kFaster);
  const long steps = break_even_steps(race.ratio, 100, 5000);
  CHECK(steps > 500);
  CHECK(steps < 10'000);
  CHECK(break_even_steps({1.1, 0.99, 1.2}, 100, 5000) == 0);
}

TEST_CASE("a machine that became noisier is believed", "[racing]") {
  const PairNoise quiet{20 * 1e-6, 20};
  const Blocks first = {{100, 100, 100}, {120, 120, 120}, {95, 95, 95}, {110, 110, 110}};
  const Blocks second = {{95, 95, 95}, {100, 100, 100}, {110, 110, 110}, {100, 100, 100}};
  CHECK(look(first, second, quiet, kRules).state != RaceState::kFaster);
}

TEST_CASE("old noise fades", "[racing]") {
  PairNoise noise;
  for (int i = 0; i < 1000; ++i) noise.add(1e-4, 1);
  CHECK(noise.degrees <= 25);
  CHECK(noise.squares / noise.degrees == Approx(1e-4));
  for (int i = 0; i < 200; ++i) noise.add(9e-4, 1);
  CHECK(noise.squares / noise.degrees == Approx(9e-4).epsilon(0.05));
}

TEST_CASE("quantiles of Student's t are those of the tables", "[racing]") {
  CHECK(student_quantile(0.975, 1) == Approx(12.706).epsilon(1e-4));
  CHECK(student_quantile(0.975, 9) == Approx(2.262).epsilon(1e-3));
  CHECK(student_quantile(0.995, 4) == Approx(4.604).epsilon(1e-3));
  CHECK(student_quantile(0.9, 30) == Approx(1.310).epsilon(1e-3));
  CHECK(student_quantile(0.5, 3) == Approx(0).margin(1e-6));
}

TEST_CASE("warm-up does not end with a step in which a rank prepared something", "[settling]") {
  const auto steps_to_settle = [](std::vector<bool> prepared, int least) {
    Settling one(least);
    int steps = 0;
    for (const bool step : prepared) {
      if (one.settled()) break;
      one.add(300, step);
      ++steps;
    }
    return one.settled() ? steps : -1;
  };
  CHECK(steps_to_settle({false, false, false}, 2) == 2);
  CHECK(steps_to_settle({true, true, true, false, false}, 2) == 4);
  CHECK(steps_to_settle({true, false, true, false}, 2) == 2);  // what comes later is the medians' affair
  CHECK(steps_to_settle({false, true, false, false}, 2) == 3);
  CHECK(steps_to_settle({true, true}, 1) == 1);
  CHECK(steps_to_settle(std::vector<bool>(100, true), 2) == 2 + kMostUnsettled);
}

TEST_CASE("warm-up ends when step times no longer fall", "[settling]") {
  const auto steps_to_settle = [](std::vector<double> times, int least, double usual = 0) {
    Settling one(least, usual);
    int steps = 0;
    for (const double ms : times) {
      if (one.settled()) break;
      one.add(ms, false);
      ++steps;
    }
    return one.settled() ? steps : -1;
  };
  CHECK(steps_to_settle({100, 101, 100, 99}, 2) == 2);
  CHECK(steps_to_settle({900, 300, 101, 100, 99}, 2) == 4);  // a compiler, then a cache
  CHECK(steps_to_settle({900, 100, 101}, 2) == 3);
  CHECK(steps_to_settle({100, 100, 100, 100}, 4) == 4);
  CHECK(steps_to_settle({100, 100}, 1) == 1);
  CHECK(Settling(0).settled());
  CHECK(steps_to_settle({900, 890, 880, 101, 100, 99}, 2) == 2);  // perhaps it is that slow
  CHECK(steps_to_settle({900, 890, 880, 101, 100, 99}, 2, 110) == 5);
  CHECK(steps_to_settle({300, 290, 300}, 2, 110) == 2);  // a worse plan
  std::vector<double> forever;
  for (double ms = 1e9; forever.size() < 100; ms /= 2) forever.push_back(ms);
  CHECK(steps_to_settle(std::vector<double>(100, 1e6), 2, 110) == 2 + kMostUnsettled);
  CHECK(steps_to_settle(forever, 2) == 2 + kMostUnsettled);
}

TEST_CASE("a disturbance as long as a block makes no plan the faster one, seeds 1 to 2000", "[racing]") {
  int faster = 0;
  for (int seed = 1; seed <= 2000; ++seed) {
    Random where(seed);
    Machine machine(seed, 0.02, 0.01);
    machine.disturb(21 + static_cast<int>(where.uniform() * 20), 6, 2.0);  // behind the four blocks of the first plan
    faster += raced(machine, 100, 101, kRules).race.state == RaceState::kFaster ? 1 : 0;
  }
  INFO(faster << " of 2000");
  CHECK(faster <= 2000 * kErrorRate);
}
