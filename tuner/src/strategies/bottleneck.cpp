#include "bottleneck.hpp"

#include <algorithm>
#include <numeric>

namespace trimtab::tuner {
namespace {

StageLoad stage_load(Evaluator& evaluator, const Candidate& candidate, std::size_t s, std::int32_t first_device) {
  const StagePrice& price = evaluator.stage(candidate, s);
  const double microbatches = evaluator.tables().model.global_batch / candidate.microbatch;
  const StageTimes& times = price.times;
  StageLoad load;
  load.excess_bytes = price.excess_bytes;
  load.used[0] = microbatches * (times.forward + times.backward_pass()) + times.optimizer;
  load.used[1] = times.exposed_sync();
  load.used[2] = price.memory_bytes;
  if (s + 1 < candidate.stages.size()) {
    load.used[1] += microbatches * evaluator.transfer(candidate.stages[s].end, candidate.microbatch, first_device,
                                                      candidate.stages[s].devices, candidate.stages[s + 1].devices);
  }
  return load;
}

}  // namespace

const char* to_string(Resource resource) {
  switch (resource) {
    case Resource::kComputation:
      return "computation";
    case Resource::kCommunication:
      return "communication";
    case Resource::kMemory:
      return "memory";
  }
  return "";
}

Load load_of(Evaluator& evaluator, const Candidate& candidate) {
  Load load;
  std::int32_t first_device = 0;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    load.stages.push_back(stage_load(evaluator, candidate, s, first_device));
    load.fits = load.fits && load.stages.back().excess_bytes <= 0;
    first_device += candidate.stages[s].devices;
  }
  load.ranking.resize(load.stages.size());
  std::iota(load.ranking.begin(), load.ranking.end(), 0);
  std::stable_sort(load.ranking.begin(), load.ranking.end(), [&load](std::int32_t a, std::int32_t b) {
    const StageLoad& left = load.stages[a];
    const StageLoad& right = load.stages[b];
    if (!load.fits && left.excess_bytes != right.excess_bytes) return left.excess_bytes > right.excess_bytes;
    return left.busy_ms() > right.busy_ms();
  });
  return load;
}

std::vector<Resource> Load::resources(std::int32_t stage) const {
  if (!fits && stages[stage].excess_bytes > 0) return {Resource::kMemory};
  std::array<double, kResources> share{};
  for (std::size_t r = 0; r < kResources; ++r) {
    double all = 0;
    for (const StageLoad& of : stages) all += of.used[r];
    share[r] = all > 0 ? stages[stage].used[r] / all : 0;
  }
  std::vector<Resource> order{Resource::kComputation};
  if (stages[stage].used[1] > 0) order.push_back(Resource::kCommunication);
  std::stable_sort(order.begin(), order.end(), [&share](Resource a, Resource b) {
    return share[static_cast<std::size_t>(a)] > share[static_cast<std::size_t>(b)];
  });
  return order;
}

std::string bottleneck_text(const Load& load, std::int32_t stage) {
  return "stage " + std::to_string(stage) + " " + to_string(load.resources(stage).front());
}

}  // namespace trimtab::tuner
