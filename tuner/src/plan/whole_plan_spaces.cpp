#include <algorithm>

#include "plan/plan_space.hpp"

namespace trimtab::tuner {
namespace {

// As validate() asks: ranks have equal parts of each sequence.
bool parts_are_equal(const Model& model, std::int32_t parts) {
  return std::ranges::all_of(model.operators, [parts](const Operator& op) {
    const auto length = op.shape.find("sequence");
    return length == op.shape.end() || length->second % parts == 0;
  });
}

// Nothing where no plan shares sequences so. What the native model does not price beside that is left out.
std::optional<PlanSpace> sharing_space(const Model& model, const PlanSpace& from, const SequenceShare& share,
                                       std::int32_t tp) {
  if (from.devices % share.cp != 0 || from.devices / share.cp < tp) return std::nullopt;
  if (!parts_are_equal(model, share.cp * (share.parallel ? tp : 1))) return std::nullopt;
  PlanSpace space = from;
  space.sequence = share;
  space.devices = from.devices / share.cp;
  space.tensor_parallel = {tp};
  space.stages_max = std::min(from.stages_max, space.devices / tp);
  if (!from.knobs.data_parallel) space.stages_min = std::max(from.stages_min, space.devices / tp);
  space.alternate_dimensions = space.memory_switches = space.sliced_microbatches = false;
  space.sub_batches = {{}};
  return space;
}

PlanSpace interleaved_space(PlanSpace space) {
  space.interleaved = true;
  space.memory_switches = space.sliced_microbatches = space.mixed_splits = space.alternate_dimensions = false;
  space.sub_batches = {{}};
  space.stages_max = static_cast<std::int32_t>(space.cuts.size()) + 1;
  return space;
}

}  // namespace

std::vector<PlanSpace> whole_plan_spaces(const Model& model, const PlanSpace& space) {
  std::vector<PlanSpace> spaces;
  // A paper's space has a paper's plans.
  if (space.node_boundaries || !space.device_counts.empty() || space.derived_recompute) return spaces;
  const std::vector<std::int32_t> groups = powers_of_two(space.knobs.context_parallel ? space.devices : 1);
  for (const std::int32_t cp : groups) {
    for (const std::int32_t tp : space.tensor_parallel) {
      for (const bool parallel : {false, true}) {
        if ((cp == 1 && !parallel) || (parallel && (tp == 1 || !space.knobs.sequence_parallel))) continue;
        std::optional<PlanSpace> one = sharing_space(model, space, {cp, parallel}, tp);
        if (one) spaces.push_back(*std::move(one));
      }
    }
  }
  if (!space.knobs.interleaved || !space.knobs.pipeline) return spaces;
  std::vector<PlanSpace> interleaved{interleaved_space(space)};
  for (const PlanSpace& one : spaces) interleaved.push_back(interleaved_space(one));
  std::erase_if(interleaved, [](const PlanSpace& one) { return one.devices < 2; });
  std::move(interleaved.begin(), interleaved.end(), std::back_inserter(spaces));
  return spaces;
}

}  // namespace trimtab::tuner
