#include "card/findings/slow_device.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trimtab::coordinator {

namespace {

constexpr double kMiddle = 0.045;
constexpr double kSurely = 0.025;
constexpr double kDiffer = 0.015;  // devices of one kind do, and none of them is slow
constexpr double kSureFrom = 0.95;

using Series = std::vector<double>;

// The logarithm by which a look's kernels take longer than `usual` says, weighed by their time. Nothing where it knows
// none of them.
template <typename Usual>
std::optional<double> longer(const DeviceLook& look, const Usual& usual) {
  double sum = 0;
  double weight = 0;
  for (const KernelLook& kernel : look.kernels) {
    const std::optional<double> us = usual(kernel.signature);
    if (kernel.count == 0 || !us || *us <= 0 || kernel.us <= 0) continue;
    const double time = static_cast<double>(kernel.us) * kernel.count;
    sum += time * std::log(static_cast<double>(kernel.us) / *us);
    weight += time;
  }
  return weight > 0 ? std::optional(sum / weight) : std::nullopt;
}

// Looks of all these ranks side by side, the latest last.
class SideBySide {
 public:
  SideBySide(const JobEvidence& job, const std::vector<std::int32_t>& ranks) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const std::int32_t number : ranks) {
      ranks_.push_back(&job.ranks.at(number));
      least = std::min(least, ranks_.back()->looks.size());
    }
    looks_ = ranks_.empty() ? 0 : least;
  }

  [[nodiscard]] Series beside_others(std::size_t place) const {
    Series series;
    for (std::size_t row = 0; row < looks_; ++row) {
      const auto usual = [&](std::size_t signature) { return of_others(row, place, signature); };
      if (const auto ratio = longer(at(row, place), usual)) series.push_back(*ratio);
    }
    return series;
  }

  [[nodiscard]] Series beside_past(std::size_t place) const {
    Series series;
    for (std::size_t row = 0; row < looks_; ++row) {
      std::vector<double> others;
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        const auto ratio = i == place ? std::nullopt : since_first(row, i);
        if (ratio) others.push_back(*ratio);
      }
      const auto own = since_first(row, place);
      if (own && !others.empty()) series.push_back(*own - median_of(std::move(others)));
    }
    return series;
  }

 private:
  [[nodiscard]] const DeviceLook& at(std::size_t row, std::size_t place) const {
    const auto& all = ranks_[place]->looks;
    return all[all.size() - looks_ + row];
  }

  [[nodiscard]] std::optional<double> of_others(std::size_t row, std::size_t place, std::size_t signature) const {
    std::vector<double> others;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (i == place) continue;
      const auto& kernels = at(row, i).kernels;
      const auto same = std::ranges::find(kernels, signature, &KernelLook::signature);
      if (same != kernels.end() && same->count > 0) others.push_back(same->us);
    }
    return others.empty() ? std::nullopt : std::optional(median_of(std::move(others)));
  }

  [[nodiscard]] std::optional<double> since_first(std::size_t row, std::size_t place) const {
    const auto& first = ranks_[place]->first_kernels;
    return longer(at(row, place), [&first](std::size_t signature) -> std::optional<double> {
      const auto known = first.find(signature);
      return known == first.end() ? std::nullopt : std::optional(known->second.us);
    });
  }

  std::vector<const RankEvidence*> ranks_;
  std::size_t looks_ = 0;
};

// Of `compared` ranks any may be off by luck (Bonferroni).
std::optional<SlowDevice> judged(const std::vector<Series>& of_ranks, std::size_t compared, bool by_past) {
  std::optional<SlowDevice> slowest;
  for (std::size_t place = 0; place < of_ranks.size(); ++place) {
    const Series& series = of_ranks[place];
    if (series.size() < kLeastRows) continue;
    const SlowDevice one{place, estimate_of(series),
                         1 - static_cast<double>(compared) * chance_above(series, std::log1p(kDiffer)), by_past};
    const bool clear = one.longer.value >= std::log1p(kMiddle) && one.longer.low >= std::log1p(kSurely);
    if (!clear || one.confidence < kSureFrom) continue;
    if (!slowest || one.longer.value > slowest->longer.value) slowest = one;
  }
  return slowest;
}

}  // namespace

std::optional<SlowDevice> slow_device(const JobEvidence& job, const std::vector<std::int32_t>& ranks) {
  std::vector<Series> series;
  if (ranks.size() > 1) {
    const SideBySide looks(job, ranks);
    for (std::size_t place = 0; place < ranks.size(); ++place) series.push_back(looks.beside_others(place));
    return judged(series, ranks.size(), false);
  }
  std::vector<std::int32_t> all;
  for (const auto& [number, rank] : job.ranks) {
    if (!rank.looks.empty()) all.push_back(number);
  }
  const auto self = std::ranges::find(all, ranks.empty() ? -1 : ranks.front());
  if (self == all.end()) return std::nullopt;
  series.push_back(SideBySide(job, all).beside_past(static_cast<std::size_t>(self - all.begin())));
  return judged(series, all.size(), true);
}

}  // namespace trimtab::coordinator
