#include "live_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "schema/step_number.hpp"

namespace trimtab::coordinator {

namespace {

using nlohmann::json;

constexpr int kMostStreams = 64;
constexpr int kMostKernels = 16;

json stream_json(const wire::StreamActivity& stream) {
  return {{"stream", stream.stream()},
          {"computation", stream.computation()},
          {"communication", stream.communication()},
          {"copy", stream.copy()}};
}

json kernel_json(const wire::BusyKernel& kernel) {
  return {{"name", kernel.name()},
          {"class", kernel.kernel_class()},
          {"collective", kernel.collective()},
          {"share", kernel.share()},
          {"count", kernel.count()},
          {"mean_us", static_cast<double>(kernel.mean_ns()) / 1e3}};
}

json rank_json(const wire::RankActivity& one) {
  json rank = {{"rank", one.rank()},
               {"source", one.on_device() ? "kernels" : "ranges"},
               {"steps", one.steps()},
               {"step_found_by", one.detected() ? "period" : "ranges"},
               {"confidence", one.detected() ? one.confidence() : 1.0},
               {"steps_measured", one.steps_measured()},
               {"steps_left_out", one.steps_left_out()},
               {"windows_incomplete", one.windows()}};
  if (one.step() >= 0) rank["step"] = one.step();
  if (one.detected()) rank["kernels_per_step"] = one.kernels_per_step();
  if (one.steps_measured() > 0) {
    rank["step_ms"] = one.step_seconds() * 1e3;
    rank["steps_per_second"] = one.step_seconds() > 0 ? 1 / one.step_seconds() : 0;
    rank["shares"] = {{"computation", one.computation()},
                      {"exposed_communication", one.exposed_communication()},
                      {"exposed_copy", one.exposed_copy()},
                      {"idle", one.idle()},
                      {"overlapped_communication", one.overlapped_communication()}};
  }
  rank["streams"] = json::array();
  for (int i = 0; i < std::min(one.streams_size(), kMostStreams); ++i)
    rank["streams"].push_back(stream_json(one.streams(i)));
  rank["busiest"] = json::array();
  for (int i = 0; i < std::min(one.busiest_size(), kMostKernels); ++i)
    rank["busiest"].push_back(kernel_json(one.busiest(i)));
  return rank;
}

}  // namespace

void LiveRanks::told(const wire::RankActivity& activity, const std::string& node, Nanoseconds now) {
  const Key key{activity.job(), {activity.variant(), activity.rank()}};
  if (ranks_.size() >= kMost && !ranks_.contains(key)) return;
  ranks_[key] = {activity, node, now};
}

std::string LiveRanks::document(const std::string& job, Nanoseconds now) const {
  json ranks = json::array();
  for (auto rank = ranks_.lower_bound({job, {"", 0}}); rank != ranks_.end() && rank->first.first == job; ++rank) {
    if (!rank->first.second.first.empty()) continue;
    json one = rank_json(rank->second.activity);
    one["node"] = rank->second.node;
    one["age_s"] = std::chrono::duration<double>(now - rank->second.heard).count();
    ranks.push_back(std::move(one));
  }
  // Texts come from training processes; what is no UTF-8 is replaced.
  return json{{"job", job}, {"ranks", std::move(ranks)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<LiveRanks::Computing> LiveRanks::computing(const std::string& job) const {
  std::vector<Computing> all;
  for (auto rank = ranks_.lower_bound({job, {"", 0}}); rank != ranks_.end() && rank->first.first == job; ++rank) {
    const wire::RankActivity& one = rank->second.activity;
    const bool counts = is_step_number(one.step());
    const bool known = rank->first.second.first.empty() && one.steps_measured() > 0 && counts;
    const double ms = one.step_seconds() * one.computation() * 1e3;
    if (!known || !std::isfinite(ms) || ms <= 0) continue;
    const auto measured = static_cast<std::int64_t>(std::min<std::uint64_t>(one.steps_measured(), 1U << 20));
    all.push_back(
        {static_cast<std::int32_t>(std::min(one.rank(), 1U << 30)), rank->second.node, ms, one.step() + 1 - measured});
  }
  return all;
}

void LiveRanks::forget_old(Nanoseconds now) {
  std::erase_if(ranks_, [now](const auto& rank) { return now - rank.second.heard > kForgottenAfter; });
}

}  // namespace trimtab::coordinator
