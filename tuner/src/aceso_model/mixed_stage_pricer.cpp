#include "mixed_stage_pricer.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace trimtab::tuner::aceso {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::size_t index_of(std::int32_t devices) {
  return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(devices)) - 1);
}

void append(std::vector<Range>& ranges, std::int32_t op) {
  if (ranges.empty() || ranges.back().end != op) ranges.push_back({op, op});
  ranges.back().end = op + 1;
}

}  // namespace

MixedStagePricer::MixedStagePricer(const Tables& tables, UniformStages& uniform, const Model& model,
                                   const PlanSpace& space, std::int32_t microbatch, Mode mode)
    : tables_(tables),
      uniform_stages_(uniform),
      uniform_(tables, uniform, model, space, microbatch),
      microbatch_(microbatch),
      derived_recompute_(space.derived_recompute),
      mode_(mode),
      repetition_(find_repetition(tables)) {
  const auto operators = static_cast<std::size_t>(tables.operators());
  std::vector<double> least(operators, kInfinite);
  std::vector<double> least_of_devices(operators, kInfinite);
  const bool recompute = mode == Mode::kFloors || !space.derived_recompute;
  for (std::int32_t devices = 1; devices <= space.devices; devices *= 2) {
    stages_.push_back(std::make_unique<MixedStages>(tables, model, space, microbatch, devices, recompute));
    const MixedStages& stages = *stages_.back();
    if (stages.empty()) continue;
    for (std::size_t op = 0; op < operators; ++op) {
      const double ms = (stages.least()[op + 1] - stages.least()[op]) / 1000;
      least[op] = std::min(least[op], ms);
      least_of_devices[op] = std::min(least_of_devices[op], ms * devices);
    }
  }
  for (std::size_t op = 0; op < operators; ++op) {
    least_time_ += least[op];
    least_device_time_ += least_of_devices[op];
  }
}

MixedStages& MixedStagePricer::stages_of(std::int32_t devices) const {
  return *stages_[index_of(devices)];
}

bool MixedStagePricer::allows(std::int32_t devices) const {
  return std::has_single_bit(static_cast<unsigned>(devices)) && index_of(devices) < stages_.size() &&
         !stages_of(devices).empty();
}

double MixedStagePricer::floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const {
  const std::vector<double>& least = stages_of(devices).least();
  return (least[end] - least[begin]) / 1000;
}

Place MixedStagePricer::place_of(const unified::StagePlace& place) const {
  return {place.left, tables_.inter_node_input(place.first_device),
          tables_.inter_node_output(place.first_device + place.devices)};
}

std::int32_t MixedStagePricer::canonical(std::int32_t begin, std::int32_t end) const {
  return end <= repetition_.region_end[begin] ? repetition_.canonical[begin] : begin;
}

const MixedStagePricer::Derived& MixedStagePricer::derived(std::int32_t begin, std::int32_t end, std::int32_t devices,
                                                           const Place& place) {
  const std::uint64_t key = static_cast<std::uint64_t>(begin) << 44 | static_cast<std::uint64_t>(end) << 24 |
                            static_cast<std::uint64_t>(place.copies) << 12 | index_of(devices) << 2 |
                            (place.inter_node_input ? 2U : 0U) | (place.inter_node_output ? 1U : 0U);
  const auto [slot, is_new] = derived_.try_emplace(key);
  Derived& best = slot->second;
  if (!is_new) return best;
  best.time = kInfinite;
  MixedStages& stages = stages_of(devices);
  std::vector<MixedChoice> last;
  std::vector<std::uint8_t> flags;
  std::vector<OperatorSplit> splits;
  for (int p = 0; p < MixedStages::prices(); p += 2) {
    const std::vector<MixedChoice> choices = stages.path(begin, end, place, p, -1);
    splits.clear();
    for (const MixedChoice& choice : choices) splits.push_back(stages.options()[choice.option]);
    derive_recompute(tables_, begin, splits, place, flags);
    const StageParts parts = stage_parts(tables_, begin, splits, flags, place);
    if (parts.memory <= tables_.memory_limit() && parts.time() < best.time) {
      best = {parts.time(), static_cast<std::int8_t>(p)};
    }
  }
  return best;
}

double MixedStagePricer::price(std::int32_t begin, std::int32_t end, std::int32_t devices, const Place& place) {
  const MixedResult result = stages_of(devices).result(begin, end, place);
  if (mode_ == Mode::kFloors) return result.floor / 1000;
  if (!derived_recompute_) return result.time / 1000;
  // Headroom makes the rule recompute where a stage would fit without.
  const bool plain = result.price >= 0 && tables_.headroom() == 0;
  if (plain && result.price == 0) return result.time / 1000;
  const double time = derived(begin, end, devices, place).time;
  return std::min(time, plain ? result.time : kInfinite) / 1000;
}

std::span<const double> MixedStagePricer::times(std::int32_t begin, std::span<const std::int32_t> ends,
                                                const unified::StagePlace& place) {
  if (uniform_alone_ && uniform_.allows(place.devices)) return uniform_.times(begin, ends, place);
  answer_.clear();
  for (const std::int32_t end : ends) {
    const std::int32_t from = canonical(begin, end);
    answer_.push_back(price(from, from + end - begin, place.devices, place_of(place)));
  }
  // Prices of memory leave gaps between their paths: the published rule may lie in one.
  if (mode_ == Mode::kTimes && uniform_stages_.tabulated() && uniform_.allows(place.devices)) {
    const std::span<const double> uniform = uniform_.times(begin, ends, place);
    for (std::size_t i = 0; i < answer_.size(); ++i) answer_[i] = std::min(answer_[i], uniform[i]);
  }
  return answer_;
}

CandidateStage MixedStagePricer::uniform_stage(std::int32_t begin, std::int32_t end, const unified::StagePlace& place) {
  CandidateStage stage = uniform_.stage(begin, end, place);
  if (derived_recompute_) return stage;
  const Split& split = stage.split;
  const UniformStage of{begin,    end,      tables_.setting(microbatch_ / split.dp, split.tp, false),
                        split.dp, split.tp, place_of(place)};
  std::vector<std::uint8_t> flags;
  if (of.setting >= 0) (void)uniform_stages_.parts(of, flags);
  std::vector<Range> recompute;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) append(recompute, begin + static_cast<std::int32_t>(i));
  }
  stage.recompute = std::move(recompute);
  return stage;
}

CandidateStage MixedStagePricer::stage(std::int32_t begin, std::int32_t end, const unified::StagePlace& place) {
  if (uniform_alone_ && uniform_.allows(place.devices)) return uniform_stage(begin, end, place);
  if (uniform_stages_.tabulated() && uniform_.allows(place.devices)) {
    const std::int32_t ends[] = {end};
    const std::int32_t same = canonical(begin, end);
    const double mixed = price(same, same + end - begin, place.devices, place_of(place));
    if (uniform_.times(begin, ends, place)[0] <= mixed) return uniform_stage(begin, end, place);
  }
  CandidateStage stage;
  stage.end = end;
  stage.devices = place.devices;
  const Place at = place_of(place);
  MixedStages& stages = stages_of(place.devices);
  const std::int32_t from = canonical(begin, end);
  const MixedResult result = stages.result(from, from + end - begin, at);
  int price = result.price;
  int state = result.state;
  if (derived_recompute_) {
    const Derived& by_rule = derived(from, from + end - begin, place.devices, at);
    if (price < 0 || tables_.headroom() > 0 || by_rule.time < result.time) {
      price = by_rule.price;
      state = -1;
    }
  }
  if (price < 0) return stage;
  std::vector<Range> recompute;
  std::int32_t op = begin;
  for (const MixedChoice& choice : stages.path(from, from + end - begin, at, price, state)) {
    const OperatorSplit& option = stages.options()[choice.option];
    const Split split{option.dp, option.tp, ShardedLevel::kNone, 0};
    if (stage.segments.empty() || !(stage.segments.back().split == split)) stage.segments.push_back({op, split});
    stage.segments.back().end = op + 1;
    if (option.alternate) append(stage.alternate, op);
    if (choice.recompute) append(recompute, op);
    ++op;
  }
  stage.split = stage.segments.front().split;
  if (stage.segments.size() == 1) stage.segments.clear();
  if (!derived_recompute_) stage.recompute = recompute;
  return stage;
}

}  // namespace trimtab::tuner::aceso
