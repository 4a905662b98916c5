#include "papers/galvatron/formulas.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr std::int32_t kWidestOfV2 = 8;  // tensor-parallel ranks and stages of its search
constexpr double kWithheld = 0.2;        // of the memory limit, for the allocator
constexpr double kWithholdAboveMib = 20 * 1024;

// Whole MiB, as the published programs count a layer. What rounding to bytes has added is not a MiB.
double whole_mib(double mib) {
  return std::ceil(mib - 1e-6);
}

}  // namespace

double beside(double computing, double communicating, double slowdown) {
  return std::max(computing, communicating) + (slowdown - 1) * std::min(computing, communicating);
}

std::vector<std::int32_t> chunk_sizes(std::int32_t count, std::int32_t chunks) {
  std::vector<std::int32_t> sizes;
  if (count < 1) return sizes;
  const std::int32_t size = (count + chunks - 1) / chunks;
  for (std::int32_t left = count; left > 0; left -= size) sizes.push_back(std::min(size, left));
  return sizes;
}

double lacking_share(const LayerStrategy& from, const LayerStrategy& to, std::int32_t devices) {
  // Which part of the samples a device has: its replica's, as every tensor-parallel rank has all of them.
  const auto replica = [devices](const LayerStrategy& strategy, std::int32_t rank) {
    std::int32_t index = 0;
    std::int32_t below = devices;
    for (std::int32_t i = 0; i < strategy.depth; ++i) {
      const TreeLevel& level = strategy.levels[static_cast<std::size_t>(i)];
      below /= level.degree;
      if (level.dimension != Dimension::kTensor) index = index * level.degree + rank / below % level.degree;
    }
    return index;
  };
  double most = 0;
  for (std::int32_t rank = 0; rank < devices; ++rank) {
    const double had = replica(from, rank) / static_cast<double>(from.replicas());
    const double needed = replica(to, rank) / static_cast<double>(to.replicas());
    const double had_end = had + 1.0 / from.replicas();
    const double needed_end = needed + 1.0 / to.replicas();
    const double common = std::max(0.0, std::min(had_end, needed_end) - std::max(had, needed));
    most = std::max(most, 1.0 / to.replicas() - common);
  }
  return most;
}

Formulas::Links Formulas::links(const LayerStrategy& strategy, std::int32_t stages) const {
  return {profile_->reduce_ms_per_mib(stages, strategy.replicas(), strategy.replicas_consecutive()),
          profile_->reduce_ms_per_mib(stages, strategy.tp(), strategy.tp_consecutive())};
}

bool Formulas::has(std::int32_t type, const LayerStrategy& strategy, std::int32_t stages) const {
  const LayerType& of = profile_->types[static_cast<std::size_t>(type)];
  const bool known = of.kept_mib.count(strategy.tp()) > 0;
  const Links link = links(strategy, stages);
  if (!known || link.replicas < 0 || link.tensor < 0) return false;
  const bool mix = strategy.dp() > 1 && strategy.sharded() > 1;
  if (variant_ == Variant::kV1) return !strategy.recompute && !mix;
  return variant_ == Variant::kPaper || (!mix && strategy.tp() <= kWidestOfV2 && stages <= kWidestOfV2 &&
                                         (!strategy.recompute || of.recomputed_mib > 0));
}

LayerCost Formulas::layer(std::int32_t type, const LayerStrategy& strategy, const Situation& situation,
                          bool plain_replicas) const {
  const LayerType& of = profile_->types[static_cast<std::size_t>(type)];
  if (variant_ == Variant::kV1) return layer_v1(of, strategy, situation);
  if (variant_ == Variant::kV2) return layer_v2(of, strategy, situation, plain_replicas);
  return layer_paper(of, strategy, situation);
}

double Formulas::limit_mib() const {
  const double limit = profile_->memory_limit_mib;
  if (variant_ != Variant::kV2 || std::floor(limit / 1024) * 1024 <= kWithholdAboveMib) return limit;
  return limit - std::floor(limit * kWithheld);
}

double Formulas::iteration_ms(std::span<const StageSum> stages, std::int32_t microbatches) const {
  double plain = 0;
  double sync = 0;
  double tail = 0;
  double before = 0;
  for (const StageSum& stage : stages) {
    plain = std::max(plain, stage.plain_ms);
    sync += stage.sync_ms;
    before += stage.plain_ms;
    tail = std::max(tail, stage.sync_ms - before);
  }
  if (variant_ == Variant::kV1) return sync;
  if (variant_ == Variant::kPaper) return (microbatches - 1) * plain + sync;
  return plain * (microbatches - 1 + static_cast<double>(stages.size())) + tail;
}

double Formulas::reserved_mib(const Situation& situation, bool plain_replicas) const {
  if (variant_ == Variant::kV1) return whole_mib(reserved_v1(situation));
  if (variant_ == Variant::kV2) return whole_mib(reserved_v2(situation, plain_replicas));
  return reserved_paper(situation);
}

}  // namespace trimtab::tuner::galvatron
