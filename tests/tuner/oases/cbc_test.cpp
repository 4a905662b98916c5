// The same optimum as the integer program, by CBC.

#include <catch2/catch.hpp>

#include "../usual_worlds.hpp"
#include "cbc.hpp"
#include "chains.hpp"
#include "papers/oases/tables.hpp"
#include "published.hpp"

namespace trimtab::tuner::oases {
namespace {

constexpr double kSame = 1e-9;

void check_same(const Chain& chain, Objective objective) {
  const std::optional<test::CbcAnswer> referee = test::solve_with_cbc(chain, objective);
  const ChainAnswer answer = test::solve(chain, objective);
  REQUIRE(referee.has_value());
  REQUIRE(answer.found == referee->found);
  if (!answer.found) return;
  REQUIRE(memory_bytes(chain, referee->choice) <= chain.limit + 1);
  REQUIRE(answer.cost == Approx(step_ms(chain, referee->choice, objective)).epsilon(kSame));
}

}  // namespace

TEST_CASE("CBC finds no better plan of any published setting", "[oases][cbc]") {
  if (!test::cbc_is_there()) return;
  for (const test::Setting& setting : test::settings()) {
    const auto model = test::cost_model(setting, OasesVariant::kPaper);
    if (!model) continue;
    CAPTURE(setting.name, setting.devices);
    check_same(model->tables().chain, Objective::kPaper);
    check_same(model->tables().chain, Objective::kPublished);
  }
}

TEST_CASE("CBC finds no better choice of random chains", "[oases][cbc]") {
  if (!test::cbc_is_there()) return;
  constexpr std::uint64_t kSeed = 2024;
  for (std::uint64_t seed = kSeed; seed < kSeed + tuner::test::usual_few(300); ++seed) {
    Random random(seed);
    const test::RandomShape shape{static_cast<std::int32_t>(random.between(4, 24)),
                                  static_cast<std::int32_t>(random.between(2, 5)), seed % 2 == 0, seed % 3 != 0};
    const Chain chain = test::random_chain(random, shape);
    CAPTURE(seed, shape.nodes, shape.degrees);
    check_same(chain, seed % 4 < 2 ? Objective::kPaper : Objective::kPublished);
  }
}

}  // namespace trimtab::tuner::oases
