#include "papers/aceso/aceso_stage_pricer.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace trimtab::tuner::aceso {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kUnknown = -1;

std::size_t index_of(std::int32_t devices) {
  return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(devices)) - 1);
}

}  // namespace

AcesoStagePricer::AcesoStagePricer(const Tables& tables, UniformStages& uniform, const Model& model,
                                   const PlanSpace& space, std::int32_t microbatch)
    : tables_(tables),
      uniform_(uniform),
      microbatch_(microbatch),
      blends_(space.alternate_dimensions),
      repetition_(uniform.repetition()) {
  const auto operators = static_cast<std::size_t>(tables.operators());
  std::vector<double> least(operators, kInfinite);
  std::vector<double> least_of_devices(operators, kInfinite);
  for (std::int32_t devices = 1; devices <= space.devices; devices *= 2) {
    options_.emplace_back();
    if (!std::binary_search(space.device_counts.begin(), space.device_counts.end(), devices)) continue;
    for (const Split& split : space.splits(model, microbatch, devices)) {
      const std::int32_t setting = setting_of(split);
      if (setting < 0) continue;
      Option option{split, setting, {}};
      const std::vector<Sums>& sums = tables.table(setting).sums;
      for (const Sums& of : sums) option.sums.push_back((of.forward + of.backward) / 1000);
      for (std::size_t op = 0; op < operators; ++op) {
        const double time = option.sums[op + 1] - option.sums[op];
        least[op] = std::min(least[op], time);
        least_of_devices[op] = std::min(least_of_devices[op], time * devices);
      }
      options_.back().push_back(std::move(option));
    }
    std::stable_sort(options_.back().begin(), options_.back().end(),
                     [](const Option& a, const Option& b) { return a.sums.back() < b.sums.back(); });
  }
  for (std::size_t op = 0; op < operators; ++op) {
    least_time_ += least[op];
    least_device_time_ += least_of_devices[op];
  }
}

std::int32_t AcesoStagePricer::setting_of(const Split& split) const {
  const std::int32_t setting = tables_.setting(microbatch_ / split.dp, split.tp, false);
  return blends_ ? tables_.blend(setting) : setting;
}

const std::vector<AcesoStagePricer::Option>& AcesoStagePricer::options(std::int32_t devices) const {
  return options_[index_of(devices)];
}

bool AcesoStagePricer::allows(std::int32_t devices) const {
  return std::has_single_bit(static_cast<unsigned>(devices)) && index_of(devices) < options_.size() &&
         !options(devices).empty();
}

double AcesoStagePricer::floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const {
  double least = kInfinite;
  for (const Option& option : options(devices)) least = std::min(least, option.sums[end] - option.sums[begin]);
  return least;
}

Place AcesoStagePricer::place_of(const StagePlace& place) const {
  return {place.left, tables_.inter_node_input(place.first_device),
          tables_.inter_node_output(place.first_device + place.devices)};
}

AcesoStagePricer::Best AcesoStagePricer::price(std::int32_t begin, std::int32_t end, std::int32_t devices,
                                               const Place& place) {
  Best best{kInfinite, nullptr};
  for (const Option& option : options(devices)) {
    if (option.sums[end] - option.sums[begin] >= best.time) continue;
    if (!tables_.measured(option.setting, begin, end)) continue;
    const UniformPrice price = uniform_.price({begin, end, option.setting, option.split.dp, option.split.tp, place});
    const double ms = price.time() / 1000;
    if (price.memory <= tables_.memory_limit() && ms < best.time) best = {ms, &option};
  }
  return best;
}

// The slot of a length; the row grows by a margin around what is asked for.
double& AcesoStagePricer::at(Row& row, std::int32_t length, std::int32_t margin) {
  const auto size = static_cast<std::int32_t>(row.times.size());
  if (size == 0) row.first = length;
  if (length < row.first) {
    const std::int32_t more = row.first - std::max(0, length - margin);
    row.times.insert(row.times.begin(), static_cast<std::size_t>(more), kUnknown);
    row.first -= more;
  }
  if (length >= row.first + static_cast<std::int32_t>(row.times.size())) {
    row.times.resize(static_cast<std::size_t>(length - row.first + 1 + margin), kUnknown);
  }
  return row.times[length - row.first];
}

std::span<const double> AcesoStagePricer::times(std::int32_t begin, std::span<const std::int32_t> ends,
                                                const StagePlace& stage_place) {
  constexpr std::int32_t kMargin = 16;
  const Place place = place_of(stage_place);
  const bool repeats = ends.back() <= repetition_.region_end[begin];
  const std::int32_t from = repeats ? repetition_.canonical[begin] : begin;
  const std::uint64_t how = index_of(stage_place.devices) << 24 | static_cast<std::uint64_t>(place.copies) << 3 |
                            (place.inter_node_input ? 4U : 0U) | (place.inter_node_output ? 2U : 0U) |
                            (repeats ? 1U : 0U);
  Row& row = rows_[how << 32 | static_cast<std::uint64_t>(from)];
  answer_.clear();
  for (const std::int32_t end : ends) {
    const std::int32_t length = end - begin;
    double& time = at(row, length, kMargin);
    if (time == kUnknown) time = price(from, from + length, stage_place.devices, place).time;
    answer_.push_back(time);
  }
  return answer_;
}

CandidateStage AcesoStagePricer::stage(std::int32_t begin, std::int32_t end, const StagePlace& place) {
  CandidateStage stage;
  stage.end = end;
  stage.devices = place.devices;
  const Best best = price(begin, end, place.devices, place_of(place));
  if (best.option == nullptr) return stage;
  stage.split = best.option->split;
  for (std::int32_t op = begin; op < end; ++op) {
    if (!tables_.alternate(tables_.behind(best.option->setting, op))) continue;
    if (stage.alternate.empty() || stage.alternate.back().end != op) stage.alternate.push_back({op, op});
    stage.alternate.back().end = op + 1;
  }
  return stage;
}

}  // namespace trimtab::tuner::aceso
