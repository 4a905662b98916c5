#include "strategies/unified/small_space.hpp"

#include <cmath>
#include <vector>

namespace trimtab::tuner::unified {
namespace {

constexpr std::int32_t kOperators = 10;
constexpr std::int32_t kDevices = 8;

class Count {
 public:
  Count(const Model& model, const PlanSpace& space) : model_(model), space_(space) {}

  // Ways for the operators from `op` on, on the devices from `device` on.
  double ways(std::int32_t microbatch) {
    const std::int32_t operators = space_.operators;
    const std::int32_t devices = space_.devices;
    std::vector<std::vector<double>> rest(operators + 1, std::vector<double>(devices + 1, 0.0));
    rest[operators][devices] = 1;
    for (std::int32_t op = operators - 1; op >= 0; --op) {
      for (std::int32_t device = devices - 1; device >= 0; --device) {
        for (std::int32_t count = 1; device + count <= devices; ++count) {
          if (!space_.allows_devices(device, count)) continue;
          for (std::int32_t end = op + 1; end <= operators; ++end) {
            if (rest[end][device + count] == 0) continue;
            rest[op][device] += layouts(microbatch, {op, end}, count) * rest[end][device + count];
          }
        }
      }
    }
    return rest[0][0];
  }

 private:
  [[nodiscard]] double layouts(std::int32_t microbatch, const Range& inside, std::int32_t count) const {
    const auto splits = static_cast<double>(space_.splits(model_, microbatch, count).size());
    double ways = space_.mixed_splits ? std::pow(splits, inside.size()) : splits;
    for (std::int32_t op = inside.begin; op < inside.end && space_.alternate_dimensions && count > 1; ++op) {
      if (model_.operators[op].shardings.size() > 1) ways *= 2;
    }
    return ways;
  }

  const Model& model_;
  const PlanSpace& space_;
};

}  // namespace

bool is_small(const Model& model, const PlanSpace& space, double most) {
  if (most <= 0 || space.operators > kOperators || space.devices > kDevices) return false;
  double ways = 0;
  for (const std::int32_t microbatch : space.microbatches) {
    const bool halves = microbatch % 2 == 0;
    ways += Count(model, space).ways(microbatch) * (halves ? static_cast<double>(space.sub_batches.size()) : 1.0);
  }
  return ways <= most;
}

}  // namespace trimtab::tuner::unified
