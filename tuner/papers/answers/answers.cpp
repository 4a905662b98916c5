#include "papers/answers/answers.hpp"

#include <algorithm>
#include <cmath>

#include "base/units.hpp"

namespace trimtab::tuner::papers {

Bytes bytes_of(double mib) {
  constexpr double kMiB = 1048576.0;
  return static_cast<Bytes>(std::llround(mib * kMiB));
}

void set_time(double iteration_ms, double communication_ms, Prediction& prediction) {
  prediction.iteration_ms = prediction.interval_low_ms = prediction.interval_high_ms = iteration_ms;
  prediction.communication_share_ms = communication_ms;
  prediction.computation_share_ms = iteration_ms - communication_ms;
}

void name_bottleneck(std::size_t stage, bool communicates, Prediction& prediction) {
  prediction.bottleneck = {static_cast<std::int32_t>(stage), communicates ? "communication" : "computation"};
}

void exceed(std::size_t stage, std::string reason, Prediction& prediction) {
  prediction.feasible = false;
  prediction.bottleneck = {static_cast<std::int32_t>(stage), "memory"};
  prediction.infeasible_reason = std::move(reason);
}

std::string excess_text(std::size_t stage, Bytes memory, Bytes limit, Bytes excess, std::string_view advice) {
  return "stage " + std::to_string(stage) + " needs " + format_bytes(memory) + ", the memory limit is " +
         format_bytes(limit) + ", " + format_bytes(excess) + " too much: " + std::string(advice);
}

std::vector<TimelineEvent> paced_timeline(const std::vector<PacedStage>& stages, std::int32_t microbatches) {
  double pace = 0;
  for (const PacedStage& stage : stages) pace = std::max(pace, stage.ms);
  std::vector<TimelineEvent> events;
  double before = 0;  // one microbatch's way through the stages before
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(stages.size()); ++s) {
    for (std::int32_t k = 0; k < microbatches; ++k) {
      double at = before + k * pace;
      const auto add = [&](EventKind kind, double ms) {
        if (ms > 0) events.push_back({s, kind, k, at, at + ms});
        at += ms;
      };
      for (const auto& [kind, ms] : stages[s].passes) add(kind, ms);
      if (k == microbatches - 1) add(EventKind::kGradientSync, stages[s].sync_ms);
    }
    before += stages[s].ms;
  }
  return events;
}

void sort_events(std::vector<TimelineEvent>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const TimelineEvent& a, const TimelineEvent& b) { return a.begin_ms < b.begin_ms; });
}

StagePrice stage_price(const StagePrediction& of) {
  StagePrice price;
  price.priced = true;
  price.forward = of.forward_ms;
  price.backward = of.backward_ms;
  price.recompute = of.recompute_ms;
  price.communication = of.exposed_communication_ms;
  price.sync = of.gradient_sync_ms;
  price.optimizer = price.after = of.optimizer_ms;
  price.last_backward = of.backward_ms + of.recompute_ms + of.gradient_sync_ms;
  price.tail = price.last_backward + of.optimizer_ms;
  price.memory_bytes = static_cast<double>(of.memory_bytes);
  return price;
}

void set_limit(double limit_bytes, StagePrice& price) {
  price.limit_bytes = limit_bytes;
  price.excess_bytes = std::max(0.0, price.memory_bytes - limit_bytes);
}

std::vector<double> computing_sums(const OperatorTable& costs, double microbatches) {
  std::vector<double> sums;
  if (costs.gaps.empty() || costs.gaps.back() > 0) return sums;
  for (std::size_t i = 0; i < costs.forward_sum.size(); ++i) {
    sums.push_back(microbatches * (costs.forward_sum[i] + costs.backward_sum[i]));
  }
  return sums;
}

void name_schedule(const Schedule& schedule, bool kind_is_priced, std::vector<std::string>& names) {
  if (!kind_is_priced) names.emplace_back("schedule.kind (only 1f1b is priced)");
  if (schedule.sliced_microbatches > 0) names.emplace_back("schedule.sliced_microbatches");
  name_sub_batches(schedule, names);
}

void name_sub_batches(const Schedule& schedule, std::vector<std::string>& names) {
  if (schedule.sub_batches > 1) names.emplace_back("schedule.sub_batches");
  if (schedule.cross_pass) names.emplace_back("schedule.cross_pass");
}

void name_late_recompute(const Schedule& schedule, std::vector<std::string>& names) {
  if (schedule.recompute_after_communication) names.emplace_back("schedule.recompute_after_communication");
}

}  // namespace trimtab::tuner::papers
