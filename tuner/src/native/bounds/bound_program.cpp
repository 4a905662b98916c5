#include "native/bounds/bound_program.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

constexpr std::size_t kStates = 3000000;
constexpr std::size_t kFloors = 8;  // of a state; more are merged, which only lowers them

SuffixFloor smaller(const SuffixFloor& a, const SuffixFloor& b) {
  return {std::min(a.trip, b.trip), std::min(a.last, b.last), std::min(a.end, b.end)};
}

double sum(const SuffixFloor& of) {
  return of.trip + of.last + of.end;
}

}  // namespace

// The merged floor keeps the stages of the one that ends first.
void BoundProgram::merge_nearest(Floors& floors) {
  std::sort(floors.begin(), floors.end(), [](const Kept& a, const Kept& b) { return a.floor.trip < b.floor.trip; });
  const auto lost = [&floors](std::size_t i) {
    const SuffixFloor& a = floors[i].floor;
    const SuffixFloor& b = floors[i + 1].floor;
    return sum(a) + sum(b) - 2 * sum(smaller(a, b));
  };
  std::size_t nearest = 0;
  for (std::size_t i = 1; i + 1 < floors.size(); ++i) {
    if (lost(i) < lost(nearest)) nearest = i;
  }
  const SuffixFloor merged = smaller(floors[nearest].floor, floors[nearest + 1].floor);
  if (floors[nearest + 1].floor.end < floors[nearest].floor.end) floors[nearest] = floors[nearest + 1];
  floors[nearest].floor = merged;
  floors.erase(floors.begin() + static_cast<std::ptrdiff_t>(nearest) + 1);
}

bool BoundProgram::hopeless(std::int32_t begin, std::int32_t device) const {
  return device > 0 && microbatches_ * summed_.least_device_ms()[begin] / device >= limits_.best_ms;
}

void BoundProgram::keep(const Kept& kept, std::int32_t begin, std::int32_t device, Floors& floors) const {
  const SuffixFloor& floor = kept.floor;
  // A microbatch must pass the stages before as well, on its way there and back.
  const double before = summed_.least_ms()[begin];
  if (floor.last + before >= limits_.best_ms || floor.end >= limits_.best_ms || hopeless(begin, device)) return;
  for (const Kept& other : floors) {
    if (other.floor.no_more_than(floor)) return;
  }
  std::erase_if(floors, [&floor](const Kept& other) { return floor.no_more_than(other.floor); });
  floors.push_back(kept);
  if (floors.size() > kFloors) merge_nearest(floors);
}

// The stage at `place` before what its end's state keeps.
void BoundProgram::extend(std::int32_t left, const PlacedStage& place, std::size_t from, std::size_t to) {
  const std::int32_t begin = positions_[from];
  Floors& floors = at(left, place.first_device, from);
  const std::int32_t next = place.first_device + place.devices;
  if (left > 1 && at(left - 1, next, to).empty()) return;
  const std::span<const StageWay> ways = stages_.ways(place);
  ways_ += ways.size() + 1;
  for (const StageWay& way : ways) {
    Kept kept{{}, static_cast<std::uint32_t>(to), 0, place.devices, way.dp, way.tp};
    if (left == 1) {
      kept.floor = last_stage(way.floor, microbatches_);
      keep(kept, begin, place.first_device, floors);
      continue;
    }
    if (microbatches_ * way.floor.both >= limits_.best_ms) continue;
    const TransferFloor apart = transfer(place, to, way);
    for (const Kept& after : at(left - 1, next, to)) {
      kept.floor = put_before(way.floor, apart, after.floor, left - 1, microbatches_);
      keep(kept, begin, place.first_device, floors);
      ++kept.after;
    }
  }
}

TransferFloor BoundProgram::transfer(const PlacedStage& place, std::size_t to, const StageWay& way) {
  const std::int32_t boundary = place.first_device + place.devices;
  TransferFloor least{limits_.best_ms, limits_.best_ms};
  auto cut = std::lower_bound(space_.cuts.begin(), space_.cuts.end(), positions_[to]);
  for (; cut != space_.cuts.end() && *cut < positions_[to + 1]; ++cut) {
    least.whole = std::min(least.whole, transfers_.ms(*cut, boundary, place.devices, way.dp, way.tp));
    least.first = std::min(least.first, halves_.ms(*cut, boundary, place.devices, way.dp, way.tp));
  }
  least.first = std::min(least.first, least.whole);
  return least;
}

void BoundProgram::fill(std::int32_t left, std::int32_t device, std::size_t from) {
  const std::int32_t begin = positions_[from];
  if (hopeless(begin, device)) return;
  const std::size_t last = positions_.size() - 1;
  for (std::int32_t count = 1; device + count <= space_.devices; ++count) {
    if (!space_.allows_devices(device, count) || (left == 1 && !ends_at(device + count))) continue;
    const double most = limits_.best_ms * count;
    const bool several = inside_[from] > begin;  // two cuts may lie here
    for (std::size_t to = left == 1 ? last : from + (several ? 0 : 1); to < positions_.size(); ++to) {
      const std::int32_t first = std::min(inside_[from], positions_[to]);
      const std::int32_t end = std::max(first, positions_[to]);
      if (left > 1 && to == last) break;
      const double shared = summed_.least_device_ms()[end] - summed_.least_device_ms()[first];
      if (microbatches_ * shared >= most || ways_ > limits_.most_ways) break;
      extend(left, {first, end, device, count, std::min(left, microbatches_)}, from, to);
    }
  }
}

void BoundProgram::choose_positions() {
  const std::vector<std::int32_t>& cuts = space_.cuts;
  const std::size_t step = std::max<std::size_t>(1, (cuts.size() + limits_.most_cuts - 1) / limits_.most_cuts);
  positions_ = inside_ = {0};
  for (std::size_t i = 0; i < cuts.size(); i += step) {
    positions_.push_back(cuts[i]);
    inside_.push_back(cuts[std::min(i + step, cuts.size()) - 1]);
  }
  positions_.push_back(space_.operators);
  inside_.push_back(space_.operators);
}

std::optional<double> BoundProgram::run() {
  choose_positions();
  const std::int32_t most = std::min(space_.stages_max, space_.devices);
  const std::size_t states = static_cast<std::size_t>(most + 1) * (space_.devices + 1) * positions_.size();
  if (states > kStates) return std::nullopt;
  floors_.assign(states, {});
  double bound = limits_.best_ms;
  for (std::int32_t left = 1; left <= most; ++left) {
    for (std::int32_t device = 0; device < space_.devices; ++device) {
      const std::size_t first = device == 0 ? 0 : 1;
      const std::size_t end = device == 0 ? 1 : positions_.size() - 1;
      for (std::size_t from = first; from < end; ++from) fill(left, device, from);
      if (ways_ > limits_.most_ways) return std::nullopt;
    }
    if (left < space_.stages_min) continue;
    for (const Kept& kept : at(left, 0, 0)) bound = std::min(bound, kept.floor.end);
  }
  return bound;
}

Candidate BoundProgram::trace(std::int32_t left, const Kept& first) {
  Candidate candidate;
  std::int32_t device = 0;
  for (const Kept* kept = &first;; kept = &at(left, device, kept->to)[kept->after]) {
    CandidateStage stage;
    stage.end = positions_[kept->to];
    stage.devices = kept->devices;
    stage.split.dp = kept->dp;
    stage.split.tp = kept->tp;
    candidate.stages.push_back(std::move(stage));
    device += kept->devices;
    if (--left == 0) return candidate;
  }
}

std::vector<FlooredPlan> BoundProgram::plans(std::int32_t microbatch, std::size_t most) {
  std::vector<FlooredPlan> plans;
  const std::int32_t stages = std::min(space_.stages_max, space_.devices);
  for (std::int32_t left = std::max(1, space_.stages_min); left <= stages; ++left) {
    Floors whole = at(left, 0, 0);
    std::sort(whole.begin(), whole.end(), [](const Kept& a, const Kept& b) { return a.floor.end < b.floor.end; });
    if (whole.size() > most) whole.resize(most);
    for (const Kept& kept : whole) {
      plans.push_back({kept.floor.end, trace(left, kept)});
      plans.back().candidate.microbatch = microbatch;
    }
  }
  return plans;
}

}  // namespace trimtab::tuner
