// The lazy program over cuts against every way to cut.

#include "papers/galvatron/cut_program.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>

using namespace trimtab::tuner::galvatron;  // NOLINT: a test's own file

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Case {
  std::vector<std::int32_t> kinds;
  std::int32_t stages = 2;
  std::vector<bool> may_cut;
  std::vector<double> truth;  // by row and number
  CutValues bounds;
  CutShape shape;
};

Case random_case(std::mt19937_64& random, const LayerRanges& ranges, std::vector<std::int32_t> kinds) {
  const auto whole = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  Case one;
  one.kinds = std::move(kinds);
  one.stages = whole(1, std::min<int>(4, ranges.layers()));
  one.may_cut.assign(one.kinds.size() + 1, true);
  for (std::size_t i = 1; i < one.kinds.size(); ++i) one.may_cut[i] = whole(0, 4) > 0;
  const int rows = whole(1, one.stages);
  for (int i = 0; i < rows * ranges.count(); ++i) {
    one.truth.push_back(whole(0, 6) == 0 ? kInfinite : whole(1, 40));
    one.bounds.least.push_back(one.truth.back() < kInfinite ? whole(0, static_cast<int>(one.truth.back()))
                                                            : whole(0, 40));
  }
  one.bounds.exact.assign(one.truth.size(), 0);
  one.shape = {&ranges, {}, one.may_cut};
  for (std::int32_t s = 0; s < one.stages; ++s) {
    one.shape.rows.push_back(static_cast<std::size_t>(std::min<std::int32_t>(s, rows - 1) * ranges.count()));
  }
  return one;
}

double cost_of(const Case& one, CutGoal goal, const Partition& partition) {
  double cost = 0;
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < partition.size(); ++s) {
    const auto number = static_cast<std::size_t>(one.shape.ranges->number(begin, partition[s]));
    const double own = one.truth[one.shape.rows[s] + number];
    cost = goal == CutGoal::kSum ? cost + own : std::max(cost, own);
    begin = partition[s];
  }
  return cost;
}

double least_of_all(const Case& one, CutGoal goal) {
  const auto layers = static_cast<std::int32_t>(one.kinds.size());
  double least = kInfinite;
  Partition partition;
  const std::function<void(std::int32_t)> extend = [&](std::int32_t begin) {
    if (static_cast<std::int32_t>(partition.size()) + 1 == one.stages) {
      partition.push_back(layers);
      least = std::min(least, cost_of(one, goal, partition));
      partition.pop_back();
      return;
    }
    for (std::int32_t end = begin + 1; end < layers; ++end) {
      if (!one.may_cut[static_cast<std::size_t>(end)]) continue;
      partition.push_back(end);
      extend(end);
      partition.pop_back();
    }
  };
  extend(0);
  return least;
}

}  // namespace

TEST_CASE("galvatron: ranges of layers have a limit, by how many are of kinds of their own", "[galvatron]") {
  std::vector<std::int32_t> alike(1000, 0);
  CHECK(LayerRanges::fit(alike));
  CHECK(LayerRanges(alike).count() == 1000);
  std::vector<std::int32_t> different(600);
  std::iota(different.begin(), different.end(), 0);
  CHECK_FALSE(LayerRanges::fit(different));
  different.resize(200);
  const LayerRanges ranges(different);
  CHECK(ranges.count() == 200 * 201 / 2);
  CHECK(ranges.layers_of(ranges.number(3, 9), 8) == 1);
  CHECK(ranges.layers_of(ranges.number(3, 9), 9) == 0);
}

TEST_CASE("galvatron: ranges of the same kinds in the same order are one", "[galvatron]") {
  const std::vector<std::int32_t> kinds{0, 0, 1, 0, 0, 1};
  const LayerRanges ranges(kinds);
  CHECK(ranges.number(0, 3) == ranges.number(3, 6));
  CHECK(ranges.number(0, 1) == ranges.number(4, 5));
  CHECK(ranges.number(1, 3) != ranges.number(2, 4));  // another order
  for (std::int32_t begin = 0; begin < 6; ++begin) {
    for (std::int32_t end = begin + 1; end <= 6; ++end) {
      const std::int32_t number = ranges.number(begin, end);
      const auto alike = ranges.kinds_of(number);
      CHECK(std::equal(alike.begin(), alike.end(), kinds.begin() + begin, kinds.begin() + end));
      CHECK(ranges.layers_of(number, 0) + ranges.layers_of(number, 1) == end - begin);
    }
  }
}

TEST_CASE("galvatron: the best cuts are the best of all, and few stages are looked at", "[galvatron]") {
  const std::uint64_t seed = 61;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::size_t looked_at = 0;
  std::size_t all = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::int32_t> kinds(static_cast<std::size_t>(1 + i % 8));
    for (std::int32_t& kind : kinds) kind = std::uniform_int_distribution(0, 1)(random);
    const LayerRanges ranges(kinds);
    for (const CutGoal goal : {CutGoal::kSum, CutGoal::kMost}) {
      Case one = random_case(random, ranges, kinds);
      const CutAnswer answer = best_cuts(one.shape, goal, one.bounds, kInfinite, [&](std::size_t where) {
        ++looked_at;
        one.bounds.least[where] = one.truth[where];
      });
      all += one.truth.size();
      INFO("case " << i);
      const double expected = least_of_all(one, goal);
      REQUIRE(answer.least == expected);
      if (expected < kInfinite) CHECK(cost_of(one, goal, answer.partition) == expected);
    }
  }
  CHECK(looked_at < all / 2);
}

TEST_CASE("galvatron: a search for cuts that is stopped leaves a bound", "[galvatron]") {
  const std::vector<std::int32_t> kinds{0, 0, 0};
  const LayerRanges ranges(kinds);
  const CutShape shape{&ranges, {0, 0}, {true, true, true, true}};
  CutValues values{{5, 9, 14}, {0, 0, 0}};
  int left = 1;
  const auto refine = [&](std::size_t where) { values.least[where] = 20; };
  const CutAnswer answer = best_cuts(shape, CutGoal::kSum, values, kInfinite, refine, [&] { return left-- == 0; });
  CHECK(answer.least == 14);
  CHECK(answer.partition.empty());
}

TEST_CASE("galvatron: cuts that cannot be below a bound are not looked for", "[galvatron]") {
  const std::vector<std::int32_t> kinds{0, 0, 0};
  const LayerRanges ranges(kinds);
  CutShape shape{&ranges, {0, 0}, {true, true, true, true}};
  CutValues values{{5, 9, 14}, {0, 0, 0}};
  const CutAnswer answer = best_cuts(shape, CutGoal::kSum, values, 14, nullptr);
  CHECK(answer.least == 14);
  CHECK(answer.partition.empty());
}
