// One search over the native model at a size of choice: what it finds, how long it takes and how much memory it needs.
// Usage: scale_search LAYERS NODES BATCH [SECONDS [SPACE [STRATEGY]]]. Nodes have 8 devices; from two nodes on, links
// are known from the cluster alone and collectives are estimated. Exits with 1 where no valid plan is found.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../tests/tuner/gpt_world.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/cost_table.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void describe(const Plan& plan) {
  const Stage& stage = plan.stages.front();
  const Segment& segment = stage.segments.front();
  std::printf("microbatch %d, %zu stages, the first: %d operators, %zu devices, dp %d, tp %d, sharded %d of %d\n",
              plan.microbatch, plan.stages.size(), segment.operators.size(), stage.devices.size(), segment.dp,
              segment.tp, static_cast<int>(segment.sharded), segment.sharded_degree);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: scale_search LAYERS NODES BATCH [SECONDS [SPACE [STRATEGY]]]\n");
    return 2;
  }
  const std::int32_t nodes = std::atoi(argv[2]);
  const test::Workload work = test::gpt_operators(std::atoi(argv[1]), nodes, std::atoi(argv[3]), nodes == 1);
  const double budget = argc > 4 ? std::atof(argv[4]) : 60;
  SearchOptions options;
  options.space = argc > 5 ? argv[5] : "all";
  options.strategy = argc > 6 ? argv[6] : "unified";
  const double begin = now();
  options.stop = [&] { return now() - begin > budget; };
  const NativeCostModel model(CostTable::build(work.model, work.cluster, work.costs, {true}).value());
  const double built = now();
  const auto outcome = search(model, Knobs{}, options);
  const double end = now();
  if (!outcome.ok() || outcome.value().result.plans.empty()) {
    std::printf("no plan after %.2f s: %s\n", end - begin,
                outcome.ok() ? outcome.value().infeasible.c_str() : outcome.error().message.c_str());
    return 1;
  }
  const SearchResult& result = outcome.value().result;
  const RankedPlan& best = result.plans.front();
  const auto errors = validate(best.plan, work.model, work.cluster);
  std::printf(
      "%zu operators on %d devices, space %s, %s: %.3f ms, bound %.3f ms (gap %.2f %%)%s, %s; tables %.3f s, search "
      "%.3f s, %llu evaluations, peak %.0f MiB, plan %s\n",
      work.model.operators.size(), work.cluster.devices(), options.space.c_str(), options.strategy.c_str(),
      best.prediction.iteration_ms, result.lower_bound_ms,
      100 * (best.prediction.iteration_ms / result.lower_bound_ms - 1), result.proven ? " proven" : "",
      result.stopped.c_str(), built - begin, end - built, static_cast<unsigned long long>(result.evaluations),
      peak_mib(), errors.empty() ? "valid" : errors.front().c_str());
  describe(best.plan);
  for (const SearchStep& step : outcome.value().trace) {
    if (step.after_ms < step.before_ms && std::getenv("SCALE_TRACE") != nullptr) {
      std::printf("  %8llu evaluations, %d stages: %.3f  %s\n", static_cast<unsigned long long>(step.evaluations),
                  step.stages, step.after_ms, step.primitive.c_str());
    }
  }
  return errors.empty() ? 0 : 1;
}
