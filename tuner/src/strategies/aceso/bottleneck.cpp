#include "strategies/aceso/bottleneck.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace trimtab::tuner {
namespace {

StageLoad stage_load(Evaluator& evaluator, const Candidate& candidate, std::size_t s) {
  const StagePrice& price = evaluator.stage(candidate, s);
  const double microbatches = evaluator.model().global_batch / candidate.microbatch;
  StageLoad load;
  load.excess_bytes = price.excess_bytes;
  load.spare_bytes =
      price.limit_bytes > 0 ? price.limit_bytes - price.memory_bytes : std::numeric_limits<double>::infinity();
  load.step_ms = price.step_ms;
  load.recompute_ms = microbatches * price.recompute;
  load.used[0] = microbatches * (price.forward + price.backward + price.recompute) + price.optimizer;
  load.used[1] = microbatches * price.communication + price.sync;
  load.used[2] = price.memory_bytes;
  return load;
}

}  // namespace

const char* to_string(Resource resource) {
  constexpr const char* kNames[kResources] = {"computation", "communication", "memory"};
  return kNames[static_cast<std::size_t>(resource)];
}

Load load_of(Evaluator& evaluator, const Candidate& candidate) {
  Load load;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    load.stages.push_back(stage_load(evaluator, candidate, s));
    load.fits = load.fits && load.stages.back().excess_bytes <= 0;
  }
  load.ranking.resize(load.stages.size());
  std::iota(load.ranking.begin(), load.ranking.end(), 0);
  std::stable_sort(load.ranking.begin(), load.ranking.end(), [&load](std::int32_t a, std::int32_t b) {
    const StageLoad& left = load.stages[a];
    const StageLoad& right = load.stages[b];
    if (!load.fits && left.excess_bytes != right.excess_bytes) return left.excess_bytes > right.excess_bytes;
    return left.step_ms > right.step_ms;
  });
  return load;
}

double Load::share(std::int32_t stage, Resource resource) const {
  const bool costs_time = fits && resource == Resource::kMemory;
  const auto amount = [&](const StageLoad& of) {
    return costs_time ? of.recompute_ms : of.used[static_cast<std::size_t>(resource)];
  };
  double all = 0;
  for (const StageLoad& of : stages) all += amount(of);
  return all > 0 ? amount(stages[stage]) / all : 0;
}

std::vector<Resource> Load::resources(std::int32_t stage) const {
  if (!fits && stages[stage].excess_bytes > 0) return {Resource::kMemory};
  std::vector<Resource> order{Resource::kComputation};
  if (stages[stage].used[1] > 0) order.push_back(Resource::kCommunication);
  if (stages[stage].recompute_ms > 0) order.push_back(Resource::kMemory);
  std::stable_sort(order.begin(), order.end(),
                   [&](Resource a, Resource b) { return share(stage, a) > share(stage, b); });
  return order;
}

std::vector<std::int32_t> Load::partners(std::int32_t stage, Resource resource) const {
  std::vector<std::int32_t> order(ranking.rbegin(), ranking.rend());
  order.erase(std::find(order.begin(), order.end(), stage));
  if (!fits && resource == Resource::kMemory) {
    std::stable_sort(order.begin(), order.end(),
                     [this](std::int32_t a, std::int32_t b) { return stages[a].spare_bytes > stages[b].spare_bytes; });
  }
  return order;
}

std::string bottleneck_text(std::int32_t stage, Resource resource) {
  return "stage " + std::to_string(stage) + " " + to_string(resource);
}

std::string bottleneck_text(const Load& load, std::int32_t stage) {
  return bottleneck_text(stage, load.resources(stage).front());
}

}  // namespace trimtab::tuner
