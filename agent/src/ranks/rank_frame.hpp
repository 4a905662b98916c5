#pragma once

// What a training process may say on the agent's socket (docs/protocols.md), checked once at the edge: types, ranges,
// finite numbers, lengths. A frame that passes cannot be wrong later on. Pure.

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

struct HelloFrame {
  std::int64_t pid = 0;
  std::string job;  // empty where the process does not know it
  std::optional<std::uint32_t> rank;
  std::uint32_t world_size = 1;
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
  // Parts of what the process took to come here; 0 = not told.
  std::int64_t groups_ns = 0;
  std::int64_t build_ns = 0;
  // Of a job that its user launched: it has a name, a rank and a world size.
  bool watched = false;
  bool measures = false;  // between steps, what it is asked to
  std::uint32_t local_rank = 0;
  std::uint64_t launch = 1;  // as who launched it numbers them
};
struct RingFrame {
  std::int64_t pid = 0;
  std::string job;
  std::optional<std::uint32_t> rank;
  std::uint64_t launch = 0;  // 0 = it does not say
  std::string variant;
};
// A process that a scheduler has started to become a rank: the one of this place among the launch's ranks on the node.
struct SlotFrame {
  std::int64_t pid = 0;
  std::string job;
  std::uint32_t local_rank = 0;
  std::uint64_t launch = 0;
  std::string variant;
};
// The process that has a scheduler start a launch's ranks.
struct LauncherFrame {
  std::int64_t pid = 0;
  std::string job;
  std::uint64_t launch = 0;
  std::string variant;
};
// From a launcher: how its launch fares. States: docs/protocols.md, "Submitted launches".
struct SubmissionFrame {
  std::string state;
  std::string message;
  bool ended = false;
};
struct ReportFrame {
  std::string name;
  double value = 0;
};
// What the coordinator is told, too, is read into that message; a step without a loss has none that is a number.
// Facts are written anew: those that are known, as they must be.
using RankFrame =
    std::variant<HelloFrame, RingFrame, wire::Step, wire::PlanAck, wire::PlanRefuse, wire::PlanActive, wire::PlanFailed,
                 ReportFrame, wire::Bye, SlotFrame, LauncherFrame, SubmissionFrame, wire::Facts, wire::Measured>;

// The error names the field and what it must be.
[[nodiscard]] Result<RankFrame> parse_rank_frame(std::string_view json);

// Frames to the process. `plan_json` must be a JSON object.
[[nodiscard]] std::string welcome_frame(const std::string& node);
// `target_config`: the same plan as the job's target reads it, JSON; empty: there is no such thing.
[[nodiscard]] std::string plan_propose_frame(std::uint64_t epoch, const std::string& plan_json, bool incumbent,
                                             const std::string& target_config = "");
[[nodiscard]] std::string plan_commit_frame(std::uint64_t epoch, std::int64_t step);
[[nodiscard]] std::string plan_cancel_frame(std::uint64_t epoch);
[[nodiscard]] std::string stop_frame(std::int64_t step);
// `request_json` must be a JSON object.
[[nodiscard]] std::string measure_frame(std::uint64_t number, const std::string& request_json);
[[nodiscard]] std::string measure_cancel_frame(std::uint64_t number);
// To a slot: what it is to run, in an environment that is laid over its own, with its output in `log`; or why nothing.
[[nodiscard]] std::string run_frame(const std::vector<std::string>& arguments,
                                    const std::map<std::string, std::string>& environment,
                                    const std::string& working_directory, const std::string& log);
[[nodiscard]] std::string refused_frame(const std::string& message);

}  // namespace trimtab::agent
