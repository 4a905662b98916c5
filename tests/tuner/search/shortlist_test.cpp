#include "search/strategy.hpp"

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

}  // namespace
}  // namespace trimtab::tuner
