#include "records/activity_report.hpp"

namespace trimtab::agent {

namespace {

double part(std::uint64_t nanoseconds, double of_seconds) {
  return of_seconds > 0 ? static_cast<double>(nanoseconds) / 1e9 / of_seconds : 0;
}

struct Share {
  std::string_view name;
  double RankActivity::*value;
};
constexpr Share kShares[] = {{"computation", &RankActivity::computation},
                             {"exposed_communication", &RankActivity::exposed_communication},
                             {"exposed_copy", &RankActivity::exposed_copy},
                             {"idle", &RankActivity::idle},
                             {"overlapped_communication", &RankActivity::overlapped_communication}};

struct StreamShare {
  std::string_view name;
  std::uint64_t StreamShares::*value;
};
constexpr StreamShare kStreamShares[] = {{"computation", &StreamShares::computation_ns},
                                         {"communication", &StreamShares::communication_ns},
                                         {"copy", &StreamShares::copy_ns}};
// Series are kept for ever by who scrapes them: of a rank with very many streams those with the smallest numbers.
constexpr std::size_t kMostStreams = 16;

std::vector<StreamShares> first_streams(const RankActivity& activity) {
  std::vector<StreamShares> streams = activity.streams;
  std::ranges::sort(streams, {}, &StreamShares::stream);
  streams.resize(std::min(streams.size(), kMostStreams));
  return streams;
}

std::string labels_of(const RankIdentity& id, std::string_view share = {}) {
  std::string labels = "{job=\"" + net::label_value(id.job) + "\"";
  if (!id.variant.empty()) labels += ",variant=\"" + net::label_value(id.variant) + "\"";
  labels += ",rank=\"" + std::to_string(id.rank) + "\"";
  if (!share.empty()) labels += ",share=\"" + std::string(share) + "\"";
  return labels + "}";
}

void set_parts(const PartShares& parts, wire::ActivityParts& message) {
  if (parts.collectives) message.set_collectives(*parts.collectives);
  if (parts.gradients) message.set_gradients(*parts.gradients);
  if (parts.transfers) message.set_transfers(*parts.transfers);
  if (parts.bubble) message.set_bubble(*parts.bubble);
  if (parts.launch_bound) message.set_launch_bound(*parts.launch_bound);
  if (parts.data) message.set_data(*parts.data);
}

}  // namespace

wire::RankActivity to_wire(const RankIdentity& id, const RankActivity& activity) {
  wire::RankActivity message;
  message.set_job(id.job);
  message.set_rank(id.rank);
  message.set_variant(id.variant);
  message.set_on_device(activity.on_device);
  message.set_steps(activity.steps);
  message.set_step(activity.step.value_or(-1));
  message.set_detected(activity.detected);
  message.set_confidence(activity.confidence);
  message.set_kernels_per_step(activity.kernels_per_step);
  message.set_steps_measured(activity.steps_measured);
  message.set_step_seconds(activity.step_seconds);
  message.set_computation(activity.computation);
  message.set_exposed_communication(activity.exposed_communication);
  message.set_exposed_copy(activity.exposed_copy);
  message.set_idle(activity.idle);
  message.set_overlapped_communication(activity.overlapped_communication);
  message.set_steps_left_out(activity.steps_left_out);
  message.set_windows(activity.windows);
  message.set_unknown_cupti(activity.collector.cupti_state == record::kCuptiTooNew);
  if (activity.on_device && activity.steps_measured > 0) set_parts(activity.parts, *message.mutable_parts());
  for (const StreamShares& stream : activity.streams) {
    auto& told = *message.add_streams();
    told.set_stream(stream.stream);
    told.set_computation(part(stream.computation_ns, activity.stream_seconds));
    told.set_communication(part(stream.communication_ns, activity.stream_seconds));
    told.set_copy(part(stream.copy_ns, activity.stream_seconds));
  }
  for (const BusyKernel& kernel : activity.busiest) {
    auto& told = *message.add_busiest();
    told.set_name(kernel.name);
    told.set_kernel_class(std::string(to_string(kernel.kernel_class)));
    told.set_collective(kernel.collective);
    told.set_share(part(kernel.total_ns, activity.busiest_seconds));
    told.set_count(kernel.count);
    told.set_mean_ns(kernel.total_ns / std::max<std::uint64_t>(1, kernel.count));
  }
  return message;
}

void add_step_times(const std::map<RankIdentity, net::Histogram>& times, std::vector<net::Metric>& into) {
  for (const auto& [id, histogram] : times) {
    histogram.append(into, "trimtab_rank_step_duration_seconds", "Time of a rank's steps, as it says.", labels_of(id));
  }
}

void add_activity_metrics(const std::map<RankIdentity, RankActivity>& activities, std::vector<net::Metric>& into) {
  const auto add = [&](const char* name, bool is_counter, const char* help, const auto& value_of) {
    for (const auto& [id, activity] : activities) {
      into.push_back({name, is_counter, help, static_cast<double>(value_of(activity)), labels_of(id)});
    }
  };
  add("trimtab_rank_steps_total", true, "Steps that a rank ended, as its ranges or its kernels' period say.",
      [](const RankActivity& one) { return one.steps; });
  add("trimtab_rank_steps_left_out_total", true, "Steps that were not recorded whole and are in no share.",
      [](const RankActivity& one) { return one.steps_left_out; });
  add("trimtab_rank_step_seconds", false, "The latest steps' mean time.",
      [](const RankActivity& one) { return one.step_seconds; });
  add("trimtab_rank_step_confidence", false, "1, or less where steps were found by their period.",
      [](const RankActivity& one) { return one.detected ? one.confidence : 1.0; });
  add("trimtab_rank_collector_detail", false, "0 nothing, 1 collectives, 2 kernels in samples, 3 every kernel.",
      [](const RankActivity& one) { return one.collector.detail; });
  add("trimtab_rank_collector_cost_seconds_total", true, "Time that collecting took from the job.",
      [](const RankActivity& one) { return one.collector.cost_seconds; });
  add("trimtab_rank_collector_budget_ratio", false, "Share of its time that collecting may cost.",
      [](const RankActivity& one) { return one.collector.budget; });
  add("trimtab_rank_cupti_state", false, "0 no CUDA, 1 running, else why CUPTI records nothing.",
      [](const RankActivity& one) { return one.collector.cupti_state; });
  add("trimtab_rank_cupti_lost_stamps_total", true, "CUPTI's records without usable times.",
      [](const RankActivity& one) { return one.collector.lost_stamps; });
  add("trimtab_rank_cupti_records_dropped_total", true, "Records that CUPTI had no buffer for.",
      [](const RankActivity& one) { return one.collector.cupti_dropped; });
  for (const auto& [id, activity] : activities) {
    for (const auto& [number, uuid] : activity.devices) {
      std::string labels = labels_of(id);
      labels.insert(labels.size() - 1,
                    ",device=\"" + std::to_string(number) + "\",uuid=\"" + net::label_value(uuid) + "\"");
      into.push_back({"trimtab_rank_device_info", false, "1 for each device of a rank, by the rank's own number.", 1,
                      std::move(labels)});
    }
  }
  const auto add_clock = [&](const char* name, const char* help, const auto& ns_of) {
    for (const auto& [id, activity] : activities) {
      if (!activity.gpu_clock) continue;
      into.push_back({name, false, help, static_cast<double>(ns_of(*activity.gpu_clock)) * 1e-9, labels_of(id)});
    }
  };
  add_clock("trimtab_rank_gpu_clock_offset_seconds", "How far the GPU's clock is ahead of the host's.",
            [](const ClockDifference::Offset& offset) { return offset.ns; });
  add_clock("trimtab_rank_gpu_clock_uncertainty_seconds", "The true offset lies within this, either way.",
            [](const ClockDifference::Offset& offset) { return offset.uncertainty_ns; });
  for (const auto& [id, activity] : activities) {
    for (const Share& share : kShares) {
      into.push_back({"trimtab_rank_step_share", false, "Parts of the latest steps' time.", activity.*share.value,
                      labels_of(id, share.name)});
    }
  }
  for (const auto& [id, activity] : activities) {
    for (const StreamShares& stream : first_streams(activity)) {
      for (const StreamShare& share : kStreamShares) {
        std::string labels = labels_of(id, share.name);
        labels.insert(labels.size() - 1, ",stream=\"" + std::to_string(stream.stream) + "\"");
        into.push_back({"trimtab_rank_stream_share", false, "Parts of the latest step in which a stream was busy.",
                        part(stream.*share.value, activity.stream_seconds), std::move(labels)});
      }
    }
  }
}

}  // namespace trimtab::agent
