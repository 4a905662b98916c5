#include "search/strategy.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace trimtab::tuner {
namespace {

Score score(double ms) {
  Score result;
  result.priced = true;
  result.ms = ms;
  return result;
}

Plan plan(std::int32_t microbatch, std::vector<Range> recompute) {
  Plan result;
  result.model = "toy";
  result.global_batch = 8;
  result.microbatch = microbatch;
  Segment segment;
  segment.operators = {0, 6};
  segment.recompute = std::move(recompute);
  result.stages.push_back({{0}, {segment}});
  return result;
}

TEST_CASE("of near copies only the fastest stays, in any order of arrival") {
  for (const bool best_first : {true, false}) {
    Shortlist list(5, {}, 0.01);
    CHECK(list.add(score(best_first ? 100 : 100.9), plan(1, {{0, 2}})));
    CHECK(list.add(score(best_first ? 100.9 : 100), plan(1, {{0, 3}})));
    REQUIRE(list.plans().size() == 1);
    CHECK(list.best_ms() == 100);
  }
}

TEST_CASE("plans of another layout, or of a time that can be told, are no near copies") {
  Shortlist list(5, {}, 0.01);
  CHECK(list.add(score(100), plan(1, {{0, 2}})));
  CHECK(list.add(score(100), plan(2, {{0, 2}})));
  CHECK(list.add(score(102), plan(1, {{0, 3}})));
  CHECK(list.add(score(98), plan(1, {{0, 4}})));
  CHECK(list.plans().size() == 4);
}

TEST_CASE("without a least difference every plan is kept") {
  Shortlist list(5, {});
  CHECK(list.add(score(100), plan(1, {{0, 2}})));
  CHECK(list.add(score(100), plan(1, {{0, 3}})));
  CHECK(list.plans().size() == 2);
}

TEST_CASE("an excluded near copy is still refused") {
  Shortlist list(5, {semantic_hash(plan(1, {{0, 3}}))}, 0.01);
  CHECK(list.add(score(100), plan(1, {{0, 2}})));
  CHECK_FALSE(list.add(score(100.5), plan(1, {{0, 3}})));
}

// Two stages, cut after `cut` operators.
Plan cut_after(std::int32_t cut, std::int32_t microbatch = 1) {
  Plan result = plan(microbatch, {});
  result.stages.push_back(result.stages.front());
  result.stages.front().segments.front().operators = {0, cut};
  result.stages.back().segments.front().operators = {cut, 6};
  return result;
}

TEST_CASE("of plans that are cut elsewhere so many are kept, the fastest, in any order of arrival") {
  std::vector<std::int32_t> cuts{1, 2, 3, 4};
  do {
    Shortlist list(5, {}, 0, 2);
    CHECK(list.add(score(200), cut_after(1, 2)));
    for (const std::int32_t cut : cuts) CHECK(list.add(score(100 + cut), cut_after(cut)));
    REQUIRE(list.plans().size() == 3);
    CHECK(list.plans()[0] == cut_after(1));
    CHECK(list.plans()[1] == cut_after(2));
    CHECK(list.plans()[2] == cut_after(1, 2));
  } while (std::next_permutation(cuts.begin(), cuts.end()));
}

TEST_CASE("a shape forgets where a plan is cut and what it recomputes, and nothing else") {
  CHECK(shape_of(cut_after(1)) == shape_of(cut_after(4)));
  CHECK(shape_of(plan(1, {{0, 2}})) == shape_of(plan(1, {})));
  CHECK(shape_of(plan(1, {})) != shape_of(plan(2, {})));
  CHECK(shape_of(plan(1, {})) != shape_of(cut_after(1)));
  Plan split = plan(1, {});
  split.stages[0].segments.push_back(split.stages[0].segments[0]);
  CHECK(shape_of(split) == shape_of(plan(1, {})));
  split.stages[0].segments[1].sharded = ShardedLevel::kOptimizer;
  CHECK(shape_of(split) != shape_of(plan(1, {})));
}

}  // namespace
}  // namespace trimtab::tuner
