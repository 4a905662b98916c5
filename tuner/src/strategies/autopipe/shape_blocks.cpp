#include "strategies/autopipe/shape_blocks.hpp"

#include <utility>

namespace trimtab::tuner::autopipe {

namespace {

constexpr std::size_t kMostBlocks = 512;

// First operators of the blocks.
std::vector<std::int32_t> first_operators(const SearchRun& run, std::int32_t stages) {
  const std::vector<std::int32_t>& cuts = run.space().cuts;
  const std::vector<Operator>& operators = run.model().operators;
  std::vector<std::int32_t> first{0};
  for (const std::int32_t cut : cuts) {
    if (cuts.size() < kMostBlocks || operators[cut].layer != operators[cut - 1].layer) first.push_back(cut);
  }
  if (first.size() <= std::max(kMostBlocks, static_cast<std::size_t>(stages))) {
    if (static_cast<std::int32_t>(first.size()) >= stages) return first;
    first = {0};  // fewer layers than stages
    first.insert(first.end(), cuts.begin(), cuts.end());
  }
  const std::size_t most = std::max(kMostBlocks, static_cast<std::size_t>(stages));
  std::vector<std::int32_t> thinned;
  for (std::size_t i = 0; i < std::min(most, first.size()); ++i) {
    thinned.push_back(first[i * first.size() / std::min(most, first.size())]);
  }
  return thinned;
}

}  // namespace

Shapes shapes_of(const Model& model, const PlanSpace& space) {
  Shapes all;
  all.whole_space = !space.mixed_splits && !space.alternate_dimensions;
  for (const std::int32_t microbatch : space.microbatches) {
    for (std::int32_t stages = std::max(1, space.stages_min); stages <= space.stages_max; ++stages) {
      const auto splits = space.device_splits(model, microbatch, stages, 2);
      if (splits.empty()) continue;
      const std::int32_t devices = space.devices / stages;
      bool even = space.devices % stages == 0;
      for (std::int32_t x = 0; x < stages && even; ++x) even = space.allows_devices(x * devices, devices);
      const std::vector<Split> ways = even ? space.splits(model, microbatch, devices) : std::vector<Split>{};
      const bool only_even = splits.size() == 1 && even && ways.size() == 1;
      all.whole_space = all.whole_space && (only_even || (stages == 1 && even));
      for (const Split& split : ways) {
        const bool sharded = split.sharded != ShardedLevel::kNone;
        all.whole_space = all.whole_space && !sharded;
        if (!sharded) all.shapes.push_back({microbatch, stages, split});
      }
    }
  }
  return all;
}

ShapeBlocks::ShapeBlocks(SearchRun& run, const Shape& shape, Transfers transfers)
    : run_(run), shape_(shape), transfers_(transfers), first_(first_operators(run, shape.stages)) {
  count_ = static_cast<std::int32_t>(first_.size());
  Ends ends;
  for (std::int32_t x = 1; x < shape.stages; ++x) ends.push_back(x);
  ends.push_back(count_);
  probe_ = candidate(ends);
}

Candidate ShapeBlocks::candidate(Ends ends) const {
  for (std::int32_t& end : ends) end = operator_at(end);
  return with_operators(ends);
}

Candidate ShapeBlocks::even_candidate() const {
  std::vector<std::int32_t> ends = even_cuts(run_.model(), shape_.stages);
  ends.push_back(run_.space().operators);
  return with_operators(ends);
}

Candidate ShapeBlocks::with_operators(const std::vector<std::int32_t>& ends) const {
  Candidate candidate;
  candidate.microbatch = shape_.microbatch;
  for (const std::int32_t end : ends) {
    CandidateStage stage;
    stage.end = end;
    stage.devices = shape_.split.dp * shape_.split.tp;
    stage.split = shape_.split;
    candidate.stages.push_back(std::move(stage));
  }
  return candidate;
}

const StagePrice& ShapeBlocks::price(std::int32_t x, std::int32_t begin, std::int32_t end,
                                     std::optional<std::vector<Range>> recompute) {
  if (x > 0) probe_.stages[x - 1].end = operator_at(begin);
  probe_.stages[x].end = operator_at(end);
  probe_.stages[x].recompute = std::move(recompute);
  return run_.evaluator().stage(probe_, static_cast<std::size_t>(x));
}

std::optional<Blocks> ShapeBlocks::blocks() {
  Blocks blocks;
  blocks.stages = shape_.stages;
  blocks.microbatches = run_.model().global_batch / shape_.microbatch;
  blocks.transfers = transfers_;
  if (!add_times(blocks) || !add_transfers(blocks)) return std::nullopt;
  return blocks;
}

bool ShapeBlocks::add_times(Blocks& blocks) {
  for (std::int32_t block = 0; block < count_; ++block) {
    const StagePrice& of = price(block == 0 ? 0 : shape_.stages - 1, block, block + 1, std::vector<Range>{});
    if (!of.priced) return false;
    blocks.forward.push_back(of.forward + of.forward_wait);
    blocks.backward.push_back(of.backward + of.backward_wait);
  }
  return true;
}

bool ShapeBlocks::add_transfers(Blocks& blocks) {
  for (std::int32_t hop = 0; hop + 1 < shape_.stages; ++hop) {
    blocks.transfer.push_back(0);
    if (run_.stopped()) return false;
    for (std::int32_t cut = 1; cut < count_; ++cut) {
      const StagePrice& of = price(hop, hop == 0 ? 0 : cut - 1, cut, std::vector<Range>{});
      const double transfer = of.communication - of.forward_wait - of.backward_wait;
      if (!of.priced || !(transfer < kNever)) return false;
      blocks.transfer.push_back(std::max(0.0, transfer));
    }
  }
  return true;
}

// A stage's memory grows with its blocks and falls along the pipeline: its reach never falls with either.
bool ShapeBlocks::limit_memory(Blocks& blocks) {
  if (price(0, 0, 1, std::nullopt).limit_bytes <= 0) return true;
  blocks.reach.assign(static_cast<std::size_t>(shape_.stages) * count_, 0);
  for (std::int32_t x = 0; x < shape_.stages; ++x) {
    std::int32_t* const row = blocks.reach.data() + static_cast<std::size_t>(x) * count_;
    std::int32_t furthest = 0;
    for (std::int32_t begin = 0; begin < count_; ++begin) {
      row[begin] = begin;
      if (x > 0 ? begin < x : begin > 0) continue;  // no partition has such a stage
      if (run_.stopped()) return false;
      if (x > 1) furthest = std::max(furthest, row[begin - count_]);
      furthest = std::max(furthest, begin);
      while (furthest < count_ && price(x, begin, furthest + 1, std::nullopt).excess_bytes <= 0) ++furthest;
      row[begin] = furthest;
    }
  }
  if (!run_.space().knobs.recompute) return true;
  blocks.recompute = [this](std::int32_t x, std::int32_t begin, std::int32_t end) {
    return price(x, begin, end, std::nullopt).recompute;
  };
  return true;
}

Blocks ShapeBlocks::recomputed(const Blocks& blocks) {
  Blocks all = blocks;
  all.recompute = {};
  for (std::int32_t block = 0; block < count_; ++block) {
    const Range whole{operator_at(block), operator_at(block + 1)};
    all.backward[block] +=
        price(block == 0 ? 0 : shape_.stages - 1, block, block + 1, std::vector<Range>{whole}).recompute;
  }
  return all;
}

}  // namespace trimtab::tuner::autopipe
