#pragma once

// What can happen to a job: the inputs of the tuning machine. Plain values, already checked at the edge.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "schema/prediction.hpp"
#include "tuning/change/change_phases.hpp"
#include "tuning/hardware/diagnosis.hpp"
#include "tuning/hardware/doubtful.hpp"
#include "tuning/hardware/link_faults.hpp"
#include "tuning/hardware/measured_again.hpp"
#include "tuning/launch/step_assembly.hpp"
#include "tuning/launch/submission.hpp"
#include "tuning/search/near_state.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/trial/term_parts.hpp"

namespace trimtab::coordinator {

struct Moment {
  Nanoseconds monotonic{0};
  Nanoseconds wall{0};
};

[[nodiscard]] inline double milliseconds(Nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// A node's share of a job: consecutive ranks.
struct NodeShare {
  std::string node;
  std::int32_t first_rank = 0;
  std::int32_t ranks = 1;
  bool operator==(const NodeShare&) const = default;
};

struct Tick {};

// Enough devices are there.
struct NodesReady {
  std::vector<NodeShare> nodes;
  ClusterText cluster;
  std::string fingerprint;  // hash, of what costs are measured on: the first node's
};

struct CommandFinished {
  std::string tag;
  bool ok = true;
  std::string error;
  std::string output;
  bool killed = false;     // a process of it was ended by a signal from outside
  double prepared_ms = 0;  // of its node: what preparing launches took, since the last one was launched
};
struct CommandMoved {
  std::string tag;
  std::int32_t done = 0;
  std::int32_t total = 0;
  std::string what;
};

// Which of the costs that the job's plans need are known. `requests` are benchmark request documents for the others.
struct CostsCounted {
  std::int32_t known = 0;
  std::int32_t missing = 0;
  std::vector<std::string> requests;
  std::vector<std::int32_t> request_sizes;  // costs that each request fills
  std::string missing_names;                // a few of them, for people
  std::string error;                        // the model does not parse, the database does not answer
  // By node of another fingerprint: how fast it computes beside what the costs are of, by its own.
  std::map<std::string, double> speeds = {};
  NearCounted near = {};
  std::int32_t launches_missing = 0;  // of `missing`: launches whose passes are known
  std::int32_t launches_untold = 0;   // such ones, beside `missing`, that the benchmark has not told with probes
};

struct SearchFinished {
  std::uint64_t number = 0;
  SearchReply reply;
};

struct HardwareProbed {
  std::vector<Probe> probes;
  std::string error;           // why there are none
  std::string plan_hash = {};  // that ran; empty = the incumbent
  std::vector<LinkFault> faults = {};
  [[nodiscard]] bool failed() const { return !error.empty() || probes.empty(); }
};

// What has become doubtful, as ListDoubtful has asked.
struct DoubtfulListed {
  Doubtful doubtful;
  std::string error;  // why nobody knows
};

struct RankConnected {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
  // Parts of what the process took until then; 0 = not told.
  double groups_ms = 0;
  double build_ms = 0;
};
// What a rank spent in its operators' passes (tuner/calibration.hpp) in one step under the plan of an epoch.
struct RankPasses {
  std::uint64_t epoch = 0;
  double ms = 0;
  std::optional<StepTerms> terms = std::nullopt;  // of the whole step
  TermParts parts = {};                           // of those
};
struct RankAcknowledged {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
};
struct RankRefused {
  std::uint64_t epoch = 0;
  std::string reason;
  std::string message;
};
struct RankActive {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
  Nanoseconds switch_time{0};
  ChangePhases phases = {};
};
struct RankFailed {
  std::uint64_t epoch = 0;
  std::string reason;
  std::string message;
};
struct RankExited {
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::string last_output;  // lines
  std::string log = {};     // on its node; empty: its agent does not say
};
// For people: "rank 1 was ended by signal 9 (its log: n0:/var/…/rank-1.log)".
[[nodiscard]] std::string describe_end(std::int32_t rank, const RankExited& exited, const std::string& node);
struct RankSaidBye {
  std::int64_t step = 0;
};
// How the launch fares in a scheduler's hands; told as of rank 0.
struct RankSubmission {
  SubmissionState state = SubmissionState::kQueued;
  std::string message;
};
// A silent rank does something, as its agent sees. None of it says that it trains.
struct RankLives {
  bool output = false;
  bool records = false;    // ranges, kernels or collectives
  bool processor = false;  // a rank that hangs may take it, too: collectives wait by looking
};
// What a trial's copy of the checkpoint takes on the rank's node, as its agent says.
struct CopyPrice {
  std::int64_t files = 0;
  Bytes bytes = 0;
  double ms = 0;        // an estimate
  bool shared = false;  // nothing is written
  std::string store;    // the object store that the checkpoint is in; empty: in none
  std::string refused;  // why no trial may copy it; empty: one may
};
// The job's checkpoint on the rank's node is being written, or has become whole.
struct RankSaved {
  bool whole = false;
  std::optional<CopyPrice> copy = {};  // of one that is whole; nothing: its agent does not say
  std::string restless = {};           // the file that changed last, where none became whole in a minute of changes
};
using RankNews = std::variant<RankConnected, RankStep, RankPasses, RankAcknowledged, RankRefused, RankActive,
                              RankFailed, RankExited, RankSaidBye, RankSubmission, RankLives, RankSaved, RankMeasured>;
struct FromRank {
  std::int32_t rank = 0;
  std::uint64_t launch = 0;
  RankNews news;
};

// A rank of a watched job, as the agent of its node tells: this process is it.
struct RankWatched {
  std::string node;
  std::string fingerprint;  // hash, of the node
  std::int32_t rank = 0;
  std::uint64_t launch = 1;  // as its user's launcher counts them
  std::int32_t world_size = 1;
};
// A watched job's next run has begun: this one is over.
struct RunReplaced {};

struct RankThere {
  std::int32_t rank = 0;
  std::uint64_t launch = 0;
  std::uint64_t epoch = 0;  // 0 = the agent does not know
  bool of_job = false;      // of a launch of the job itself, as the agent says
};
struct NodeLost {
  std::string node;
};
// Also after a short absence that nobody called a loss.
struct NodeBack {
  std::string node;
  std::vector<RankThere> ranks;  // of this job
  std::uint64_t launch = 0;      // the job's latest there, over or not
  // What it is now; an empty fingerprint: not said.
  std::string fingerprint = {};  // hash
  std::int32_t devices = 0;
  std::int64_t memory_bytes = 0;  // per device
};

// There are nodes beyond the job's, which could be its ranks' again: how it would be placed on all of them.
struct NodesOffered {
  std::vector<NodeShare> nodes;  // the job's first, as they are
  ClusterText cluster;
  std::string joined;                           // the others' names
  std::map<std::int32_t, double> slow_devices;  // of the others, beside the job's own
  std::string remark;
  std::string refusal;  // why the job cannot run on them; empty = it can
};

// The nodes, of all there are, whose kill switch is thrown; and what holds the job besides.
struct KillSwitches {
  std::set<std::string> nodes;
  std::string site = {};  // what it asks for beyond the site's policy, in words; empty = nothing
  bool operator==(const KillSwitches&) const = default;
};

// kOwnPlan: the job goes back to the plan that it began with, and is frozen.
enum class Order { kApprove, kFreeze, kUnfreeze, kStop, kResume, kOwnPlan };

using Event = std::variant<Tick, NodesReady, CommandFinished, CommandMoved, CostsCounted, SearchFinished,
                           HardwareProbed, DoubtfulListed, FromRank, NodeLost, NodeBack, NodesOffered, KillSwitches,
                           Order, RankWatched, RunReplaced>;

}  // namespace trimtab::coordinator
