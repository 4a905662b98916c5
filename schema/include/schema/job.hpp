#pragma once

// A job as its owner describes it. Document: job.toml (docs/protocols.md), carried as JSON between processes.
// Plain values. Paths are absolute after load_job.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "schema/own_knobs.hpp"

namespace trimtab {

enum class JobMode : std::uint8_t { kObserve, kRecommend, kApprove, kAuto };
enum class Delivery : std::uint8_t { kLive, kRestart };

[[nodiscard]] std::string_view to_string(JobMode mode);

struct Knobs {
  bool pipeline = true;
  bool uneven_stages = true;
  bool microbatch = true;
  bool data_parallel = true;
  bool recompute = true;
  // Few targets honour these.
  bool sliced_microbatches = false;
  bool tensor_parallel = false;
  bool sharded = false;      // optimizer states, gradients, parameters over replicas
  bool sub_batches = false;  // with tensor-parallel ranks: microbatches in two, one computing beside the other's sums
  bool memory_switches = false;  // of whole layers, with the optimizer on the host; over replicas with `sharded` too
  bool mixed_splits = false;     // operators of one stage are split in different ways
  bool partial_shards = false;   // with `sharded`: over some of the replicas, copied by the others (HSDP)
  // Of a whole plan.
  bool sequence_parallel = false;  // beside tensor_parallel
  bool context_parallel = false;   // several ranks share each sample's sequence
  bool interleaved = false;        // several stages on the same devices, in the interleaved 1F1B schedule

  bool operator==(const Knobs&) const = default;
};

struct KnobName {
  std::string_view name;
  bool Knobs::*knob;
};
// All of them, as documents and command lines name them.
inline constexpr KnobName kKnobs[] = {
    {"pipeline", &Knobs::pipeline},
    {"uneven_stages", &Knobs::uneven_stages},
    {"microbatch", &Knobs::microbatch},
    {"data_parallel", &Knobs::data_parallel},
    {"recompute", &Knobs::recompute},
    {"sliced_microbatches", &Knobs::sliced_microbatches},
    {"tensor_parallel", &Knobs::tensor_parallel},
    {"sharded", &Knobs::sharded},
    {"sub_batches", &Knobs::sub_batches},
    {"memory_switches", &Knobs::memory_switches},
    {"mixed_splits", &Knobs::mixed_splits},
    {"partial_shards", &Knobs::partial_shards},
    {"sequence_parallel", &Knobs::sequence_parallel},
    {"context_parallel", &Knobs::context_parallel},
    {"interleaved", &Knobs::interleaved},
};

struct TrialSettings {
  std::int32_t warmup_steps = 2;
  std::int32_t measure_steps = 5;
  std::int32_t blocks = 2;
  std::int32_t candidates = 3;
  std::int32_t max_trials = 8;
  double minimum_gain = 0.01;  // of a step's time: a plan that cannot save as much is not tried
  double overhead = 0.02;      // of the job's time: what trials may cost beyond the incumbent's steps
  Nanoseconds deadline = std::chrono::seconds(60);
  Nanoseconds look_every = std::chrono::minutes(10);  // at the hardware of a job that trains; 0 = never
  // Steps that were longer or shorter for less have met noise, and no change of the machine; 0 = a few blocks are
  // enough.
  Nanoseconds lasting = std::chrono::minutes(1);
  // For so long a live job stands still between two steps to measure again what a change of the machine has made
  // doubtful; 0 = never.
  Nanoseconds measure_again = std::chrono::seconds(2);
  bool prepare = true;      // a restarted job's next launch is begun while the one before it trains
  bool stop_after = false;  // key `after`: "continue" (default) goes on training, "stop" ends the job after tuning
  std::int32_t loss_check_steps = 30;  // steps of the untuned run whose losses are compared; only with after = "stop"
};

// A plan is given up once it has crashed more than `limit` times, counting the crashes after which less than `within`
// has passed or fewer than `within_steps` steps were trained.
struct CrashSettings {
  std::int32_t limit = 3;
  Nanoseconds within = std::chrono::hours(1);
  std::int64_t within_steps = 200;
};

struct Job {
  std::string name;  // also its id: [A-Za-z0-9._-]{1,64}
  JobMode mode = JobMode::kObserve;
  Delivery delivery = Delivery::kLive;
  std::int32_t world_size = 1;
  Bytes memory_limit = 0;  // per device; 0 = the device's own
  std::int64_t steps = 0;
  bool elastic = false;         // goes on with fewer ranks when a node is lost for good, and with more when one joins
  bool share_devices = false;   // runs on devices that other jobs have, too
  bool near_costs = true;       // costs of near hardware are taken over where a few probes confirm them
  bool allow_restarts = false;  // delivery "restart": it may be stopped for a trial
  std::string target;       // schema/target.hpp; empty = the job reads plan.json and says by its knobs what it honours
  std::string strategy;     // the tuner's, that searches its plans; empty = the usual one
  std::string checkpoint;   // where the job saves and resumes; only with delivery "restart"
  Nanoseconds walltime{0};  // from the job's begin; 0 = no end
  // Ranks that are silent for longer outside of trials count as hung; an evaluation or a save takes less.
  Nanoseconds hang = std::chrono::minutes(30);
  std::string change_class = "rounding";
  std::string initial_plan_json;  // the document's text; empty = the usual guess
  std::string model_json;         // empty = ask `describe`
  std::string working_directory;
  std::vector<std::string> describe;
  std::vector<std::string> benchmark;
  std::vector<std::string> train;
  // Hands a launch to a scheduler, which starts the ranks; empty = agents start them. Once a launch, beside rank 0.
  std::vector<std::string> submit;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string>
      software;  // what the job runs on, by name: {"nccl", "2.28.9"}; part of fingerprints
  Knobs knobs;
  std::vector<OwnKnob> own_knobs;
  TrialSettings trials;
  CrashSettings crashes;
};

// Parses job.toml; `directory` is where relative paths start. Reads nothing else: `initial_plan` and `model` files are
// given back as paths in the two out-fields of the result, for the caller to read.
struct ParsedJob {
  Job job;
  std::string initial_plan_path;
  std::string model_path;
};
[[nodiscard]] Result<ParsedJob> parse_job_toml(std::string_view toml, std::string_view source,
                                               const std::string& directory);
// Reads the file and the files that it names.
[[nodiscard]] Result<Job> load_job(const std::string& path);

[[nodiscard]] std::string to_json(const Job& job);
// The keys of the jobs' JSON that differ, "steps" or "trials.blocks", in the order of the alphabet; none = the same
// job.
[[nodiscard]] std::vector<std::string> differing_keys(const Job& first, const Job& second);
[[nodiscard]] Result<Job> parse_job(std::string_view json, std::string_view source);

}  // namespace trimtab
