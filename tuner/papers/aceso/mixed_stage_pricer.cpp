#include "papers/aceso/mixed_stage_pricer.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "plan/stage_splits.hpp"

namespace trimtab::tuner::aceso {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// That a layout of a stage keeps (split_paths.hpp).
constexpr std::size_t kWays = 128;
constexpr std::size_t kFewWays = 8;

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
      derived_recompute_(space.derived_recompute),
      mode_(mode),
      repetition_(uniform.repetition()) {
  const auto operators = static_cast<std::size_t>(tables.operators());
  std::vector<double> least(operators, kInfinite);
  std::vector<double> least_of_devices(operators, kInfinite);
  const bool recompute = mode == Mode::kFloors || !space.derived_recompute;
  for (std::int32_t devices = 1; devices <= space.devices; devices *= 2) {
    stages_.push_back(std::make_unique<MixedStages>(tables, model, space, microbatch, devices, recompute));
    const MixedStages& stages = *stages_.back();
    paths_.push_back(std::make_unique<SplitPaths>(tables, repetition_, stages.options()));
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

void MixedStagePricer::use(Effort effort) {
  uniform_alone_ = effort == Effort::kLeast && mode_ == Mode::kTimes;
  for (const auto& paths : paths_) paths->keep(effort == Effort::kFull ? kWays : kFewWays);
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

Place MixedStagePricer::place_of(const StagePlace& place) const {
  return {place.left, tables_.inter_node_input(place.first_device),
          tables_.inter_node_output(place.first_device + place.devices)};
}

std::int32_t MixedStagePricer::canonical(std::int32_t begin, std::int32_t end) const {
  return end <= repetition_.region_end[begin] ? repetition_.canonical[begin] : begin;
}

double MixedStagePricer::price(std::int32_t begin, std::int32_t end, std::int32_t devices, const Place& place) {
  if (mode_ == Mode::kTimes && derived_recompute_) return paths_[index_of(devices)]->time(begin, end, place) / 1000;
  const std::int32_t from = canonical(begin, end);
  const MixedResult& result = stages_of(devices).result(from, from + end - begin, place);
  return (mode_ == Mode::kFloors ? result.floor : result.time) / 1000;
}

std::span<const double> MixedStagePricer::times(std::int32_t begin, std::span<const std::int32_t> ends,
                                                const StagePlace& place) {
  if (uniform_alone_ && uniform_.allows(place.devices)) return uniform_.times(begin, ends, place);
  answer_.clear();
  for (const std::int32_t end : ends) {
    answer_.push_back(price(begin, end, place.devices, place_of(place)));
  }
  // Prices of memory leave gaps between their paths: the published rule may lie in one.
  if (mode_ == Mode::kTimes && uniform_.allows(place.devices)) {
    const std::span<const double> uniform = uniform_.times(begin, ends, place);
    for (std::size_t i = 0; i < answer_.size(); ++i) answer_[i] = std::min(answer_[i], uniform[i]);
  }
  return answer_;
}

CandidateStage MixedStagePricer::uniform_stage(std::int32_t begin, std::int32_t end, const StagePlace& place) {
  CandidateStage stage = uniform_.stage(begin, end, place);
  if (derived_recompute_) return stage;
  const Split& split = stage.split;
  const UniformStage of{begin, end, uniform_.setting_of(split), split.dp, split.tp, place_of(place)};
  std::vector<std::uint8_t> flags;
  if (of.setting >= 0) (void)uniform_stages_.parts(of, flags);
  std::vector<Range> recompute;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) append(recompute, begin + static_cast<std::int32_t>(i));
  }
  stage.recompute = std::move(recompute);
  return stage;
}

CandidateStage MixedStagePricer::stage(std::int32_t begin, std::int32_t end, const StagePlace& place) {
  if (uniform_alone_ && uniform_.allows(place.devices)) return uniform_stage(begin, end, place);
  if (uniform_.allows(place.devices)) {
    const std::int32_t ends[] = {end};
    const double mixed = price(begin, end, place.devices, place_of(place));
    if (uniform_.times(begin, ends, place)[0] <= mixed) return uniform_stage(begin, end, place);
  }
  CandidateStage stage;
  stage.end = end;
  stage.devices = place.devices;
  const Place at = place_of(place);
  MixedStages& stages = stages_of(place.devices);
  const std::int32_t from = canonical(begin, end);
  std::vector<MixedChoice> choices;
  if (derived_recompute_) {
    for (const std::int16_t option : paths_[index_of(place.devices)]->path(begin, end, at)) {
      choices.push_back({option, false});
    }
  } else {
    const MixedResult result = stages.result(from, from + end - begin, at);
    if (result.price >= 0) choices = stages.path(from, from + end - begin, at, result.price, result.state);
  }
  if (choices.empty()) return stage;
  std::vector<Range> recompute;
  std::int32_t op = begin;
  for (const MixedChoice& choice : choices) {
    const OperatorSplit& option = stages.options()[choice.option];
    const Split split{option.dp, option.tp, ShardedLevel::kNone, 0};
    append_split(stage, op + 1, split);
    if (option.alternate) append(stage.alternate, op);
    if (choice.recompute) append(recompute, op);
    ++op;
  }
  settle_splits(stage);
  if (!derived_recompute_) stage.recompute = recompute;
  return stage;
}

}  // namespace trimtab::tuner::aceso
