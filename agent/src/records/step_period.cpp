#include "records/step_period.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace trimtab::agent {

namespace {

using Counts = std::unordered_map<std::uint32_t, std::uint32_t>;

constexpr std::size_t kCandidates = 48;
constexpr std::size_t kMostPerStep = 4;
constexpr std::size_t kLeastStep = 4;
constexpr double kAlike = 0.75;
constexpr double kEven = 0.8;       // of the distances ...
constexpr double kEvenness = 0.05;  // ... are so close to the median
constexpr double kFits = 0.1;
constexpr int kMostMisfits = 3;
// In one look. Symbols that come evenly, and nothing between them alike, would have all of them compared many times.
constexpr std::size_t kMostCompared = std::size_t{1} << 21;

Counts count(const std::uint32_t* begin, const std::uint32_t* end) {
  Counts counts;
  for (; begin != end; ++begin) ++counts[*begin];
  return counts;
}

// How much of two steps is the same kernels, in whatever order.
double likeness(const Counts& a, const Counts& b, std::size_t longer) {
  std::size_t shared = 0;
  for (const auto& [symbol, number] : a) {
    const auto other = b.find(symbol);
    if (other != b.end()) shared += std::min(number, other->second);
  }
  return static_cast<double>(shared) / static_cast<double>(longer);
}

std::vector<std::size_t> places(const std::vector<std::uint32_t>& stretch, std::uint32_t symbol) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < stretch.size(); ++i) {
    if (stretch[i] == symbol) result.push_back(i);
  }
  return result;
}

std::vector<std::size_t> every(std::size_t nth, const std::vector<std::size_t>& places) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < places.size(); i += nth) result.push_back(places[i]);
  return result;
}

// The median distance, when most are close to it.
std::optional<double> even_distance(const std::vector<std::size_t>& at) {
  std::vector<std::size_t> distances;
  for (std::size_t i = 1; i < at.size(); ++i) distances.push_back(at[i] - at[i - 1]);
  std::vector<std::size_t> sorted = distances;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const auto median = static_cast<double>(*middle);
  const double allowed = std::max(1.0, kEvenness * median);
  const auto close = std::ranges::count_if(
      distances, [&](std::size_t distance) { return std::abs(static_cast<double>(distance) - median) <= allowed; });
  if (static_cast<double>(close) < kEven * static_cast<double>(distances.size())) return std::nullopt;
  return median;
}

double mean_likeness(const std::vector<std::uint32_t>& stretch, const std::vector<std::size_t>& at) {
  double sum = 0;
  Counts before;
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    Counts step = count(stretch.data() + at[i], stretch.data() + at[i + 1]);
    const std::size_t length = at[i + 1] - at[i];
    const std::size_t previous = i == 0 ? 0 : at[i] - at[i - 1];
    if (i > 0) sum += likeness(before, step, std::max(length, previous));
    before = std::move(step);
  }
  return sum / static_cast<double>(at.size() - 2);
}

}  // namespace

StepPeriod::StepPeriod(PeriodOptions options) : options_(options) {
  reset();
}

void StepPeriod::reset() {
  ring_.clear();
  seen_ = 0;
  look_at_ = options_.min_symbols;
  anchor_.reset();
  in_step_ = false;
  steps_ = since_ = occurrences_ = 0;
  misfits_ = 0;
}

StepPeriod::Boundary StepPeriod::add(std::uint32_t symbol, std::uint64_t begin_ns) {
  if (seen_ == 0) begin_ns_ = begin_ns;
  newest_ns_ = begin_ns;
  if (ring_.size() < options_.window) {
    ring_.push_back(symbol);
  } else {
    ring_[seen_ % options_.window] = symbol;
  }
  ++seen_;
  const Boundary boundary = anchor_ ? follow(symbol) : Boundary::kNone;
  if (seen_ >= look_at_) look();
  return boundary;
}

StepPeriod::Boundary StepPeriod::follow(std::uint32_t symbol) {
  ++since_;
  const auto expected = static_cast<std::uint64_t>(anchor_->kernels);
  if (symbol != anchor_->symbol) return since_ > 3 * expected ? misfit() : Boundary::kNone;
  if (++occurrences_ < anchor_->per_step && in_step_) return Boundary::kNone;
  const std::uint64_t length = since_;
  since_ = occurrences_ = 0;
  if (!in_step_) {
    in_step_ = true;
    return Boundary::kFirst;
  }
  const double off = std::abs(static_cast<double>(length) - anchor_->kernels);
  if (off > std::max(2.0, kFits * anchor_->kernels)) return misfit();
  misfits_ = 0;
  ++steps_;
  anchor_->kernels += (static_cast<double>(length) - anchor_->kernels) / 16;
  return Boundary::kRegular;
}

// The step that ends here is none; the next may be one again.
StepPeriod::Boundary StepPeriod::misfit() {
  const bool at_anchor = since_ == 0;
  since_ = occurrences_ = 0;
  in_step_ = at_anchor;
  if (++misfits_ < kMostMisfits) return at_anchor ? Boundary::kFirst : Boundary::kNone;
  reset();
  return Boundary::kNone;
}

// The whole window first, then its latest half and quarter: before them the job may have warmed up.
void StepPeriod::look() {
  look_at_ = seen_ + std::min<std::uint64_t>(seen_, anchor_ ? 8 * options_.window : options_.window / 2);
  if (newest_ns_ - begin_ns_ < options_.min_ns) {
    look_at_ = std::min(look_at_, seen_ + std::max<std::uint64_t>(options_.min_symbols, seen_ / 4));
    return;
  }
  std::vector<std::uint32_t> stretch(ring_);
  const auto oldest = static_cast<std::ptrdiff_t>(seen_ > ring_.size() ? seen_ % options_.window : 0);
  std::rotate(stretch.begin(), stretch.begin() + oldest, stretch.end());
  std::size_t left = kMostCompared;
  for (int part = 0; part < 3 && stretch.size() >= options_.min_symbols; ++part) {
    const auto found = look_at(stretch, left);
    if (found) {
      const bool same = anchor_ && std::abs(anchor_->kernels - found->kernels) <= kFits * found->kernels;
      if (same) return;
      anchor_ = found;
      in_step_ = false;
      steps_ = since_ = occurrences_ = 0;
      misfits_ = 0;
      return;
    }
    stretch.erase(stretch.begin(), stretch.begin() + static_cast<std::ptrdiff_t>(stretch.size() / 2));
  }
}

std::optional<StepPeriod::Anchor> StepPeriod::look_at(const std::vector<std::uint32_t>& stretch,
                                                      std::size_t& left) const {
  const Counts counts = count(stretch.data(), stretch.data() + stretch.size());
  if (counts.size() < 2) return std::nullopt;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> rarest;  // count, symbol
  for (const auto& [symbol, number] : counts) {
    if (number > options_.min_periods) rarest.emplace_back(number, symbol);
  }
  std::ranges::sort(rarest);
  std::optional<Anchor> second;
  std::size_t tried = 0;
  std::uint32_t last = 0;
  std::size_t of_this_count = 0;
  for (const auto& [number, symbol] : rarest) {
    of_this_count = number == last ? of_this_count + 1 : 0;
    last = number;
    if (of_this_count >= kMostPerStep) continue;  // others as seldom have been tried
    if (++tried > kCandidates) break;
    const std::vector<std::size_t> at = places(stretch, symbol);
    for (std::size_t per_step = 1; per_step <= kMostPerStep; ++per_step) {
      auto anchor = anchor_from(stretch, every(per_step, at), per_step, left);
      if (!anchor) continue;
      const double periods = static_cast<double>(number) / static_cast<double>(per_step);
      for (const auto& [other, unused] : rarest) {
        const auto times = static_cast<double>(other) / periods;
        if (times >= 0.75 && times <= 1.25) ++anchor->own;
      }
      if (anchor->own >= options_.min_own || anchor->kernels <= 2 * static_cast<double>(kLeastStep)) return anchor;
      if (!second || anchor->likeness > second->likeness) second = anchor;
      break;
    }
  }
  return second;
}

std::optional<StepPeriod::Anchor> StepPeriod::anchor_from(const std::vector<std::uint32_t>& stretch,
                                                          const std::vector<std::size_t>& at, std::size_t per_step,
                                                          std::size_t& left) const {
  if (at.size() <= options_.min_periods) return std::nullopt;
  const auto distance = even_distance(at);
  if (!distance || *distance < static_cast<double>(std::max(kLeastStep, 2 * per_step))) return std::nullopt;
  // All along the stretch, not in a part of it.
  const auto most = static_cast<std::size_t>(1.5 * *distance) + 1;
  if (at.front() > most || stretch.size() - at.back() > most) return std::nullopt;
  if (stretch.size() > left) return std::nullopt;
  left -= stretch.size();
  const double alike = mean_likeness(stretch, at);
  if (alike < kAlike) return std::nullopt;
  return Anchor{stretch[at.front()], per_step, *distance, alike, 0, at.size() - 1};
}

std::optional<StepPeriodFound> StepPeriod::found() const {
  if (!anchor_) return std::nullopt;
  const auto seen = static_cast<double>(anchor_->repetitions + steps_);
  return StepPeriodFound{static_cast<std::uint64_t>(std::lround(anchor_->kernels)), anchor_->likeness * (1 - 1 / seen),
                         steps_};
}

}  // namespace trimtab::agent
