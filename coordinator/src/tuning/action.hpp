#pragma once

// What the tuning machine wants done: its outputs. Whoever carries them out has persisted the machine's state before.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tuning/event.hpp"
#include "tuning/trial/failure_reason.hpp"

namespace trimtab::coordinator {

// A command has a tag that names it within its job; the same tag asked twice is the same command.
struct DescribeOn {
  std::string tag;
  std::string node;
};
struct BenchmarkOn {
  std::string tag;
  std::string node;
  std::vector<std::uint32_t> ranks;
  std::string requests_json;
  std::string rendezvous;  // a name, the same for all ranks of it
};
struct LaunchOn {
  std::string tag;
  std::string node;
  std::vector<std::uint32_t> ranks;
  std::string plan_json;
  std::string rendezvous;
  std::uint64_t launch = 0;
  std::uint64_t epoch = 0;
  bool fresh = false;
  std::string variant;
  std::int64_t steps = 0;        // 0 = the job's own
  std::vector<NodeShare> nodes;  // of all ranks, in their order, for the node that submits them to a scheduler
};
struct KillOn {
  std::string tag;
  std::string node;
  std::uint64_t launch = 0;
  std::string variant;
  bool unsaved = false;  // at once: what the ranks would save before they end must not be
};

// To every node of the job.
struct ProposePlan {
  std::uint64_t epoch = 0;
  std::string plan_json;
  bool incumbent = false;  // taken though a kill switch is thrown
};
struct CommitPlan {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
};
struct CancelPlan {
  std::uint64_t epoch = 0;
};
struct StopRanks {
  std::int64_t step = 0;
};

struct CountCosts {};
// What a search is for: the job as it runs, one node fewer, or nodes that have joined.
enum class SearchFor { kJob, kSpare, kMoreNodes, kSlowerHardware };
// Tuning::search_task() has what to search; the answer is a SearchFinished of this number.
struct SearchPlans {
  std::uint64_t number = 0;
  SearchFor purpose = SearchFor::kJob;
};
// As many takes tell a change from others' work on a busy machine (docs/protocols.md, "When the machine changes").
inline constexpr int kProbeTakes = 3;
// Beside the running job: every device and link does a fixed piece of work, and what ranks computed in their steps
// since `since_step` is told. The answer is HardwareProbed.
struct ProbeHardware {
  std::int64_t since_step = 0;
  std::string plan_hash = {};  // that they run
  bool urgent = false;         // somebody waits for it; else steps are waited for longer
  bool computing = true;       // also what ranks computed in their steps
  int takes = 1;               // one after the other, as far as time allows; the answer is the middle one
};
// Which costs changes of the hardware have made doubtful: search_task() has the changes. The answer is DoubtfulListed.
struct ListDoubtful {};
// To every node of the job: its ranks measure between two of their steps what is requested, all or none. The answers
// are RankMeasured. Without a request: they need not any more.
struct MeasureAgain {
  std::uint64_t number = 0;
  std::string request_json;
};
// Facts for this and later jobs.
struct RememberCalibration {
  std::string json;
};
// The hardware as it is while the job's costs hold.
struct RememberProbes {
  std::string json;
};
struct RememberFailure {
  std::string plan_hash;
  Reason reason;
};
using Action = std::variant<DescribeOn, BenchmarkOn, LaunchOn, KillOn, ProposePlan, CommitPlan, CancelPlan, StopRanks,
                            CountCosts, SearchPlans, ProbeHardware, ListDoubtful, MeasureAgain, RememberCalibration,
                            RememberProbes, RememberFailure>;

// For people: what happened. Stored as the job's event list.
struct Note {
  std::string kind;  // "phase", "trial", "plan", "ranks", "warning", "result"
  std::string text;
  std::string data_json = "{}";
};

// What the machine decided, for the audit log.
struct Decision {
  std::string what;
  std::string why;
};

// A step of a measured block, for the record.
struct MeasuredStep {
  std::uint64_t launch = 0;
  std::int64_t step = 0;
  std::uint64_t epoch = 0;
  std::int32_t trial = 0;   // 0 = none: initial measurement or final comparison
  std::int32_t block = -1;  // -1 = not in a block
  bool warmup = false;
  double wall_ms = 0;
  double loss = 0;
};

}  // namespace trimtab::coordinator
