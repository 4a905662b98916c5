#pragma once

// What a job's ranks do right now, from the coordinator's JSON, and as a page for people. Missing fields keep their
// defaults. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::cli {

struct BusyKernel {
  std::string name;
  std::string kernel_class;
  bool collective = false;
  double share = 0;  // of the time since the last look
  std::int64_t count = 0;
  double mean_us = 0;
};

// Shares of a step's time in which the stream (on a CPU job: the thread) was busy.
struct LiveStream {
  std::int64_t stream = 0;
  double computation = 0;
  double communication = 0;
  double copy = 0;
};

struct LiveRank {
  std::int64_t rank = 0;
  std::string node;
  std::string source;  // "kernels" or "ranges"
  std::string step_found_by;
  double confidence = 1;
  std::optional<std::int64_t> step;
  std::int64_t steps = 0;
  std::int64_t steps_measured = 0;  // 0 = the rest of what follows is not known
  std::int64_t steps_left_out = 0;
  double step_ms = 0;
  double steps_per_second = 0;
  double computation = 0;
  double exposed_communication = 0;
  double exposed_copy = 0;
  double idle = 0;
  double overlapped_communication = 0;
  // Of the time since the last look: receives from the stages beside this one, which mostly wait for them to compute
  // (the pipeline's bubble). On a device NCCL's kernel for sends and receives. It is a part of the communication,
  // exposed or not, and no part of `idle`. Missing: among the busiest there is none.
  std::optional<double> receiving;
  double age_s = 0;
  std::vector<LiveStream> streams;
  std::vector<BusyKernel> busiest;
};

[[nodiscard]] Result<std::vector<LiveRank>> parse_live_ranks(std::string_view json);
// A table of ranks, one of their streams, the busiest of each rank first, and the kernels and collectives that take
// longest.
[[nodiscard]] std::string describe(const std::vector<LiveRank>& ranks);

}  // namespace trimtab::cli
