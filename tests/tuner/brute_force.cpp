#include "brute_force.hpp"

#include <algorithm>

namespace trimtab::tuner::test {
namespace {

struct OperatorSplit {
  std::int32_t dp = 1, tp = 1;
  ShardedLevel level = ShardedLevel::kNone;
  bool alternate = false;
  std::int32_t shards = 0;
};

class Brute {
 public:
  Brute(const World& world, const BruteForceSpace& space)
      : world_(world),
        space_(space),
        model_(world.table()),
        operators_(static_cast<std::int32_t>(world.model.operators.size())),
        devices_(world.cluster.devices()) {}

  BruteForceResult run() {
    tensor_parallel_ = space_.tensor_parallel;
    every_microbatch();
    for (const std::int32_t cp : space_.context_parallel) {
      for (const std::int32_t tp : space_.tensor_parallel) {
        cp_ = cp;
        tensor_parallel_ = {tp};
        parallel_ = false;
        if (cp > 1) every_microbatch();
        parallel_ = true;
        if (tp > 1 && space_.sequence_parallel) every_microbatch();
      }
    }
    return result_;
  }

 private:
  void every_microbatch() {
    for (std::int32_t microbatch = 1; microbatch <= world_.model.global_batch; ++microbatch) {
      if (world_.model.global_batch % microbatch != 0) continue;
      plan_ = {};
      if (parallel_) plan_.target_knobs["sequence_parallel"] = "true";
      plan_.model = world_.model.name;
      plan_.global_batch = world_.model.global_batch;
      plan_.microbatch = microbatch;
      add_stage(0, 0);
      interleave();
    }
  }

  void interleave() {
    const std::int32_t microbatches = plan_.microbatches();
    plan_.schedule.kind = ScheduleKind::kInterleaved;
    for (std::int32_t seats = 2; space_.interleaved && seats <= devices_; ++seats) {
      if (devices_ % seats != 0 || microbatches % seats != 0 || !may_have(0, devices_ / seats)) continue;
      for (const OperatorSplit& way : ways(0, devices_ / seats)) add_in_turn(0, seats, way);
    }
    plan_.schedule.kind = ScheduleKind::k1F1B;
  }

  // Stages from `op` on, on one group of devices after the other.
  void add_in_turn(std::int32_t op, std::int32_t seats, const OperatorSplit& way) {
    const auto stage = static_cast<std::int32_t>(plan_.stages.size());
    if (op == operators_) {
      if (stage > seats && stage % seats == 0) recompute();
      return;
    }
    const std::int32_t count = devices_ / seats;
    for (std::int32_t end = op + 1; end <= operators_; ++end) {
      plan_.stages.emplace_back();
      for (std::int32_t i = 0; i < count; ++i) plan_.stages.back().devices.push_back(stage % seats * count + i);
      Segment segment;
      segment.operators = {op, end};
      segment.dp = way.dp;
      segment.tp = way.tp;
      segment.cp = cp_;
      segment.sharded = way.level;
      plan_.stages.back().segments = {segment};
      add_in_turn(end, seats, way);
      plan_.stages.pop_back();
    }
  }

  [[nodiscard]] bool may_have(std::int32_t first, std::int32_t count) const {
    const auto& counts = space_.stage_devices;
    if (!counts.empty() && std::find(counts.begin(), counts.end(), count) == counts.end()) return false;
    return !space_.inside_nodes || world_.cluster.node_of(first) == world_.cluster.node_of(first + count - 1);
  }

  void add_stage(std::int32_t op, std::int32_t device) {
    if (op == operators_ && device == devices_) return recompute();
    if (op == operators_ || device == devices_) return;
    for (std::int32_t count = 1; device + count <= devices_; ++count) {
      if (!may_have(device, count)) continue;
      plan_.stages.emplace_back();
      for (std::int32_t i = 0; i < count; ++i) plan_.stages.back().devices.push_back(device + i);
      for (std::int32_t end = op + 1; end <= operators_; ++end) split(op, op, end, device + count);
      plan_.stages.pop_back();
    }
  }

  [[nodiscard]] std::vector<OperatorSplit> ways(std::int32_t op, std::int32_t count) const {
    std::vector<OperatorSplit> all;
    for (const std::int32_t tp : tensor_parallel_) {
      const std::int32_t ranks = tp * cp_;
      if (count % ranks != 0 || plan_.microbatch % (count / ranks) != 0) continue;
      const std::int32_t dp = count / ranks;
      for (const ShardedLevel level : space_.levels) {
        if (level != ShardedLevel::kNone && dp == 1) continue;
        all.push_back({dp, tp, level, false});
        for (std::int32_t shards = 2; space_.partial_shards && level != ShardedLevel::kNone && shards < dp;
             shards *= 2) {
          if (dp % shards == 0) all.push_back({dp, tp, level, false, shards});
        }
        const bool second = space_.mixed && tp > 1 && world_.model.operators[op].shardings.size() > 1;
        if (second) all.push_back({dp, tp, level, true});
      }
    }
    return all;
  }

  // The ways of operators [op, end) of the last stage, which begins with operator `begin`.
  void split(std::int32_t begin, std::int32_t op, std::int32_t end, std::int32_t next_device) {
    if (op == end) return add_stage(end, next_device);
    const auto count = static_cast<std::int32_t>(plan_.stages.back().devices.size());
    for (const OperatorSplit& way : ways(op, count)) {
      const std::vector<Segment> before = plan_.stages.back().segments;
      std::vector<Segment>& segments = plan_.stages.back().segments;
      const bool fits = !segments.empty() && segments.back().dp == way.dp && segments.back().tp == way.tp &&
                        segments.back().sharded == way.level && segments.back().sharded_degree == way.shards;
      if (op > begin && !fits && !space_.mixed) continue;
      if (!fits) {
        segments.emplace_back();
        segments.back().operators = {op, op};
        segments.back().dp = way.dp;
        segments.back().tp = way.tp;
        segments.back().cp = cp_;
        segments.back().sharded = way.level;
        segments.back().sharded_degree = way.shards;
      }
      Segment& segment = segments.back();
      segment.operators.end = op + 1;
      if (way.alternate) add(op, segment.alternate_dimension);
      split(begin, op + 1, end, next_device);
      plan_.stages.back().segments = before;
    }
  }

  static void add(std::int32_t op, std::vector<Range>& ranges) {
    if (!ranges.empty() && ranges.back().end == op) {
      ++ranges.back().end;
    } else {
      ranges.push_back({op, op + 1});
    }
  }

  void recompute() {
    Plan plan = plan_;
    for (std::uint32_t subset = 0; subset < (1U << operators_); ++subset) {
      for (Stage& stage : plan.stages) {
        for (Segment& segment : stage.segments) {
          segment.recompute.clear();
          for (std::int32_t op = segment.operators.begin; op < segment.operators.end; ++op) {
            if ((subset >> op) & 1U) add(op, segment.recompute);
          }
        }
      }
      price(plan);
      price_sliced(plan);
      price_sub_batches(plan);
    }
  }

  void price_sub_batches(const Plan& whole) {
    if (!space_.sub_batches) return;
    bool communicates = false;
    for (const Stage& stage : whole.stages) {
      for (const Segment& segment : stage.segments) {
        if (whole.microbatch / segment.dp % 2 != 0) return;
        communicates = communicates || segment.tp > 1;
      }
    }
    if (!communicates) return;
    Plan plan = whole;
    plan.schedule.sub_batches = 2;
    plan.schedule.cross_pass = true;
    for (const bool after : {false, true}) {
      plan.schedule.recompute_after_communication = after;
      price(plan);
    }
  }

  void price_sliced(const Plan& whole) {
    if (!space_.sliced) return;
    for (const Stage& stage : whole.stages) {
      for (const Segment& segment : stage.segments) {
        if (whole.microbatch / segment.dp % 2 != 0) return;
      }
    }
    Plan plan = whole;
    const auto most = std::min(static_cast<std::int32_t>(plan.stages.size()) - 1, plan.microbatches());
    for (std::int32_t sliced = 1; sliced <= most; ++sliced) {
      plan.schedule.sliced_microbatches = sliced;
      price(plan);
    }
  }

  void price(const Plan& plan) {
    ++result_.plans;
    const Prediction prediction = model_.evaluate(plan);
    if (!prediction.feasible || !prediction.missing_costs.empty()) return;
    if (result_.plan && prediction.iteration_ms >= result_.ms) return;
    result_.ms = prediction.iteration_ms;
    result_.plan = plan;
  }

  const World& world_;
  const BruteForceSpace& space_;
  NativeCostModel model_;
  std::int32_t operators_;
  std::int32_t devices_;
  std::vector<std::int32_t> tensor_parallel_;
  std::int32_t cp_ = 1;
  bool parallel_ = false;
  Plan plan_;
  BruteForceResult result_;
};

std::vector<std::int32_t> powers_up_to(std::int32_t most) {
  std::vector<std::int32_t> powers;
  for (std::int32_t power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

}  // namespace

BruteForceSpace brute_force_space(const World& world, const std::string& name) {
  BruteForceSpace space;
  if (name == "job") return space;
  std::int32_t widest = 1;
  for (const Node& node : world.cluster.nodes) widest = std::max(widest, node.devices);
  space.tensor_parallel = powers_up_to(widest);
  space.mixed = name != "aceso-recompute";
  if (name == "all") {
    space.sliced = space.sub_batches = true;
    space.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients, ShardedLevel::kParameters};
    return space;
  }
  space.stage_devices = powers_up_to(8);
  space.inside_nodes = true;
  return space;
}

BruteForceResult brute_force(const World& world, const BruteForceSpace& space) {
  return Brute(world, space).run();
}

}  // namespace trimtab::tuner::test
