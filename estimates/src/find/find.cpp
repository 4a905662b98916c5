#include "estimates/find.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "estimates/constants.hpp"
#include "find/space.hpp"

namespace trimtab::estimates {

namespace {

constexpr std::size_t kNearest = 5;

Machine of_devices(Machine machine, std::int32_t devices) {
  machine.devices = devices;
  return machine;
}

// Of two plans as fast as each other people rather run the first by this order.
auto complexity(const UniformPlan& plan) {
  return std::tuple(plan.devices(), plan.offloaded_optimizer, plan.context, plan.chunks, plan.stages, plan.tensor,
                    plan.sharded_over > 0, plan.recomputed, plan.recomputed_share, plan.sharded, plan.reshard,
                    -plan.microbatch);
}

double six_digits(double value) {
  const double scale = std::pow(10, 5 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

// What can be recomputed of each layout, and which of it is worth a price.
class Choice {
 public:
  Choice(const Machine& machine, const ModelShape& shape, const FindOptions& options, const Pricing& pricing)
      : machine_(machine), shape_(shape), options_(options), pricing_(pricing) {}

  void consider(const UniformPlan& layout) {
    if (recompute(layout) && !options_.every) return;
    if (!options_.offload) return;
    UniformPlan offloaded = layout;
    offloaded.offloaded_optimizer = true;
    if (check_target(offloaded, shape_, options_.target).ok()) recompute(offloaded);
  }

  [[nodiscard]] Found take() {
    std::ranges::sort(found_.plans, goes_before);
    std::ranges::stable_sort(found_.too_large, {}, [](const PricedPlan& one) { return one.estimate.memory.process; });
    if (!options_.every && found_.too_large.size() > kNearest) found_.too_large.resize(kNearest);
    return std::move(found_);
  }

 private:
  // Whether the layout fits without recomputation: what is recomputed, or offloaded, costs time and saves memory alone.
  bool recompute(UniformPlan plan) {
    for (const Recomputed kind : space_of(options_.target).recomputed) {
      if (!options_.recomputed.empty() && std::ranges::count(options_.recomputed, kind) == 0) continue;
      plan.recomputed = kind;
      if (kind == Recomputed::kLayer && space_of(options_.target).recomputes_some_layers) {
        if (const std::int32_t layers = fewest_layers(plan); layers > 0) price(with_layers(plan, layers));
        if (!options_.every) continue;
      }
      plan.recomputed_share = 1;
      if (price(plan) && kind == Recomputed::kNothing && !options_.every) return true;
    }
    return false;
  }

  [[nodiscard]] UniformPlan with_layers(UniformPlan plan, std::int32_t layers) const {
    plan.recomputed_share = static_cast<double>(layers) / layers_of_chunk(plan, shape_);
    return plan;
  }

  // The fewest layers of a chunk with which the plan fits; all of them where it fits with none.
  [[nodiscard]] std::int32_t fewest_layers(const UniformPlan& plan) {
    std::int32_t least = 1;
    std::int32_t most = layers_of_chunk(plan, shape_);
    if (options_.every) --most;  // all of them are priced anyway
    if (most < least) return 0;
    if (!fits(with_layers(plan, most))) {
      if (!options_.every) too_large(with_layers(plan, most));
      return 0;
    }
    while (least < most) {
      const std::int32_t middle = (least + most) / 2;
      if (fits(with_layers(plan, middle))) {
        most = middle;
      } else {
        least = middle + 1;
      }
    }
    return least;
  }

  [[nodiscard]] MemoryEstimate memory_of(const UniformPlan& plan) {
    ++found_.enumerated;
    return pricing_.memory(of_devices(machine_, plan.devices()), shape_, plan);
  }
  [[nodiscard]] bool fits(const UniformPlan& plan) { return memory_of(plan).fits >= options_.least_chance; }

  [[nodiscard]] Estimate time_of(const UniformPlan& plan) const {
    Estimate plain = pricing_.time(of_devices(machine_, plan.devices()), shape_, plan);
    return options_.correction ? corrected(std::move(plain), *options_.correction) : plain;
  }

  bool price(const UniformPlan& plan) {
    if (!fits(plan)) {
      too_large(plan);
      return false;
    }
    found_.plans.push_back({plan, time_of(plan)});
    return true;
  }

  // With `every` its time is told, too: a person on the page sees what more memory would bring.
  void too_large(const UniformPlan& plan) {
    PricedPlan priced{plan, {}};
    if (options_.every) {
      priced.estimate = time_of(plan);
    } else {
      priced.estimate.memory = memory_of(plan);
      auto& nearest = found_.too_large;
      if (nearest.size() > 64 * kNearest) keep_nearest();
    }
    found_.too_large.push_back(std::move(priced));
  }

  void keep_nearest() {
    auto& nearest = found_.too_large;
    std::ranges::stable_sort(nearest, {}, [](const PricedPlan& one) { return one.estimate.memory.process; });
    nearest.resize(kNearest);
  }

  const Machine& machine_;
  const ModelShape& shape_;
  const FindOptions& options_;
  const Pricing& pricing_;
  Found found_;
};

}  // namespace

Pricing usual_pricing() {
  static const Constants kConstants;
  return {[](const Machine& machine, const ModelShape& shape, const UniformPlan& plan) {
            return estimate(machine, shape, plan, kConstants);
          },
          [](const Machine& machine, const ModelShape& shape, const UniformPlan& plan) {
            return estimate_memory(machine, shape, plan, kConstants);
          }};
}

bool goes_before(const PricedPlan& one, const PricedPlan& other) {
  const double first = six_digits(one.estimate.step_s);
  const double second = six_digits(other.estimate.step_s);
  if (first != second) return first < second;
  return complexity(one.plan) < complexity(other.plan);
}

Found find_plans(const Machine& machine, const ModelShape& shape, const FindOptions& options, const Pricing& pricing) {
  Choice choice(machine, shape, options, pricing);
  each_layout(machine, shape, options, [&](const UniformPlan& layout) { choice.consider(layout); });
  return choice.take();
}

std::size_t not_told_apart(const Found& found) {
  if (found.plans.empty()) return 0;
  const double most = found.plans.front().estimate.most_s;
  const auto behind =
      std::ranges::find_if(found.plans, [&](const PricedPlan& one) { return one.estimate.step_s > most; });
  return static_cast<std::size_t>(behind - found.plans.begin());
}

}  // namespace trimtab::estimates
