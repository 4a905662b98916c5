#pragma once

// Folds a rank's records into statistics by cost key (docs/protocols.md, "Ranges"). Pure: no I/O, no clock. Memory is
// bounded by max_keys, however the job names its ranges. Single-threaded.
//
// A rank's ranges measure the job as it runs, and their costs say under which condition (schema/cost_source.hpp):
// communication includes waiting for late peers; passes of operators that ran beside another thread's communication are
// kept apart from those that ran alone; the forward pass of a recomputed operator, which records no graph, is a range.
//
// Where work runs on a device, a range measures how long the host took to ask for it. From on_device() on, ranges of
// operators and of communication are folded by their names, and operators' costs come from add_device_time().

#include <limits>
#include <unordered_map>

#include "kernels/time_spans.hpp"
#include "records/ring_reader.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::agent {

// Passes of a host's operators that wait until it is known whether another thread's communication ran beside them: a
// range is published when it ends, and an all-reduce may end long after the pass that it slowed down. Bounded: beyond
// kMostPasses the older half is told by what is known then. Pure. Single-threaded.
class HeldPasses final {
 public:
  static constexpr std::size_t kMostPasses = 16384;

  // Where a pass's duration goes. Both must outlive the pass.
  struct Into {
    Statistics* alone = nullptr;
    Statistics* beside = nullptr;
  };

  void pass(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread, Into into);
  void communication(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread) {
    communications_.add(begin_ns, end_ns, thread);
  }
  // Passes of the step before are told now.
  void step_ended(std::uint64_t end_ns) { tell_until(std::exchange(step_end_ns_, end_ns)); }
  // Tells what had ended by then, for jobs that name no steps.
  void release_before(std::uint64_t ns) { tell_until(ns); }
  // Tells all.
  void release() { tell_until(std::numeric_limits<std::uint64_t>::max()); }

 private:
  struct Pass {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint32_t thread = 0;
    Into into;
  };
  void tell_until(std::uint64_t end_ns);

  std::vector<Pass> passes_;  // as they ended
  CommunicationTimes communications_;
  std::uint64_t step_end_ns_ = 0;
};

struct OperatorContext {
  std::string cost_key;
  std::int32_t tp = 1;
  std::string sharding = "default";
  bool recomputed = false;
  bool operator==(const OperatorContext&) const = default;
};

// What is known of a rank in one epoch.
struct FoldContext {
  std::string dtype;
  std::string plan_hash;  // subject of the step times
  std::string placement = "intra_node";
  std::map<std::string, OperatorContext, std::less<>> operators;  // by name; those of this rank's stages
  bool operator==(const FoldContext&) const = default;
};

// For the rank on `device` of the plan. A plan that does not fit the model gives what can be said: ranges of operators
// that are not in the context are folded by their names.
[[nodiscard]] FoldContext fold_context(const Model& model, const Plan& plan, std::int32_t device);

struct FoldOptions {
  std::uint64_t warmup = 2;     // occurrences of each key that are left out after an epoch began
  std::size_t max_keys = 4096;  // of statistics, and of distinct range names
  // For so long after the first range of work (an import takes longer than that), what operators and communication took
  // is held back: only the first kernel tells whether ranges measure the work itself or the host that hands it to a
  // device, and kernels are told later.
  std::uint64_t device_grace_ns = 0;
};

struct FoldCounters {
  std::uint64_t folded = 0;
  std::uint64_t warmup = 0;        // left out because the epoch had just begun
  std::uint64_t unterminated = 0;  // left out because their durations mean nothing
  std::uint64_t not_ranges = 0;    // marks and thread names
  std::uint64_t overflow = 0;      // left out because there are max_keys already
};

// Whole training steps of one epoch.
struct StepFold {
  std::int64_t epoch = 0;
  std::uint64_t count = 0;           // warm-up included
  std::optional<std::int64_t> last;  // the latest step number
  Statistics duration_ns;            // warm-up left out
};

class RangeFold final {
 public:
  explicit RangeFold(FoldOptions options = {});
  ~RangeFold();
  RangeFold(const RangeFold&) = delete;
  RangeFold& operator=(const RangeFold&) = delete;

  // Says what the rank will be from `epoch` on. Known contexts come into force by begin_epoch() or by the job's own
  // `switch` range with that epoch, which stands at the right place among the records. The latest few epochs are kept.
  void set_context(std::int64_t epoch, FoldContext context);
  // Warm-up begins again; the steps are counted anew. Nothing happens when the epoch is in force already.
  void begin_epoch(std::int64_t epoch);

  void add(const RangeRecord& record);
  // The job's work runs on a device. What operators and communication took until now was the host's time and goes, but
  // for what has been taken already.
  void on_device();
  // One pass of an operator took so long on the device; `beside`: kNothing or kCommunication where that is known.
  void add_device_time(const RangeRecord& pass, std::uint64_t device_ns,
                       CostSource::Beside beside = CostSource::Beside::kNotSaid);

  // What has been folded since the last take(), sorted by key; keys without a value are left out. A host's passes come
  // when the step after theirs has ended: only then is it known what ran beside them. `all` = also what is held back:
  // the rank has ended.
  [[nodiscard]] std::vector<Cost> take(bool all = false);
  [[nodiscard]] const StepFold& steps() const { return steps_; }
  [[nodiscard]] const FoldCounters& counters() const { return counters_; }

 private:
  struct Entry;
  struct Rule;
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Rules = std::unordered_map<std::string, std::unique_ptr<Rule>, TextHash, std::equal_to<>>;

  [[nodiscard]] Rule* rule_for(const RangeRecord& record);
  [[nodiscard]] Rule* rule_in(Rules& rules, const RangeRecord& record, bool host_only);
  [[nodiscard]] Entry* entry_for(Rule& rule, const RangeRecord& record);
  [[nodiscard]] const FoldContext& context() const;
  void fold(Rule& rule, const RangeRecord& record, std::int64_t duration_ns, CostSource::Beside beside);
  void add_value(const Rule& rule, Entry& entry, const RangeRecord& record, std::int64_t duration_ns,
                 CostSource::Beside beside);
  void add_step(const RangeRecord& record);
  void forget_rules();

  FoldOptions options_;
  FoldCounters counters_;
  std::map<std::int64_t, FoldContext> contexts_;
  std::int64_t epoch_ = 0;
  StepFold steps_;
  std::map<std::string, Rules, std::less<>>
      domains_;         // rules by domain, then by name; forgotten when the epoch changes
  Rules device_rules_;  // of operators' passes by name, for add_device_time()
  std::size_t rules_ = 0;
  bool on_device_ = false;
  std::uint64_t first_work_ns_ = 0;  // of operators, communication and transfers
  std::uint64_t newest_ns_ = 0;
  using Place = std::pair<CostKey, CostSource>;
  std::map<Place, std::unique_ptr<Entry>> entries_;  // never removed: a key's warm-up outlives take()
  HeldPasses held_;
};

}  // namespace trimtab::agent
