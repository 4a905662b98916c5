#pragma once

// What a job's ranks do right now (GET /v1/jobs/NAME/live). Shares are of a step's time, or of the time since the last
// look where it says so.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/api/fields.hpp"

namespace trimtab::api {

struct LiveShares {
  double computation = 0;
  double exposed_communication = 0;
  double exposed_copy = 0;
  double idle = 0;
  double overlapped_communication = 0;

  static constexpr void fields(auto&& visit) {
    visit("computation", &LiveShares::computation, Presence::kUsual, "");
    visit("exposed_communication", &LiveShares::exposed_communication, Presence::kUsual, "");
    visit("exposed_copy", &LiveShares::exposed_copy, Presence::kUsual, "");
    visit("idle", &LiveShares::idle, Presence::kUsual, "");
    visit("overlapped_communication", &LiveShares::overlapped_communication, Presence::kUsual, "");
  }
};

// What exposed communication and idling were for, as a device's records tell: shares of a step's time, each where it is
// known.
struct LiveParts {
  std::optional<std::int64_t> stage;
  std::optional<double> collectives;
  std::optional<double> gradients;
  std::optional<double> transfers;
  std::optional<double> bubble;
  std::optional<double> launch_bound;
  std::optional<double> data;

  static constexpr void fields(auto&& visit) {
    visit("stage", &LiveParts::stage, Presence::kIfAny, "Of the plan that runs; of a rank that has one.");
    visit("collectives", &LiveParts::collectives, Presence::kIfAny, "Of tensor parallelism, and changes of layout.");
    visit("gradients", &LiveParts::gradients, Presence::kIfAny, "Their sums, and what is sharded.");
    visit("transfers", &LiveParts::transfers, Presence::kIfAny,
          "Between stages; with the bubble where that is not known.");
    visit("bubble", &LiveParts::bubble, Presence::kIfAny, "A transfer waited for the other stage.");
    visit("launch_bound", &LiveParts::launch_bound, Presence::kIfAny, "Idle: the host handed work out too late.");
    visit("data", &LiveParts::data, Presence::kIfAny, "Idle: the host waited for the next batch.");
  }
};

// Shares of a step's time in which the stream (on a CPU job: the thread) was busy.
struct LiveStream {
  std::int64_t stream = 0;
  double computation = 0;
  double communication = 0;
  double copy = 0;

  static constexpr void fields(auto&& visit) {
    visit("stream", &LiveStream::stream, Presence::kUsual, "");
    visit("computation", &LiveStream::computation, Presence::kUsual, "");
    visit("communication", &LiveStream::communication, Presence::kUsual, "");
    visit("copy", &LiveStream::copy, Presence::kUsual, "");
  }
};

struct BusyKernel {
  std::string name;
  std::string kernel_class;
  bool collective = false;
  double share = 0;
  std::uint64_t count = 0;
  double mean_us = 0;

  static constexpr void fields(auto&& visit) {
    visit("name", &BusyKernel::name, Presence::kUsual, "");
    visit("class", &BusyKernel::kernel_class, Presence::kUsual, "");
    visit("collective", &BusyKernel::collective, Presence::kUsual, "");
    visit("share", &BusyKernel::share, Presence::kUsual, "Of the time since the last look.");
    visit("count", &BusyKernel::count, Presence::kUsual, "");
    visit("mean_us", &BusyKernel::mean_us, Presence::kUsual, "");
  }
};

// Without measured steps neither their time nor shares are known.
struct LiveRank {
  std::int64_t rank = 0;
  std::string node;
  double age_s = 0;
  std::string source;
  std::uint64_t steps = 0;
  std::optional<std::int64_t> step;
  std::string step_found_by;
  double confidence = 1;
  std::optional<std::uint64_t> kernels_per_step;
  std::uint64_t steps_measured = 0;
  std::uint64_t steps_left_out = 0;
  std::uint64_t windows_incomplete = 0;
  std::optional<double> step_ms;
  std::optional<double> steps_per_second;
  std::optional<LiveShares> shares;
  std::optional<LiveParts> parts;
  std::vector<LiveStream> streams;
  std::vector<BusyKernel> busiest;

  static constexpr void fields(auto&& visit) {
    visit("rank", &LiveRank::rank, Presence::kUsual, "");
    visit("node", &LiveRank::node, Presence::kUsual, "");
    visit("age_s", &LiveRank::age_s, Presence::kUsual, "Since its agent told.");
    visit("source", &LiveRank::source, Presence::kUsual, "\"kernels\" or \"ranges\".");
    visit("steps", &LiveRank::steps, Presence::kUsual, "That were seen.");
    visit("step", &LiveRank::step, Presence::kIfAny, "The latest number.");
    visit("step_found_by", &LiveRank::step_found_by, Presence::kUsual, "\"ranges\" or \"period\".");
    visit("confidence", &LiveRank::confidence, Presence::kUsual, "Of a period, up to 1.");
    visit("kernels_per_step", &LiveRank::kernels_per_step, Presence::kIfAny, "Of a period.");
    visit("steps_measured", &LiveRank::steps_measured, Presence::kUsual, "That the shares are of.");
    visit("steps_left_out", &LiveRank::steps_left_out, Presence::kUsual, "");
    visit("windows_incomplete", &LiveRank::windows_incomplete, Presence::kUsual, "");
    visit("step_ms", &LiveRank::step_ms, Presence::kIfAny, "");
    visit("steps_per_second", &LiveRank::steps_per_second, Presence::kIfAny, "");
    visit("shares", &LiveRank::shares, Presence::kIfAny, "");
    visit("parts", &LiveRank::parts, Presence::kIfAny, "Of the exposed communication and the idling.");
    visit("streams", &LiveRank::streams, Presence::kUsual, "");
    visit("busiest", &LiveRank::busiest, Presence::kUsual, "");
  }
};

struct LiveJob {
  std::string job;
  std::vector<LiveRank> ranks;

  static constexpr void fields(auto&& visit) {
    visit("job", &LiveJob::job, Presence::kUsual, "");
    visit("ranks", &LiveJob::ranks, Presence::kNeeded, "By number.");
  }
};

}  // namespace trimtab::api
