// Evaluations of whole plans per second under the aceso cost model, one thread: GPT-3 1.3B, four stages, microbatch 1.
// Three ways: one stage changed to one seen before; the same plan with no memo of stages; and random plans with no memo
// of stages, so that what to recompute is derived for stages never seen. Seconds are the thread's. Needs
// ../shared/peers (or $TRIMTAB_PEERS).

#include <cstdio>

#include "../../tests/tuner/aceso_peer.hpp"
#include "../thread_seconds.hpp"
#include "base/random.hpp"
#include "papers/aceso/aceso_evaluator.hpp"
#include "papers/aceso_cost_model.hpp"
#include "plan/plan_space.hpp"
#include "skipping.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

Candidate four_stages(std::int32_t operators) {
  Candidate candidate;
  for (std::int32_t s = 1; s <= 4; ++s) candidate.stages.push_back(replicated_stage(operators * s / 4, 1));
  return candidate;
}

Candidate random_stages(std::int32_t operators, Random& random) {
  Candidate candidate = four_stages(operators);
  for (std::size_t s = 0; s < 3; ++s) candidate.stages[s].end += static_cast<std::int32_t>(random.between(-30, 30));
  return candidate;
}

template <typename Evaluate>
void measure(const char* what, Evaluate&& evaluate) {
  double sum = 0;
  const int warm = 20000;
  for (int i = 0; i < warm; ++i) sum += evaluate(i).ms;
  const double begin = bench::thread_seconds();
  const int count = 1000000;
  for (int i = 0; i < count; ++i) sum += evaluate(i).ms;
  std::printf("%-58s %12.0f evaluations/s (checksum %.6g)\n", what, count / (bench::thread_seconds() - begin), sum);
}

}  // namespace

int main() {
  const auto folder = peer::folder();
  if (!folder) return trimtab::test::say_skipped();
  const peer::World world = peer::world(*folder, {"gpt", "1_3B", 1, 4, 28000});
  const AcesoCostModel cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs).value();
  const PlanSpace space = named_space("aceso", world.model, world.cluster, Knobs{}, 1).value();
  aceso::AcesoEvaluator evaluator(cost_model, space);
  Random random(1);

  std::vector<Candidate> moves(16, four_stages(space.operators));
  for (std::size_t i = 0; i < moves.size(); ++i) moves[i].stages[1].end += static_cast<std::int32_t>(i) - 8;
  Candidate changing = moves[0];
  measure("incremental: a cut moves, stages seen before", [&](int i) {
    changing.stages[1].end = moves[static_cast<std::size_t>(i) % moves.size()].stages[1].end;
    return evaluator.price(changing);
  });
  measure("from scratch: the same plans, no memo of stages", [&](int i) {
    changing.stages[1].end = moves[static_cast<std::size_t>(i) % moves.size()].stages[1].end;
    return evaluator.price_from_scratch(changing);
  });
  std::vector<Candidate> many;
  for (int i = 0; i < 65536; ++i) many.push_back(random_stages(space.operators, random));
  measure("from scratch: random plans, no memo of stages",
          [&](int i) { return evaluator.price_from_scratch(many[static_cast<std::size_t>(i) % many.size()]); });
  return 0;
}
