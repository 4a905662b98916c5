// Settings of Aceso's families that nobody has published: other numbers of devices, other memory. What `unified` finds
// in a short time against what it finds, and mostly proves, in a long one. Usage: aceso_variants [SHORT [LONG [NAME
// [FIRST [LAST]]]]]: seconds of the thread, settings whose name contains NAME, of them rows FIRST to LAST as numbered
// (all). Needs ../shared/peers (or $TRIMTAB_PEERS).

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "../../tests/tuner/aceso_peer.hpp"
#include "../thread_seconds.hpp"
#include "papers/aceso_cost_model.hpp"
#include "skipping.hpp"
#include "tuner/search.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

struct Shape {
  const char* setting;
  std::int32_t nodes, devices_per_node;
};

constexpr Shape kShapes[] = {
    {"gpt-1_3B", 1, 2},
    {"gpt-1_3B", 1, 8},
    {"gpt-1_3B", 2, 8},
    {"gpt-2_6B", 1, 4},
    {"gpt-2_6B", 2, 8},
    {"gpt-13B", 2, 8},
    {"t5-3B", 1, 2},
    {"t5-3B", 1, 8},
    {"t5-11B", 1, 8},
    {"t5-11B", 4, 8},
    {"t5-22B", 2, 8},
    {"scale-layer-64layers", 1, 4},
    {"scale-layer-64layers", 2, 8},
    {"scale-layer-128layers", 1, 4},
    {"scale-layer-128layers", 2, 8},
    {"resnet-2B", 1, 2},
    {"resnet-2B", 1, 8},
    {"resnet-6_8B", 1, 8},
    {"resnet-13B", 2, 8},
};
constexpr double kMemories[] = {0.7, 1.0, 1.3};

SearchResult run(const AcesoCostModel& cost_model, double budget, double& seconds) {
  SearchOptions options;
  options.strategy = "unified";
  options.space = "aceso";
  const double begin = bench::thread_seconds();
  options.stop = [&] { return bench::thread_seconds() - begin > budget; };
  auto outcome = search(cost_model, Knobs{}, options);
  seconds = bench::thread_seconds() - begin;
  return outcome.ok() ? std::move(outcome).value().result : SearchResult{};
}

double best_ms(const SearchResult& result) {
  return result.plans.empty() ? 0 : result.plans[0].prediction.iteration_ms;
}

void row(int number, const peer::World& world, double short_budget, double long_budget) {
  const auto cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs);
  if (!cost_model.ok()) {
    std::printf("%s: %s\n", world.setting.name().c_str(), cost_model.error().message.c_str());
    return;
  }
  double seconds = 0;
  double long_seconds = 0;
  const SearchResult soon = run(cost_model.value(), short_budget, seconds);
  const SearchResult late = soon.proven ? soon : run(cost_model.value(), long_budget, long_seconds);
  const double best = best_ms(late);
  std::printf("%3d  %-24s %2d devices %6.0f MiB  %11.3f in %6.3f s  %11.3f in %6.2f s  %+.4f %%  bound %11.3f%s\n",
              number, world.setting.name().c_str(), world.setting.devices(), world.setting.memory_limit_mib,
              best_ms(soon), seconds, best, soon.proven ? seconds : long_seconds,
              best > 0 ? 100 * (best_ms(soon) / best - 1) : 0, late.lower_bound_ms,
              late.proven ? " proven"
              : best > 0  ? ""
                          : " nothing found");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto folder = peer::folder();
  if (!folder) return trimtab::test::say_skipped();
  const double short_budget = argc > 1 ? std::atof(argv[1]) : 0.5;
  const double long_budget = argc > 2 ? std::atof(argv[2]) : 60;
  const std::string only = argc > 3 ? argv[3] : "";
  const int first = argc > 4 ? std::atoi(argv[4]) : 1;
  const int last = argc > 5 ? std::atoi(argv[5]) : std::numeric_limits<int>::max();
  int number = 0;
  for (const Shape& shape : kShapes) {
    for (peer::Setting setting : peer::settings(*folder)) {
      if (setting.name() != shape.setting || setting.name().find(only) == std::string::npos) continue;
      const double memory = setting.memory_limit_mib;
      setting.nodes = shape.nodes;
      setting.devices_per_node = shape.devices_per_node;
      for (const double factor : kMemories) {
        setting.memory_limit_mib = memory * factor;
        if (++number < first || number > last) continue;
        row(number, peer::world(*folder, setting), short_budget, long_budget);
      }
    }
  }
  return 0;
}
