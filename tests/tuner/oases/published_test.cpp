// The published profile: the peer's own answers reproduced, and beaten where its program departs from the paper.

#include "published.hpp"

#include <catch2/catch.hpp>
#include <ctime>

#include "chains.hpp"
#include "papers/oases/tables.hpp"

namespace trimtab::tuner::oases {
namespace {

// The file has six digits of each time.
constexpr double kDigits = 2e-6;

Choice indices(const Chain& chain, const std::vector<std::int32_t>& degrees) {
  Choice choice;
  for (const std::int32_t degree : degrees) {
    const auto found = std::find(chain.degrees.begin(), chain.degrees.end(), degree);
    REQUIRE(found != chain.degrees.end());
    choice.push_back(static_cast<std::int32_t>(found - chain.degrees.begin()));
  }
  return choice;
}

}  // namespace

TEST_CASE("the peer's answers on its profile: usable degrees, plans, times and memory", "[oases]") {
  int feasible = 0;
  for (const test::PeerAnswer& peer : test::peer_answers()) {
    CAPTURE(peer.setting.name, peer.setting.devices);
    const auto coded = test::cost_model(peer.setting, OasesVariant::kPublished);
    REQUIRE(coded.has_value() == !peer.degrees.empty());
    if (!coded) continue;
    const Chain& chain = coded->tables().chain;
    CHECK(chain.degrees == peer.degrees);
    const ChainAnswer answer = test::solve(chain, Objective::kPublished);
    REQUIRE(answer.found == peer.feasible);
    if (!peer.feasible) continue;
    ++feasible;
    CHECK(answer.cost == Approx(peer.published_ms).epsilon(kDigits));
    const Choice plan = indices(chain, peer.plan);
    CHECK(step_ms(chain, plan, Objective::kPublished) == Approx(answer.cost).epsilon(1e-12));
    CHECK(memory_bytes(chain, plan) == Approx(peer.memory).margin(8192));
    const Choice run = test::deployed(chain, plan);
    CHECK(run == indices(chain, peer.deployed));
    CHECK(step_ms(chain, run, Objective::kPublished) == Approx(peer.deployed_published_ms).epsilon(kDigits));
    CHECK(memory_bytes(chain, run) == Approx(peer.deployed_memory).margin(8192));
    CHECK(step_ms(chain, plan, Objective::kPaper) == Approx(peer.plan_paper_ms).epsilon(kDigits));
    CHECK(step_ms(chain, run, Objective::kPaper) == Approx(peer.deployed_paper_ms).epsilon(kDigits));
    const ChainAnswer best = test::solve(chain, Objective::kPaper);
    CHECK(best.cost == Approx(peer.paper_ms).epsilon(kDigits));
    CHECK(best.choice == indices(chain, peer.paper_plan));
    CHECK(best.cost <= step_ms(chain, run, Objective::kPaper) * (1 + 1e-12));
  }
  CHECK(feasible == 4);
}

TEST_CASE("every published setting keeps few labels and takes no time to speak of", "[oases]") {
  constexpr double kGenerous = 0.5;  // s; it is a millisecond
  int solved = 0;
  for (const test::Setting& setting : test::settings()) {
    const auto model = test::cost_model(setting, OasesVariant::kPaper);
    if (!model) continue;
    for (const Objective objective : {Objective::kPaper, Objective::kPublished}) {
      const std::clock_t begin = std::clock();
      const ChainAnswer answer = test::solve(model->tables().chain, objective);
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      CAPTURE(setting.name, setting.devices);
      CHECK(answer.labels < 5000);
      CHECK(seconds < kGenerous);
      ++solved;
    }
  }
  CHECK(solved >= 10);
}

}  // namespace trimtab::tuner::oases
