#include "api/live_ranks.hpp"

#include <algorithm>
#include <cmath>

#include "agents/peer_text.hpp"
#include "schema/step_number.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {

namespace {

constexpr int kMostStreams = 64;
constexpr int kMostKernels = 16;
constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestClass = 64;

// Numbers that are none are 0.
double number(double value) {
  return std::isfinite(value) ? value : 0;
}

api::LiveStream stream_of(const wire::StreamActivity& said) {
  return {said.stream(), number(said.computation()), number(said.communication()), number(said.copy())};
}

api::BusyKernel kernel_of(const wire::BusyKernel& said) {
  return {first_of(said.name(), kLongestName),
          first_of(said.kernel_class(), kLongestClass),
          said.collective(),
          number(said.share()),
          said.count(),
          static_cast<double>(said.mean_ns()) / 1e3};
}

api::LiveParts parts_of(const wire::ActivityParts& said) {
  const auto part = [](bool told, double value) {
    return told && value >= 0 && value <= 1 ? std::optional(value) : std::nullopt;
  };
  return {std::nullopt,
          part(said.has_collectives(), said.collectives()),
          part(said.has_gradients(), said.gradients()),
          part(said.has_transfers(), said.transfers()),
          part(said.has_bubble(), said.bubble()),
          part(said.has_launch_bound(), said.launch_bound()),
          part(said.has_data(), said.data())};
}

std::optional<std::int64_t> stage_of(const Plan& plan, std::int64_t rank) {
  std::optional<std::int64_t> found;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (std::ranges::find(plan.stages[s].devices, rank) == plan.stages[s].devices.end()) continue;
    if (found) return std::nullopt;
    found = static_cast<std::int64_t>(s);
  }
  return found;
}

void measure(const wire::RankActivity& said, api::LiveRank& rank) {
  const double seconds = number(said.step_seconds());
  rank.step_ms = seconds * 1e3;
  rank.steps_per_second = seconds > 0 ? 1 / seconds : 0;
  rank.shares = {number(said.computation()), number(said.exposed_communication()), number(said.exposed_copy()),
                 number(said.idle()), number(said.overlapped_communication())};
  if (said.has_parts()) rank.parts = parts_of(said.parts());
}

// What is kept of one message.
api::LiveRank live_rank(const wire::RankActivity& said, const std::string& node) {
  api::LiveRank rank;
  rank.rank = said.rank();
  rank.node = node;
  rank.source = said.on_device() ? "kernels" : "ranges";
  rank.steps = said.steps();
  if (said.step() >= 0) rank.step = said.step();
  rank.step_found_by = said.detected() ? "period" : "ranges";
  if (said.detected()) {
    rank.confidence = number(said.confidence());
    rank.kernels_per_step = said.kernels_per_step();
  }
  rank.steps_measured = said.steps_measured();
  rank.steps_left_out = said.steps_left_out();
  rank.windows_incomplete = said.windows();
  if (rank.steps_measured > 0) measure(said, rank);
  for (int i = 0; i < std::min(said.streams_size(), kMostStreams); ++i)
    rank.streams.push_back(stream_of(said.streams(i)));
  for (int i = 0; i < std::min(said.busiest_size(), kMostKernels); ++i)
    rank.busiest.push_back(kernel_of(said.busiest(i)));
  return rank;
}

}  // namespace

void LiveRanks::told(const wire::RankActivity& activity, const std::string& node, Nanoseconds now) {
  if (!activity.variant().empty()) return;
  const Key key{activity.job(), activity.rank()};
  if (ranks_.size() >= kMost && !ranks_.contains(key)) return;
  ranks_[key] = {live_rank(activity, node), number(activity.step_seconds()), now};
}

const api::LiveRank* LiveRanks::find(const std::string& job, std::uint32_t rank) const {
  const auto found = ranks_.find({job, rank});
  return found == ranks_.end() ? nullptr : &found->second.activity;
}

std::string LiveRanks::document(const std::string& job, Nanoseconds now, const Plan* plan) const {
  api::LiveJob document{job, {}};
  for (auto rank = ranks_.lower_bound({job, 0}); rank != ranks_.end() && rank->first.first == job; ++rank) {
    document.ranks.push_back(rank->second.activity);
    api::LiveRank& told = document.ranks.back();
    told.age_s = std::chrono::duration<double>(now - rank->second.heard).count();
    if (plan != nullptr && told.parts) told.parts->stage = stage_of(*plan, told.rank);
  }
  return api::to_json(document);
}

std::vector<LiveRanks::Computing> LiveRanks::computing(const std::string& job) const {
  std::vector<Computing> all;
  for (auto rank = ranks_.lower_bound({job, 0}); rank != ranks_.end() && rank->first.first == job; ++rank) {
    const api::LiveRank& one = rank->second.activity;
    if (!one.shares || !one.step || !is_step_number(*one.step)) continue;
    const double ms = rank->second.step_seconds * one.shares->computation * 1e3;
    if (!std::isfinite(ms) || ms <= 0) continue;
    const auto measured = static_cast<std::int64_t>(std::min<std::uint64_t>(one.steps_measured, 1U << 20));
    const auto number = static_cast<std::int32_t>(std::min(rank->first.second, 1U << 30));
    all.push_back({number, one.node, ms, *one.step + 1 - measured});
  }
  return all;
}

void LiveRanks::forget_old(Nanoseconds now) {
  std::erase_if(ranks_, [now](const auto& rank) { return now - rank.second.heard > kForgottenAfter; });
}

}  // namespace trimtab::coordinator
