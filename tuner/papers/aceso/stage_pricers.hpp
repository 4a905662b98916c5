#pragma once

// The aceso model's stages for the partition solver, one microbatch size. All arguments must outlive what comes back.

#include <memory>

#include "papers/aceso/uniform_stage.hpp"
#include "plan/plan_space.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner::aceso {

// The fastest uniform split that fits, recompute derived.
[[nodiscard]] std::unique_ptr<StagePricer> uniform_stage_pricer(const Tables& tables, UniformStages& uniform,
                                                                const Model& model, const PlanSpace& space,
                                                                std::int32_t microbatch);

// Mixed splits: the fastest stage that is known to fit, or a floor under every way to run it, with any recompute.
enum class PricerMode : std::uint8_t { kTimes, kFloors };
[[nodiscard]] std::unique_ptr<StagePricer> mixed_stage_pricer(const Tables& tables, UniformStages& uniform,
                                                              const Model& model, const PlanSpace& space,
                                                              std::int32_t microbatch, PricerMode mode);

}  // namespace trimtab::tuner::aceso
