// How far the native model's bound lies below the best plan that `unified` finds: in random worlds and on GPTs of one
// node, beside the bound that counts computing alone. Usage: native_bound [WORLDS]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../tests/tuner/gpt_world.hpp"
#include "../tests/tuner/split_world.hpp"
#include "native/bounds/lower_bound.hpp"
#include "tuner/search.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Row {
  std::vector<double> computing, bound;  // shares of the best
  std::size_t proven = 0;
  double seconds = 0;

  void add(const NativeCostModel& model, const char* space_name) {
    SearchOptions options;
    options.strategy = "unified";
    options.space = space_name;
    const SearchResult result = search(model, Knobs{}, options).value().result;
    if (result.plans.empty()) return;
    const double best = result.plans.front().prediction.iteration_ms;
    const PlanSpace space = named_space(space_name, model.model(), model.cluster(), Knobs{}, 0).value();
    const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
    const double begin = now();
    const double of = evaluator->bounds()->lower_bound_ms({best, false, 1});
    seconds += now() - begin;
    computing.push_back(1 - computing_bound_ms(model, space) / best);
    bound.push_back(1 - of / best);
    if (bound.back() <= 1e-9) ++proven;
  }

  static double at(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return 100 * values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  }

  void print(const char* name, const char* space) const {
    if (bound.empty()) return;
    std::printf("%-34s %-16s %6zu  %6.2f %6.2f %6.2f  %6.2f %6.2f %6.2f  %5.1f %%  %8.2f ms\n", name, space,
                bound.size(), at(computing, 0.5), at(computing, 0.95), at(computing, 1), at(bound, 0.5),
                at(bound, 0.95), at(bound, 1), 100 * static_cast<double>(proven) / static_cast<double>(bound.size()),
                1e3 * seconds / static_cast<double>(bound.size()));
  }
};

void random_worlds(const char* name, const char* space, int worlds, const test::RandomWorldOptions& sizes) {
  Random random(31);
  Row row;
  for (int i = 0; i < worlds; ++i) {
    const test::World world = test::random_split_world(random, sizes);
    row.add(NativeCostModel(world.table()), space);
  }
  row.print(name, space);
}

void gpt(std::int32_t layers, std::int32_t batch, const char* space) {
  const test::Workload work = test::gpt_operators(layers, 1, batch, true);
  Row row;
  row.add(NativeCostModel(CostTable::build(work.model, work.cluster, work.costs, {true}).value()), space);
  char name[64];
  std::snprintf(name, sizeof name, "GPT, %d layers, batch %d, 8 devices", layers, batch);
  row.print(name, space);
}

}  // namespace

int main(int argc, char** argv) {
  const int worlds = argc > 1 ? std::atoi(argv[1]) : 100;
  std::printf(
      "below the best plan found, %%: computing alone (50 %%, 95 %%, largest), the bound (the same); proven; time\n");
  for (const char* const space : {"job", "aceso", "aceso-free", "all"}) {
    random_worlds("2 to 8 operators, 1 to 4 devices", space, worlds, {8, 4, 2});
  }
  for (const char* const space : {"job", "aceso", "all"}) {
    random_worlds("12 to 24 operators, 1 to 8 devices", space, worlds / 4, {24, 8, 12});
  }
  for (const char* const space : {"job", "all"}) {
    gpt(24, 32, space);
    gpt(24, 1024, space);
  }
  return 0;
}
