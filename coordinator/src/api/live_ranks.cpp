#include "api/live_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "agents/peer_text.hpp"
#include "schema/step_number.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {

namespace {

using nlohmann::json;

constexpr int kMostStreams = 64;
constexpr int kMostKernels = 16;
constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestClass = 64;

double number(double value) {
  return std::isfinite(value) ? value : 0;
}

LiveRank::Stream stream_of(const wire::StreamActivity& said) {
  return {said.stream(), number(said.computation()), number(said.communication()), number(said.copy())};
}

LiveRank::Kernel kernel_of(const wire::BusyKernel& said) {
  return {first_of(said.name(), kLongestName),
          first_of(said.kernel_class(), kLongestClass),
          said.collective(),
          number(said.share()),
          said.count(),
          static_cast<double>(said.mean_ns()) / 1e3};
}

LiveRank live_rank(const wire::RankActivity& said) {
  LiveRank rank{.on_device = said.on_device(),
                .steps = said.steps(),
                .step = said.step(),
                .detected = said.detected(),
                .confidence = number(said.confidence()),
                .kernels_per_step = said.kernels_per_step(),
                .steps_measured = said.steps_measured(),
                .steps_left_out = said.steps_left_out(),
                .windows = said.windows(),
                .step_seconds = number(said.step_seconds()),
                .computation = number(said.computation()),
                .exposed_communication = number(said.exposed_communication()),
                .exposed_copy = number(said.exposed_copy()),
                .idle = number(said.idle()),
                .overlapped_communication = number(said.overlapped_communication()),
                .streams = {},
                .busiest = {}};
  for (int i = 0; i < std::min(said.streams_size(), kMostStreams); ++i)
    rank.streams.push_back(stream_of(said.streams(i)));
  for (int i = 0; i < std::min(said.busiest_size(), kMostKernels); ++i)
    rank.busiest.push_back(kernel_of(said.busiest(i)));
  return rank;
}

json stream_json(const LiveRank::Stream& stream) {
  return {{"stream", stream.stream},
          {"computation", stream.computation},
          {"communication", stream.communication},
          {"copy", stream.copy}};
}

json kernel_json(const LiveRank::Kernel& kernel) {
  return {{"name", kernel.name},   {"class", kernel.kernel_class}, {"collective", kernel.collective},
          {"share", kernel.share}, {"count", kernel.count},        {"mean_us", kernel.mean_us}};
}

json rank_json(std::uint32_t number, const LiveRank& one) {
  json rank = {{"rank", number},
               {"source", one.on_device ? "kernels" : "ranges"},
               {"steps", one.steps},
               {"step_found_by", one.detected ? "period" : "ranges"},
               {"confidence", one.detected ? one.confidence : 1.0},
               {"steps_measured", one.steps_measured},
               {"steps_left_out", one.steps_left_out},
               {"windows_incomplete", one.windows}};
  if (one.step >= 0) rank["step"] = one.step;
  if (one.detected) rank["kernels_per_step"] = one.kernels_per_step;
  if (one.steps_measured > 0) {
    rank["step_ms"] = one.step_seconds * 1e3;
    rank["steps_per_second"] = one.step_seconds > 0 ? 1 / one.step_seconds : 0;
    rank["shares"] = {{"computation", one.computation},
                      {"exposed_communication", one.exposed_communication},
                      {"exposed_copy", one.exposed_copy},
                      {"idle", one.idle},
                      {"overlapped_communication", one.overlapped_communication}};
  }
  rank["streams"] = json::array();
  for (const LiveRank::Stream& stream : one.streams) rank["streams"].push_back(stream_json(stream));
  rank["busiest"] = json::array();
  for (const LiveRank::Kernel& kernel : one.busiest) rank["busiest"].push_back(kernel_json(kernel));
  return rank;
}

}  // namespace

void LiveRanks::told(const wire::RankActivity& activity, const std::string& node, Nanoseconds now) {
  if (!activity.variant().empty()) return;
  const Key key{activity.job(), activity.rank()};
  if (ranks_.size() >= kMost && !ranks_.contains(key)) return;
  ranks_[key] = {live_rank(activity), node, now};
}

std::string LiveRanks::document(const std::string& job, Nanoseconds now) const {
  json ranks = json::array();
  for (auto rank = ranks_.lower_bound({job, 0}); rank != ranks_.end() && rank->first.first == job; ++rank) {
    json one = rank_json(rank->first.second, rank->second.activity);
    one["node"] = rank->second.node;
    one["age_s"] = std::chrono::duration<double>(now - rank->second.heard).count();
    ranks.push_back(std::move(one));
  }
  // Texts come from training processes; what is no UTF-8 is replaced.
  return json{{"job", job}, {"ranks", std::move(ranks)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<LiveRanks::Computing> LiveRanks::computing(const std::string& job) const {
  std::vector<Computing> all;
  for (auto rank = ranks_.lower_bound({job, 0}); rank != ranks_.end() && rank->first.first == job; ++rank) {
    const LiveRank& one = rank->second.activity;
    const bool known = one.steps_measured > 0 && is_step_number(one.step);
    const double ms = one.step_seconds * one.computation * 1e3;
    if (!known || !std::isfinite(ms) || ms <= 0) continue;
    const auto measured = static_cast<std::int64_t>(std::min<std::uint64_t>(one.steps_measured, 1U << 20));
    const auto number = static_cast<std::int32_t>(std::min(rank->first.second, 1U << 30));
    all.push_back({number, rank->second.node, ms, one.step + 1 - measured});
  }
  return all;
}

void LiveRanks::forget_old(Nanoseconds now) {
  std::erase_if(ranks_, [now](const auto& rank) { return now - rank.second.heard > kForgottenAfter; });
}

}  // namespace trimtab::coordinator
