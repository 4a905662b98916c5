#include "plan/plan_space.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/check.hpp"
#include "schema/target.hpp"

namespace trimtab::tuner {
namespace {

bool listed(const std::vector<std::int32_t>& values, std::int32_t value) {
  return values.empty() || std::ranges::find(values, value) != values.end();
}

// First operator of each run of operators of one layer.
std::vector<std::int32_t> layer_begins(const Model& model) {
  std::vector<std::int32_t> begins;
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    if (i == 0 || model.operators[i].layer != model.operators[i - 1].layer) {
      begins.push_back(static_cast<std::int32_t>(i));
    }
  }
  return begins;
}

// Sets of numbers from 0 to `most`, one for each of `rows`, as bits.
class BitRows {
 public:
  BitRows(std::int32_t rows, std::int32_t most)
      : words_(static_cast<std::size_t>(most) / 64 + 1), bits_(static_cast<std::size_t>(rows) * words_, 0) {}

  void set(std::int32_t row, std::int32_t value) { word(row, value) |= std::uint64_t{1} << (value % 64); }
  [[nodiscard]] bool has(std::int32_t row, std::int32_t value) const {
    return (bits_[static_cast<std::size_t>(row) * words_ + static_cast<std::size_t>(value) / 64] >> (value % 64)) & 1U;
  }
  // Adds to row `to` each number of row `from` plus `by` that `mask`'s row has; nullptr = any.
  void add_shifted(std::int32_t from, std::int32_t to, std::int32_t by, const BitRows* mask, std::int32_t mask_row) {
    const std::size_t skip = static_cast<std::size_t>(by) / 64;
    const int shift = by % 64;
    const std::uint64_t* const source = bits_.data() + static_cast<std::size_t>(from) * words_;
    std::uint64_t* const target = bits_.data() + static_cast<std::size_t>(to) * words_;
    for (std::size_t w = words_; w-- > skip;) {
      std::uint64_t moved = source[w - skip] << shift;
      if (shift > 0 && w > skip) moved |= source[w - skip - 1] >> (64 - shift);
      if (mask != nullptr) moved &= mask->bits_[static_cast<std::size_t>(mask_row) * words_ + w];
      target[w] |= moved;
    }
  }

 private:
  std::uint64_t& word(std::int32_t row, std::int32_t value) {
    return bits_[static_cast<std::size_t>(row) * words_ + static_cast<std::size_t>(value) / 64];
  }
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// Ways to write a number of devices as a sum of degrees, one for each stage, whose devices the space allows together.
class Splits {
 public:
  Splits(const PlanSpace& space, const std::vector<std::int32_t>& degrees, std::int32_t stages)
      : space_(space), degrees_(degrees), devices_(space.devices), reachable_(stages + 1, space.devices) {
    reachable_.set(0, 0);
    const auto count = static_cast<std::int32_t>(degrees.size());
    BitRows places(space.node_boundaries ? count : 0, devices_);
    for (std::int32_t d = 0; d < count && space.node_boundaries; ++d) {
      for (std::int32_t left = degrees[d]; left <= devices_; ++left) {
        if (space.allows_devices(devices_ - left, degrees[d])) places.set(d, left);
      }
    }
    const BitRows* const mask = space.node_boundaries ? &places : nullptr;
    for (std::int32_t s = 1; s <= stages; ++s) {
      for (std::int32_t d = 0; d < count; ++d) reachable_.add_shifted(s - 1, s, degrees[d], mask, d);
    }
  }

  void list(std::int32_t stages, std::int32_t left, std::size_t limit, std::vector<std::vector<std::int32_t>>& out) {
    if (out.size() >= limit || !reachable_.has(stages, left)) return;
    if (stages == 0) {
      out.push_back(prefix_);
      return;
    }
    for (const std::int32_t degree : degrees_) {
      if (degree > left) break;
      if (!possible(stages, left, degree)) continue;
      prefix_.push_back(degree);
      list(stages - 1, left - degree, limit, out);
      prefix_.pop_back();
    }
  }

  // Stage by stage the degree nearest to an equal share of what is left.
  [[nodiscard]] std::vector<std::int32_t> even(std::int32_t stages, std::int32_t left) const {
    std::vector<std::int32_t> split;
    if (!reachable_.has(stages, left)) return split;
    for (; stages > 0; --stages) {
      const auto distance = [&](std::int32_t degree) { return std::abs(degree * stages - left); };
      std::int32_t best = 0;
      for (const std::int32_t degree : degrees_) {
        if (!possible(stages, left, degree)) continue;
        if (best == 0 || distance(degree) < distance(best)) best = degree;
      }
      split.push_back(best);
      left -= best;
    }
    return split;
  }

 private:
  // Whether the next of `stages` stages may take `degree` of the `left` devices.
  [[nodiscard]] bool possible(std::int32_t stages, std::int32_t left, std::int32_t degree) const {
    return degree <= left && reachable_.has(stages - 1, left - degree) &&
           space_.allows_devices(devices_ - left, degree);
  }

  const PlanSpace& space_;
  const std::vector<std::int32_t>& degrees_;
  std::int32_t devices_;
  BitRows reachable_;  // by stages: the numbers of devices that they can share
  std::vector<std::int32_t> prefix_;
};

// Stages begin with a layer, or with what stands behind the last.
bool between_layers(const ModelLayers& layers, std::int32_t cut) {
  const auto begins = [cut](const Range& layer) { return layer.begin == cut; };
  return cut == layers.after.begin || std::ranges::any_of(layers.layers, begins);
}

// Knobs that the job does not honour are fixed, whatever a wider space has switched on.
void hold_knobs(PlanSpace& space) {
  if (!space.knobs.tensor_parallel) space.tensor_parallel = {1};
  if (!space.knobs.sharded) space.sharded = {ShardedLevel::kNone};
}

}  // namespace

std::vector<std::int32_t> allowed_microbatches(const Model& model) {
  const std::int32_t batch = model.global_batch;
  std::set<std::int32_t> values;
  for (std::int32_t divisor = 1; divisor <= batch / divisor; ++divisor) {  // never beyond the root: no int32 overflows
    if (batch % divisor != 0) continue;
    for (const std::int32_t value : {divisor, batch / divisor}) {
      if (listed(model.microbatch_total, value)) values.insert(value);
    }
  }
  return {values.begin(), values.end()};
}

bool divides_well(const Model& model, std::int32_t microbatch, std::int32_t dp) {
  return microbatch % dp == 0 && listed(model.microbatch_per_replica, microbatch / dp);
}

std::vector<std::int32_t> allowed_cuts(const Model& model) {
  std::vector<std::int32_t> cuts;
  for (std::size_t i = 1; i < model.operators.size(); ++i) {
    if (model.operators[i].cut_before) cuts.push_back(static_cast<std::int32_t>(i));
  }
  return cuts;
}

std::vector<std::int32_t> even_cuts(const Model& model, std::int32_t stages) {
  const std::vector<std::int32_t> allowed = allowed_cuts(model);
  const std::vector<std::int32_t> layers = layer_begins(model);
  const auto operators = static_cast<std::int64_t>(model.operators.size());
  const auto units = static_cast<std::int64_t>(layers.size());
  std::vector<std::int32_t> cuts;
  std::ptrdiff_t next = 0;  // first allowed cut that is not used yet
  for (std::int32_t stage = 1; stage < stages; ++stage) {
    const std::int64_t target =
        units >= stages ? layers[static_cast<std::size_t>(units * stage / stages)] : operators * stage / stages;
    const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(allowed.size()) - (stages - 1 - stage) - 1;
    std::ptrdiff_t best = next;
    for (std::ptrdiff_t i = next; i <= last; ++i) {
      if (std::llabs(allowed[i] - target) < std::llabs(allowed[best] - target)) best = i;
    }
    cuts.push_back(allowed[best]);
    next = best + 1;
  }
  return cuts;
}

std::vector<std::int32_t> possible_samples(const Model& model, const std::vector<std::int32_t>& degrees) {
  std::set<std::int32_t> samples;
  for (const std::int32_t microbatch : allowed_microbatches(model)) {
    for (const std::int32_t degree : degrees) {
      if (divides_well(model, microbatch, degree)) samples.insert(microbatch / degree);
    }
  }
  return {samples.begin(), samples.end()};
}

std::vector<std::int32_t> possible_degrees(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                           std::int32_t tp) {
  const std::int32_t devices = cluster.devices();
  std::vector<std::int32_t> degrees;
  const std::vector<std::int32_t> microbatches = allowed_microbatches(model);
  for (std::int32_t degree = 1; degree * tp <= devices; ++degree) {
    const std::int32_t stage = degree * tp;
    if (degree > 1 && !knobs.data_parallel) break;
    if (!knobs.pipeline && stage != devices) continue;
    if (!knobs.uneven_stages && devices % stage != 0) continue;
    const bool possible =
        std::ranges::any_of(microbatches, [&](std::int32_t m) { return divides_well(model, m, degree); });
    if (possible) degrees.push_back(degree);
  }
  return degrees;
}

std::vector<std::int32_t> powers_of_two(std::int32_t most) {
  std::vector<std::int32_t> powers;
  for (std::int32_t power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

std::int32_t largest_node(const Cluster& cluster) {
  std::int32_t most = 1;
  for (const Node& node : cluster.nodes) most = std::max(most, node.devices);
  return most;
}

std::vector<std::int32_t> tensor_degrees(const Cluster& cluster, const Knobs& knobs) {
  return powers_of_two(knobs.tensor_parallel ? largest_node(cluster) : 1);
}

std::vector<ShardedLevel> sharding_levels() {
  return {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients, ShardedLevel::kParameters};
}

std::vector<SubBatches> every_sub_batches() {
  return {{}, {2, true, false}, {2, true, true}};
}

PlanSpace plan_space(const Model& model, const Cluster& cluster, const Knobs& knobs, std::int32_t fixed_microbatch) {
  PlanSpace space;
  space.knobs = knobs;
  space.devices = cluster.devices();
  space.operators = static_cast<std::int32_t>(model.operators.size());
  space.microbatches = allowed_microbatches(model);
  if (!knobs.microbatch) space.microbatches = {fixed_microbatch};
  space.cuts = allowed_cuts(model);
  space.stages_max = std::min<std::int32_t>(space.devices, static_cast<std::int32_t>(space.cuts.size()) + 1);
  if (!knobs.pipeline) space.stages_max = 1;
  space.tensor_parallel = tensor_degrees(cluster, knobs);
  const std::int32_t widest = space.tensor_parallel.back();
  if (!knobs.data_parallel) space.stages_min = (space.devices + widest - 1) / widest;
  space.sliced_microbatches = knobs.sliced_microbatches;
  if (knobs.sharded) space.sharded = sharding_levels();
  space.mixed_splits = knobs.mixed_splits;
  space.replicated_shards = knobs.partial_shards;
  if (knobs.sub_batches && widest > 1) space.sub_batches = every_sub_batches();
  space.memory_switches = knobs.memory_switches;
  std::int32_t end = 0;
  for (const Node& node : cluster.nodes) space.node_ends.push_back(end += node.devices);
  return space;
}

std::vector<std::int32_t> PlanSpace::degrees(const Model& model, std::int32_t microbatch, std::int32_t stages) const {
  std::vector<std::int32_t> possible;
  for (std::int32_t degree = 1; degree <= devices; ++degree) {
    if (!device_counts.empty() && !listed(device_counts, degree)) continue;
    if ((!knobs.uneven_stages || equal_stages) && degree * stages != devices) continue;
    const bool any = std::ranges::any_of(tensor_parallel, [&](std::int32_t tp) {
      return degree % tp == 0 && allows(model, microbatch, degree, {degree / tp, tp});
    });
    if (any) possible.push_back(degree);
  }
  return possible;
}

bool PlanSpace::allows(const Model& model, std::int32_t microbatch, std::int32_t count, const Split& split) const {
  if (split.dp < 1 || split.tp < 1 || split.dp * split.tp != count) return false;
  if (split.dp > 1 && !knobs.data_parallel) return false;
  const bool level = std::ranges::find(sharded, split.sharded) != sharded.end();
  if (split.sharded != ShardedLevel::kNone && (!level || split.dp < 2)) return false;
  if (split.sharded_degree < 0 || (split.sharded_degree > 0 && split.dp % split.sharded_degree != 0)) return false;
  return std::ranges::find(tensor_parallel, split.tp) != tensor_parallel.end() &&
         divides_well(model, microbatch, split.dp);
}

std::vector<Split> PlanSpace::splits(const Model& model, std::int32_t microbatch, std::int32_t count) const {
  std::vector<Split> all;
  for (const std::int32_t tp : tensor_parallel) {
    if (count % tp != 0) continue;
    for (const ShardedLevel level : sharded) {
      const Split split{count / tp, tp, level, 0};
      if (!allows(model, microbatch, count, split)) continue;
      all.push_back(split);
      if (!replicated_shards || level == ShardedLevel::kNone) continue;
      for (std::int32_t degree = 2; degree < split.dp; degree *= 2) {
        if (split.dp % degree == 0) all.push_back({split.dp, tp, level, degree});
      }
    }
  }
  return all;
}

bool PlanSpace::allows_devices(std::int32_t first_device, std::int32_t count) const {
  if (!device_counts.empty() && !listed(device_counts, count)) return false;
  if (!node_boundaries) return true;
  const auto end = std::upper_bound(node_ends.begin(), node_ends.end(), first_device);
  return end != node_ends.end() && first_device + count <= *end;
}

std::vector<std::vector<std::int32_t>> PlanSpace::device_splits(const Model& model, std::int32_t microbatch,
                                                                std::int32_t stages, std::size_t limit) const {
  const std::vector<std::int32_t> possible = degrees(model, microbatch, stages);
  std::vector<std::vector<std::int32_t>> splits;
  Splits(*this, possible, stages).list(stages, devices, limit, splits);
  return splits;
}

std::vector<std::int32_t> PlanSpace::even_split(const Model& model, std::int32_t microbatch,
                                                std::int32_t stages) const {
  const std::vector<std::int32_t> possible = degrees(model, microbatch, stages);
  return Splits(*this, possible, stages).even(stages, devices);
}

Status restrict_to_target(const std::string& target, const Model& model, PlanSpace& space) {
  TRIMTAB_TRY(const TargetLimits limits, target_limits(target));
  space.alternate_dimensions = false;
  if (target == "trainer") {
    space.switches.lazy_needs_partition = true;
    return {};
  }
  space.memory_switches = false;
  TRIMTAB_TRY(const ModelLayers layers, layers_of(model));
  space.sliced_microbatches = false;
  space.sub_batches = {{}};
  space.equal_stages = true;
  if (!limits.pipeline) space.stages_max = std::min(space.stages_max, 1);
  if (limits.tensor_parallel == Reach::kNone) space.tensor_parallel = {1};
  if (limits.tensor_parallel != Reach::kLayer) space.mixed_splits = false;
  if (limits.recompute == Reach::kNone) space.knobs.recompute = false;
  space.knobs.sequence_parallel = space.knobs.sequence_parallel && limits.sequence_parallel;
  space.knobs.context_parallel = space.knobs.context_parallel && limits.context_parallel;
  space.knobs.interleaved = space.knobs.interleaved && limits.interleaved;
  space.replicated_shards = space.replicated_shards && limits.partial_shards;
  hold_knobs(space);
  std::erase_if(space.sharded,
                [&](ShardedLevel level) { return std::ranges::find(limits.levels, level) == limits.levels.end(); });
  std::erase_if(space.cuts, [&](std::int32_t cut) { return !between_layers(layers, cut); });
  return {};
}

Status restrict_to_live(const std::string& target, const Plan& running, PlanSpace& space) {
  TRIMTAB_TRY(const TargetLimits limits, target_limits(target));
  TRIMTAB_ASSERT(limits.live, "a target whose ranks change their plan as they train");
  const Segment& now = running.stages.front().segments.front();
  const auto changes = [&](ShardedLevel level) {
    return std::ranges::find(limits.live_levels, level) != limits.live_levels.end();
  };
  std::erase_if(space.sharded,
                [&](ShardedLevel level) { return level == now.sharded || !changes(level) || !changes(now.sharded); });
  space.sharded.push_back(now.sharded);
  space.replicated_shards = now.sharded_degree != 0;
  return {};
}

}  // namespace trimtab::tuner
