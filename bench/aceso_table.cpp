// Every published setting of Aceso's profile: the peer's best plan, the optimum, what `unified` finds and proves, and
// how many seconds of its thread it takes. Usage: aceso_table [SECONDS [NAME [STRATEGY [SPACE]]]]. Needs
// ../shared/peers (or $TRIMTAB_PEERS).

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../tests/tuner/aceso_peer.hpp"
#include "skipping.hpp"
#include "thread_seconds.hpp"
#include "tuner/aceso_cost_model.hpp"
#include "tuner/search.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

void row(const peer::World& world, double peer_ms, double optimum_ms, double budget, const char* strategy,
         const char* space) {
  const double built = bench::thread_seconds();
  const auto cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs);
  if (!cost_model.ok()) {
    std::printf("%s: %s\n", world.setting.name().c_str(), cost_model.error().message.c_str());
    return;
  }
  SearchOptions options;
  options.strategy = strategy;
  options.space = space;
  const double begin = bench::thread_seconds();
  options.spent = [&] { return (bench::thread_seconds() - begin) / budget; };
  options.stop = [&] { return options.spent() >= 1; };
  const auto outcome = search(cost_model.value(), Knobs{}, options);
  const double seconds = bench::thread_seconds() - begin;
  if (!outcome.ok() || outcome.value().result.plans.empty()) {
    std::printf("%-24s %2d devices: %s\n", world.setting.name().c_str(), world.setting.devices(),
                outcome.ok() ? outcome.value().infeasible.c_str() : outcome.error().message.c_str());
    return;
  }
  const SearchResult& result = outcome.value().result;
  const Plan& plan = result.plans[0].plan;
  const double ours = result.plans[0].prediction.iteration_ms;
  std::printf(
      "%-24s %2d  peer %11.3f  optimum %11.3f  ours %11.3f (%+.4f%%)  bound %11.3f%s  %7.3f s (+%.3f s tables)  %9llu "
      "ev  mb %d stages %zu plans %zu\n",
      world.setting.name().c_str(), world.setting.devices(), peer_ms, optimum_ms, ours,
      optimum_ms > 0 ? 100 * (ours / optimum_ms - 1) : 0, result.lower_bound_ms, result.proven ? " proven" : "       ",
      seconds, begin - built, static_cast<unsigned long long>(result.evaluations), plan.microbatch, plan.stages.size(),
      result.plans.size());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto folder = peer::folder();
  if (!folder) return trimtab::test::say_skipped();
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.5;
  const char* const only = argc > 2 ? argv[2] : "";
  const char* const strategy = argc > 3 ? argv[3] : "unified";
  const char* const space = argc > 4 ? argv[4] : "aceso";
  const auto optima = peer::optima(*folder);
  const auto results = peer::results(*folder);
  for (const peer::Setting& setting : peer::settings(*folder)) {
    if (setting.name().find(only) == std::string::npos) continue;
    double peer_ms = 0;
    double optimum_ms = 0;
    for (const auto& result : results) {
      if (result.setting.name() == setting.name()) peer_ms = result.iteration_ms;
    }
    for (const auto& optimum : optima) {
      if (optimum.model == setting.model && optimum.size == setting.size) optimum_ms = optimum.optimum_ms;
    }
    row(peer::world(*folder, setting), peer_ms, optimum_ms, budget, strategy, space);
  }
  return 0;
}
