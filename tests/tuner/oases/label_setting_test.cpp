#include "solvers/label_setting.hpp"

#include <catch2/catch.hpp>

#include "chains.hpp"

namespace trimtab::tuner::oases {
namespace {

using test::deployed;
using test::enumerated;
using test::random_chain;
using test::solve;

// Costs, memory and what the option allows are those of the choice; the bound is one.
void check_answer(const Chain& chain, Objective objective, std::int32_t most, const ChainAnswer& answer) {
  REQUIRE(static_cast<std::int32_t>(answer.choice.size()) == chain.nodes);
  REQUIRE(test::allowed(answer.choice, most));
  REQUIRE(answer.memory == memory_bytes(chain, answer.choice));
  REQUIRE(answer.cost == Approx(step_ms(chain, answer.choice, objective)).epsilon(1e-12));
  if (!answer.found) return;
  REQUIRE(answer.memory <= chain.limit);
  REQUIRE(answer.bound <= answer.cost * (1 + 1e-12));
}

}  // namespace

TEST_CASE("the published vectors: both objectives, optimum and memory", "[oases]") {
  const std::vector<test::Vector> vectors = test::vectors();
  REQUIRE(vectors.size() == 20);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    const Chain& chain = vectors[v].chain;
    for (const Objective objective : {Objective::kPaper, Objective::kPublished}) {
      const auto o = static_cast<std::size_t>(objective);
      CAPTURE(v, o);
      CHECK(step_ms(chain, vectors[v].argmin[o], objective) == vectors[v].optimum[o]);
      CHECK(memory_bytes(chain, vectors[v].argmin[o]) == vectors[v].memory[o]);
      const ChainAnswer answer = solve(chain, objective);
      REQUIRE(answer.found);
      CHECK(answer.cost == vectors[v].optimum[o]);
      check_answer(chain, objective, 0, answer);
    }
  }
}

TEST_CASE("label setting finds what enumeration finds, with and without a limit of degrees", "[oases]") {
  constexpr std::uint64_t kSeed = 9331;
  int infeasible = 0;
  int limited_costs_more = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 600; ++seed) {
    Random random(seed);
    const test::RandomShape shape{static_cast<std::int32_t>(random.between(1, 7)),
                                  static_cast<std::int32_t>(random.between(1, 4)), seed % 2 == 0, seed % 3 == 0};
    Chain chain = random_chain(random, shape);
    if (random.below(6) == 0) chain.limit /= 2;
    if (random.below(4) == 0) chain.slowdown = {1 + random.uniform(), 1 + random.uniform(), true};
    const Objective objective = random.below(2) == 0 ? Objective::kPaper : Objective::kPublished;
    double unlimited = 0;
    for (const std::int32_t most : {0, 1, 2, 3}) {
      CAPTURE(seed, shape.nodes, shape.degrees, most);
      const std::optional<double> expected = enumerated(chain, objective, most);
      const ChainAnswer answer = solve(chain, objective, most);
      check_answer(chain, objective, most, answer);
      REQUIRE(answer.found == expected.has_value());
      if (!expected) {
        ++infeasible;
        continue;
      }
      REQUIRE(answer.cost == Approx(*expected).epsilon(1e-12));
      if (most == 0) unlimited = *expected;
      if (*expected > unlimited * (1 + 1e-9)) ++limited_costs_more;
    }
  }
  CHECK(infeasible > 20);
  CHECK(limited_costs_more > 50);
}

TEST_CASE("sums over nodes and neighbours are the objective", "[oases]") {
  constexpr std::uint64_t kSeed = 41;
  for (std::uint64_t seed = kSeed; seed < kSeed + 200; ++seed) {
    Random random(seed);
    Chain chain = random_chain(random, {static_cast<std::int32_t>(random.between(1, 30)), 4, false, true});
    if (seed % 2 == 0) chain.slowdown = {1.3, 1.2, true};
    Choice choice;
    for (std::int32_t n = 0; n < chain.nodes; ++n) choice.push_back(static_cast<std::int32_t>(random.below(4)));
    for (const Objective objective : {Objective::kPaper, Objective::kPublished}) {
      const Terms terms = terms_of(chain, objective);
      double sum = 0;
      for (std::int32_t n = 0; n < chain.nodes; ++n) {
        sum += terms.node[chain.at(n, choice[n])];
        if (n + 1 < chain.nodes) sum += terms.edge[chain.at(n, choice[n]) * 4 + choice[n + 1]];
      }
      CAPTURE(seed);
      REQUIRE(sum == Approx(step_ms(chain, choice, objective)).epsilon(1e-12));
    }
  }
}

TEST_CASE("a step's price is what its two streams take, all-gathers included", "[oases]") {
  constexpr std::uint64_t kSeed = 1009;
  for (std::uint64_t seed = kSeed; seed < kSeed + 2000; ++seed) {
    Random random(seed);
    Chain chain = random_chain(random, {static_cast<std::int32_t>(random.between(1, 12)), 4, true, true});
    if (seed % 2 == 0) chain.slowdown = {1 + random.uniform(), 1 + random.uniform(), true};
    Choice choice;
    for (std::int32_t n = 0; n < chain.nodes; ++n) choice.push_back(static_cast<std::int32_t>(random.below(4)));
    double played = 0;
    std::vector<Round> rounds;
    for (const bool backward : {false, true}) {
      if (backward) {
        backward_rounds(blocks_of(chain, choice), SubBatchSchedule{}, rounds);
      } else {
        forward_rounds(blocks_of(chain, choice), rounds);
      }
      const StreamActions built = stream_actions(rounds);
      std::vector<StreamSpan> spans(built.actions.size());
      played += run_two_streams(built.actions, chain.slowdown, spans);
    }
    CAPTURE(seed);
    REQUIRE(step_ms(chain, choice, Objective::kPaper) == Approx(played).epsilon(1e-12));
  }
}

TEST_CASE("long chains of many degrees stay exact and small", "[oases]") {
  constexpr std::uint64_t kSeed = 7;
  for (std::uint64_t seed = kSeed; seed < kSeed + 30; ++seed) {
    Random random(seed);
    const Chain chain = random_chain(random, {192, 6, false, true});
    const ChainAnswer answer = solve(chain, Objective::kPaper);
    CAPTURE(seed, answer.labels);
    REQUIRE(answer.found);
    check_answer(chain, Objective::kPaper, 0, answer);
    CHECK(answer.labels < 1'000'000);
    // The dual alone is as near as one node's memory.
    CHECK(answer.bound > 0.99 * answer.cost);
  }
}

TEST_CASE("a program that ends early has a choice that fits and a bound", "[oases]") {
  constexpr std::uint64_t kSeed = 97;
  int unproven = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 20; ++seed) {
    Random random(seed);
    const Chain chain = random_chain(random, {48, 5, false, true});
    const Terms terms = terms_of(chain, Objective::kPaper);
    ChainProblem problem{chain.nodes, 5, terms.node, terms.edge, chain.memory, chain.buffer, chain.limit};
    if (seed % 2 == 0) {
      problem.most_labels = 20;
    } else {
      problem.stop = [] { return true; };
    }
    const ChainAnswer answer = LabelSetting().solve(problem);
    const ChainAnswer whole = solve(chain, Objective::kPaper);
    CAPTURE(seed);
    check_answer(chain, Objective::kPaper, 0, answer);
    REQUIRE(whole.proven);
    REQUIRE(answer.found);
    REQUIRE(answer.cost >= whole.cost * (1 - 1e-12));
    REQUIRE(answer.bound <= whole.cost * (1 + 1e-12));
    unproven += answer.proven ? 0 : 1;
  }
  CHECK(unproven > 5);
}

TEST_CASE("what the peer deploys of an answer: two degrees, whole layers, the smaller in front", "[oases]") {
  Chain chain;
  chain.degrees = {1, 2, 4, 8};
  CHECK(deployed(chain, {2, 2, 2, 2, 1, 1}) == Choice{1, 1, 2, 2, 2, 2});
  CHECK(deployed(chain, {2, 2, 2, 1, 1, 1}) == Choice{1, 1, 2, 2, 2, 2});
  CHECK(deployed(chain, {0, 1, 1, 2, 2, 2}) == Choice{1, 1, 2, 2, 2, 2});
  CHECK(deployed(chain, {3, 3, 3, 3}) == Choice{3, 3, 3, 3});
  CHECK(deployed(chain, {3, 3, 3, 1}) == Choice{3, 3, 3, 3});
}

}  // namespace trimtab::tuner::oases
