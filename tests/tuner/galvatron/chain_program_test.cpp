// The layer program against every choice there is, and against the sweep as the paper prints it.

#include "papers/galvatron/chain_program.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

using namespace trimtab::tuner::galvatron;  // NOLINT: a test's own file

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Shape {
  int layers = 6;
  int kinds = 2;
  int strategies = 8;
  bool changes = true;
  int free_kind = -1;  // whose layers wait for no layout
  bool peaks = true;
};

// Memory in whole units, so that the printed sweep can step through it.
ChainProblem random_problem(std::mt19937_64& random, const Shape& shape) {
  const auto whole = [&](int low, int high) {
    return static_cast<double>(std::uniform_int_distribution(low, high)(random));
  };
  ChainProblem problem;
  problem.strategies = shape.strategies;
  for (int i = 0; i < shape.layers; ++i) problem.kinds.push_back(static_cast<std::int32_t>(whole(0, shape.kinds - 1)));
  for (int k = 0; k < shape.kinds; ++k) {
    std::vector<ChainCost>& of = problem.costs.emplace_back();
    std::vector<double>& change = problem.changes.emplace_back();
    for (int s = 0; s < shape.strategies; ++s) {
      const double kept = whole(0, 12);
      of.push_back({whole(1, 60) / 4 + 20 / (1 + kept), kept, whole(0, 9), shape.peaks ? whole(0, 15) : 0});
      for (int t = 0; t < shape.strategies; ++t) change.push_back(s == t ? 0 : whole(0, 8) / 4);
    }
    if (!shape.changes || k == shape.free_kind) change.clear();
  }
  return problem;
}

// One chain alone.
std::optional<ChainChoice> solve_chain(const ChainProblem& problem) {
  return ChainProgram(problem).solve(problem.kinds);
}

// Time and memory of a choice.
ChainChoice price_chain(const ChainProblem& problem, std::vector<std::int32_t> strategies) {
  ChainChoice choice;
  double kept = 0;
  double states = 0;
  double highest = 0;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const auto kind = static_cast<std::size_t>(problem.kinds[i]);
    const ChainCost& cost = problem.costs[kind][static_cast<std::size_t>(strategies[i])];
    choice.time += cost.time;
    if (i > 0 && !problem.changes.empty() && !problem.changes[kind].empty()) {
      choice.time +=
          problem.changes[kind][static_cast<std::size_t>(strategies[i - 1]) * problem.strategies + strategies[i]];
    }
    kept += cost.kept;
    states += cost.states;
    highest = std::max(highest, kept + cost.peak);
  }
  choice.memory = states + highest;
  choice.strategies = std::move(strategies);
  return choice;
}

double least_time(const ChainProblem& problem) {
  std::vector<std::int32_t> choice(problem.kinds.size(), 0);
  double best = kInfinite;
  while (true) {
    const ChainChoice priced = price_chain(problem, choice);
    if (priced.memory <= problem.limit) best = std::min(best, priced.time);
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == problem.strategies) choice[i++] = 0;
    if (i == choice.size()) return best;
  }
}

// Equation 4 at every budget of forward memory, equation 2 checked of its answer, the quickest that passes.
double swept(const ChainProblem& problem) {
  const auto width = static_cast<int>(problem.limit) + 1;
  const int count = problem.strategies;
  const std::size_t layers = problem.kinds.size();
  std::vector<std::vector<double>> time(layers + 1,
                                        std::vector<double>(static_cast<std::size_t>(width * count), kInfinite));
  std::vector<std::vector<int>> from(layers, std::vector<int>(static_cast<std::size_t>(width * count), -1));
  for (double& start : time[0]) start = 0;
  for (std::size_t i = 0; i < layers; ++i) {
    const auto kind = static_cast<std::size_t>(problem.kinds[i]);
    for (int budget = 0; budget < width; ++budget) {
      for (int s = 0; s < count; ++s) {
        const ChainCost& cost = problem.costs[kind][static_cast<std::size_t>(s)];
        const int left = budget - static_cast<int>(cost.kept + cost.states);
        if (left < 0) continue;
        for (int p = 0; p < count; ++p) {
          const bool moves = i > 0 && !problem.changes[kind].empty();
          const double with = time[i][static_cast<std::size_t>(left * count + p)] + cost.time +
                              (moves ? problem.changes[kind][static_cast<std::size_t>(p * count + s)] : 0);
          const auto at = static_cast<std::size_t>(budget * count + s);
          if (with >= time[i + 1][at]) continue;
          time[i + 1][at] = with;
          from[i][at] = p;
        }
      }
    }
  }
  double best = kInfinite;
  for (int budget = 0; budget < width; ++budget) {
    int s = -1;
    for (int k = 0; k < count; ++k) {
      const double here = time[layers][static_cast<std::size_t>(budget * count + k)];
      if (here < kInfinite && (s < 0 || here < time[layers][static_cast<std::size_t>(budget * count + s)])) s = k;
    }
    if (s < 0) continue;
    std::vector<std::int32_t> choice(layers);
    int left = budget;
    for (std::size_t i = layers; i-- > 0;) {
      choice[i] = s;
      const ChainCost& cost = problem.costs[static_cast<std::size_t>(problem.kinds[i])][static_cast<std::size_t>(s)];
      s = from[i][static_cast<std::size_t>(left * count + s)];
      left -= static_cast<int>(cost.kept + cost.states);
    }
    const ChainChoice priced = price_chain(problem, choice);
    if (priced.memory <= problem.limit) best = std::min(best, priced.time);
  }
  return best;
}

}  // namespace

TEST_CASE("galvatron: the layer program equals every choice there is", "[galvatron]") {
  const std::uint64_t seed = 20241;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int bound = 0;  // problems whose memory limit matters
  for (int i = 0; i < 240; ++i) {
    Shape shape;
    shape.layers = 1 + i % 4;
    shape.strategies = 2 + i % 7;
    shape.kinds = 1 + i % 3;
    shape.changes = i % 4 != 0;
    shape.free_kind = i % 5 - 1;
    shape.peaks = i % 3 != 0;
    ChainProblem problem = random_problem(random, shape);
    for (const double limit : {4.0, 18.0, 30.0, 42.0, 60.0, 300.0}) {
      problem.limit = limit;
      const double expected = least_time(problem);
      const std::optional<ChainChoice> found = solve_chain(problem);
      INFO("problem " << i << ", limit " << limit);
      REQUIRE(found.has_value() == (expected < kInfinite));
      if (!found) continue;
      CHECK(found->time == Approx(expected).epsilon(1e-11));
      CHECK(found->memory <= limit);
      CHECK(price_chain(problem, found->strategies).time == found->time);
      problem.limit = 1e9;
      if (solve_chain(problem)->time < found->time) ++bound;
    }
  }
  CHECK(bound > 300);
}

TEST_CASE("galvatron: a layer program that its limits cut short answers with what fits, and says so", "[galvatron]") {
  const std::uint64_t seed = 20242;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int cut_short = 0;
  int slower = 0;
  for (int i = 0; i < 200; ++i) {
    Shape shape;
    shape.layers = 6;
    shape.strategies = 8;
    shape.kinds = 2;
    shape.changes = i % 2 == 0;
    ChainProblem problem = random_problem(random, shape);
    problem.limit = 40 + i % 20;
    const std::optional<ChainChoice> best = solve_chain(problem);
    ChainProgram program(problem, {.most_labels = 1});
    const std::optional<ChainChoice> found = program.solve(problem.kinds);
    INFO("problem " << i);
    if (!program.cut_short()) REQUIRE(found.has_value() == best.has_value());
    cut_short += program.cut_short() ? 1 : 0;
    if (!found) continue;
    REQUIRE(best.has_value());
    CHECK(found->memory <= problem.limit);
    CHECK(price_chain(problem, found->strategies).time == found->time);
    CHECK(found->time >= best->time * (1 - 1e-11));
    const bool worse = found->time > best->time * (1 + 1e-11);
    if (worse) CHECK(program.cut_short());
    slower += worse ? 1 : 0;
  }
  CHECK(cut_short > 0);
  CHECK(slower > 0);
}

TEST_CASE("galvatron: six layers of eight strategies equal every choice", "[galvatron]") {
  const std::uint64_t seed = 77;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 6; ++i) {
    Shape shape;
    shape.changes = i % 2 == 0;
    shape.peaks = i % 3 != 2;
    ChainProblem problem = random_problem(random, shape);
    for (const double limit : {26.0, 40.0, 58.0}) {
      problem.limit = limit;
      const double expected = least_time(problem);
      const std::optional<ChainChoice> found = solve_chain(problem);
      INFO("problem " << i << ", limit " << limit);
      REQUIRE(found.has_value() == (expected < kInfinite));
      if (found) CHECK(found->time == Approx(expected).epsilon(1e-11));
    }
  }
}

TEST_CASE("galvatron: the layer program is never behind the printed sweep, and is ahead of it where peaks decide",
          "[galvatron]") {
  const std::uint64_t seed = 4;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int ahead = 0;
  for (int i = 0; i < 300; ++i) {
    Shape shape;
    shape.layers = 3 + i % 6;
    shape.strategies = 5;
    shape.changes = i % 2 == 0;
    ChainProblem problem = random_problem(random, shape);
    problem.limit = 20 + i % 50;
    const double by_sweep = swept(problem);
    const std::optional<ChainChoice> found = solve_chain(problem);
    INFO("problem " << i);
    if (by_sweep < kInfinite) {
      REQUIRE(found.has_value());
      CHECK(found->time <= by_sweep * (1 + 1e-11));
    }
    if (found && found->time < by_sweep * (1 - 1e-9)) ++ahead;
  }
  CHECK(ahead > 10);
}

TEST_CASE("galvatron: without peaks the layer program and the printed sweep agree", "[galvatron]") {
  const std::uint64_t seed = 11;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100; ++i) {
    Shape shape;
    shape.layers = 4 + i % 9;
    shape.peaks = false;
    shape.changes = i % 2 == 0;
    ChainProblem problem = random_problem(random, shape);
    problem.limit = 20 + i;
    const double by_sweep = swept(problem);
    const std::optional<ChainChoice> found = solve_chain(problem);
    INFO("problem " << i);
    REQUIRE(found.has_value() == (by_sweep < kInfinite));
    if (found) CHECK(found->time == Approx(by_sweep).epsilon(1e-11));
  }
}

TEST_CASE("galvatron: strategies without a price are never chosen", "[galvatron]") {
  ChainProblem problem;
  problem.strategies = 2;
  problem.kinds = {0, 1};
  problem.costs = {{{kInfinite, 0, 0, 0}, {5, 1, 1, 0}}, {{1, 1, 1, 0}, {kInfinite, 0, 0, 0}}};
  problem.limit = 10;
  const std::optional<ChainChoice> found = solve_chain(problem);
  REQUIRE(found.has_value());
  CHECK(found->strategies == std::vector<std::int32_t>{1, 0});
  CHECK(found->time == 6);
  problem.limit = 3;
  CHECK_FALSE(solve_chain(problem).has_value());
}
