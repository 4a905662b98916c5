#include "solvers/cheapest_cover.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

namespace trimtab::tuner {
namespace {

// Less than a byte costs less: `a` first.
template <typename A, typename B>
bool cheaper(const A& a, const B& b) {
  return a.time * b.freed < b.time * a.freed;
}

std::vector<std::size_t> cheapest_first(const std::vector<CoverWay>& ways) {
  std::vector<std::size_t> places(ways.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) { return cheaper(ways[a], ways[b]); });
  return places;
}

CoverWay cheapest(const CoverClass& of) {
  return *std::ranges::min_element(of.ways, cheaper<CoverWay, CoverWay>);
}

}  // namespace

CheapestCover::CheapestCover(std::vector<CoverClass> classes) {
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (!classes[c].ways.empty()) number_.push_back(c);
  }
  std::ranges::stable_sort(
      number_, [&](std::size_t a, std::size_t b) { return cheaper(cheapest(classes[a]), cheapest(classes[b])); });
  for (const std::size_t c : number_) {
    const std::vector<CoverWay>& given = classes[c].ways;
    ways_.push_back(cheapest_first(given));
    CoverClass& of = classes_.emplace_back();
    of.units = classes[c].units;
    for (const std::size_t way : ways_.back()) of.ways.push_back(given[way]);
    counts_.emplace_back(given.size(), 0);
  }
  capacity_after_.assign(classes_.size() + 1, 0.0);
  freest_.resize(classes_.size());
  hulls_.resize(classes_.size());
  for (std::size_t c = classes_.size(); c-- > 0;) {
    const std::size_t ways = classes_[c].ways.size();
    freest_[c].assign(ways + 1, 0.0);
    for (std::size_t way = ways; way-- > 0;) {
      freest_[c][way] = std::max(freest_[c][way + 1], classes_[c].ways[way].freed);
    }
    hulls_[c].resize(ways);
    hulls_[c][0] = hull(c, 0);
    capacity_after_[c] = capacity_after_[c + 1] + classes_[c].units * freest_[c][0];
    all_.insert(all_.end(), hulls_[c][0].begin(), hulls_[c][0].end());
  }
  std::ranges::stable_sort(all_, cheaper<Increment, Increment>);
}

CheapestCover::Increments CheapestCover::hull(std::size_t c, std::size_t first_way) const {
  Increments increments;
  CoverWay from;
  for (;;) {
    const CoverWay* best = nullptr;
    for (std::size_t way = first_way; way < classes_[c].ways.size(); ++way) {
      const CoverWay& to = classes_[c].ways[way];
      if (to.freed <= from.freed) continue;
      const double slope = (to.time - from.time) / (to.freed - from.freed);
      const double least = best == nullptr ? std::numeric_limits<double>::infinity()
                                           : (best->time - from.time) / (best->freed - from.freed);
      if (slope < least || (slope == least && to.freed > best->freed)) best = &to;
    }
    if (best == nullptr) return increments;
    increments.push_back({best->time - from.time, best->freed - from.freed, c});
    from = *best;
  }
}

double CheapestCover::relaxed(double need) {
  if (need <= 0) return 0;
  if (capacity() < need) return std::numeric_limits<double>::infinity();
  return relaxed(0, 0, classes_[0].units, need);
}

// Increments of class `c` from `way` on for `left` of its units, and of the classes behind it.
double CheapestCover::relaxed(std::size_t c, std::size_t way, std::int32_t left, double need) {
  const bool some = way < classes_[c].ways.size();
  if (some && hulls_[c][way].empty()) hulls_[c][way] = hull(c, way);
  const std::span<const Increment> own =
      some ? std::span<const Increment>(hulls_[c][way]) : std::span<const Increment>();
  double time = 0;
  std::size_t i = 0;
  std::size_t j = 0;
  while (need > 0) {
    while (j < all_.size() && all_[j].of <= c) ++j;
    if (i == own.size() && j == all_.size()) break;  // but for rounding there is enough
    const bool first = j == all_.size() || (i < own.size() && !cheaper(all_[j], own[i]));
    const Increment& increment = first ? own[i++] : all_[j++];
    const double all = increment.freed * (first ? left : classes_[increment.of].units);
    const double freed = std::min(need, all);
    if (freed > 0) time += increment.time * freed / increment.freed;
    need -= freed;
  }
  return time;
}

CheapestCover::Counts CheapestCover::freest() const {
  Counts counts;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    if (number_[c] >= counts.size()) counts.resize(number_[c] + 1);
    counts[number_[c]].assign(classes_[c].ways.size(), 0);
    const auto most = std::ranges::max_element(classes_[c].ways,
                                               [](const CoverWay& a, const CoverWay& b) { return a.freed < b.freed; });
    counts[number_[c]][ways_[c][static_cast<std::size_t>(most - classes_[c].ways.begin())]] = classes_[c].units;
  }
  return counts;
}

bool CheapestCover::solve(double need, double& best, Counts& counts, std::int64_t& nodes) {
  if (classes_.empty()) return true;
  best_ = &best;
  best_counts_ = &counts;
  nodes_ = nodes;
  visit(0, 0, classes_[0].units, need, 0);
  nodes = std::max<std::int64_t>(nodes_, 0);
  return nodes_ > 0;
}

void CheapestCover::visit(std::size_t c, std::size_t way, std::int32_t left, double need, double time) {
  if (need <= 0) {
    if (time >= *best_) return;
    *best_ = time;
    best_counts_->clear();
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      if (number_[k] >= best_counts_->size()) best_counts_->resize(number_[k] + 1);
      std::vector<std::int32_t>& of = (*best_counts_)[number_[k]];
      of.assign(classes_[k].ways.size(), 0);
      for (std::size_t w = 0; w < of.size(); ++w) of[ways_[k][w]] = counts_[k][w];
    }
    return;
  }
  if (c == classes_.size()) return;
  if (left == 0 || way == classes_[c].ways.size()) {
    return visit(c + 1, 0, c + 1 < classes_.size() ? classes_[c + 1].units : 0, need, time);
  }
  if (capacity_after_[c + 1] + left * freest_[c][way] < need || --nodes_ <= 0) return;
  if (time + relaxed(c, way, left, need) >= *best_) return;
  const CoverWay& of = classes_[c].ways[way];
  const double wanted = need / of.freed;
  std::int32_t most = left;
  if (wanted < left) {
    most = static_cast<std::int32_t>(wanted);
    while (most < left && of.freed * most < need) ++most;
  }
  for (counts_[c][way] = most; counts_[c][way] >= 0; --counts_[c][way]) {
    visit(c, way + 1, left - counts_[c][way], need - of.freed * counts_[c][way], time + of.time * counts_[c][way]);
  }
  counts_[c][way] = 0;
}

}  // namespace trimtab::tuner
