#include "planners.hpp"

#include <algorithm>
#include <array>

namespace trimtab::tuner::unified {
namespace {

constexpr std::array<Strategy, 4> kPlanners{
    {{"autopipe", run_autopipe}, {"oases", run_oases}, {"galvatron", run_galvatron}, {"h3t", run_h3t}}};

}  // namespace

const Strategy* planner_of(std::string_view cost_model) {
  const std::string_view paper = cost_model.substr(0, cost_model.find(':'));
  const auto* const found =
      std::find_if(kPlanners.begin(), kPlanners.end(), [&](const Strategy& planner) { return planner.name == paper; });
  return found == kPlanners.end() ? nullptr : found;
}

std::span<const Strategy> general_planners() {
  return kPlanners;
}

}  // namespace trimtab::tuner::unified
