#pragma once

// Folds all of a rank's records that say what its device did: kernels, copies, graphs, collectives, and the ranges that
// launched them. Out of it come operators' device times, kernels' times by signature, slowdowns under overlap, and the
// shares of a step. A job that records no kernel is a job on the host: its ranges take the kernels' place for the
// shares. Memory does not depend on how many records come. Pure. Single-threaded.
//
// Steps end where the job's `step` ranges end; where it has none, where the period of its kernels says (StepPeriod),
// or, without kernels, that of its collectives.

#include "base/clock_difference.hpp"
#include "costs/communication_keys.hpp"
#include "costs/overlap_regression.hpp"
#include "costs/overlap_watch.hpp"
#include "kernels/kernel_attribution.hpp"
#include "kernels/kernel_signatures.hpp"
#include "kernels/launch_ranges.hpp"
#include "records/step_period.hpp"
#include "records/step_shares.hpp"

namespace trimtab::agent {

// Of the latest steps' time: what exposed communication was for, and what idling was for. Nothing = the records do not
// tell.
struct PartShares {
  std::optional<double> collectives;   // of tensor parallelism, and changes of layout
  std::optional<double> gradients;     // and what is sharded
  std::optional<double> transfers;     // with another stage; without `bubble` where that is known
  std::optional<double> bubble;        // waiting for the other stage
  std::optional<double> launch_bound;  // idle: the host had not handed out yet what came next
  std::optional<double> data;          // idle: the host waited for the next batch
};

// What one rank does right now, for people who watch it and for metrics. A plain value.
struct RankActivity {
  bool on_device = false;            // from kernels; else from the job's own ranges
  std::uint64_t steps = 0;           // since the process began
  std::optional<std::int64_t> step;  // the latest number, where the job says it
  bool detected = false;             // steps were found by their period
  double confidence = 0;             // of that, 0 ... 1
  std::uint64_t kernels_per_step = 0;
  // Means over the latest steps that were recorded whole; 0 steps_measured: not known.
  std::uint64_t steps_measured = 0;
  double step_seconds = 0;
  double steps_per_second = 0;
  // Of the step's time. The first four add up to 1.
  double computation = 0;
  double exposed_communication = 0;
  double exposed_copy = 0;
  double idle = 0;
  double overlapped_communication = 0;
  PartShares parts;
  std::vector<StreamShares> streams;  // of the latest step
  double stream_seconds = 0;          // that step's time
  std::vector<BusyKernel> busiest;    // since it was last asked
  double busiest_seconds = 0;         // device time since then
  std::uint64_t steps_left_out = 0;   // not recorded whole, interrupted, or too late
  std::uint64_t windows = 0;          // in which not all was recorded
  CollectorFacts collector;           // what its collectors cost and lose
  std::optional<ClockDifference::Offset>
      gpu_clock;                                 // of the latest collective's GPU, where NCCL's plugin has compared it
  std::map<std::uint16_t, std::string> devices;  // UUIDs, by the numbers that the process gives its devices
};

struct ActivityOptions {
  // How late a record may come: a long kWindow is published in pieces of five seconds, and must be known before.
  std::uint64_t device_settle_ns = 6'500'000'000;
  std::uint64_t host_settle_ns = 4'000'000'000;  // a range comes when it ends: longer than any of the job's
  AttributionOptions attribution = {};
  PeriodOptions period = {};
  OverlapOptions overlap = {};
};

class ActivityFold final {
 public:
  explicit ActivityFold(ActivityOptions options = {});

  void add(const RangeRecord& record);
  // Records of that time are missing for another reason than the collector's own (the ring was full).
  void lost(std::uint64_t begin_ns, std::uint64_t end_ns) { lost_.add(begin_ns, end_ns); }
  // Folds what has settled; to be called now and then.
  void settle();
  // The rank has ended: folds all that is left.
  void finish();

  // The job's work runs on a device, though none of its records has said so. What the ranges said until now was the
  // host's time.
  void device_seen();
  // True from the first record of a device on, or since device_seen(): ranges then measure the host only. There are no
  // shares until a kernel, copy or graph has been recorded: collectives alone do not say what the device did.
  [[nodiscard]] bool on_device() const { return on_device_; }
  // Passes whose kernels are complete, since the last call.
  template <typename Sink>
  void take_passes(const Sink& sink) {
    attribution_.take(sink, finished_);
  }
  // What ran beside a pass that was taken: communication, or nothing. A pass's own collectives count, too, so it says
  // nothing of operators that have some.
  [[nodiscard]] CostSource::Beside beside(const PassTime& pass);
  // What ran beside one of NCCL's collectives or transfers, by the host's clock. kNotSaid where kernels were not all
  // recorded then; nothing yet where kernels may still come that tell it.
  [[nodiscard]] std::optional<CostSource::Beside> beside_communication(std::uint64_t begin_ns, std::uint64_t end_ns);
  // Since the last call: kernels by signature, and slowdowns. A job has some hundred signatures, and they change
  // little: to be taken less often than other costs.
  [[nodiscard]] std::vector<Cost> take_kernels() { return on_device_ ? signatures_.take() : std::vector<Cost>(); }
  [[nodiscard]] std::vector<Cost> take_slowdowns();
  [[nodiscard]] RankActivity activity();
  // The ends of the steps that were found by their period, not named by the job, since the last call; they are known as
  // late as records settle. Of very many the oldest are forgotten.
  template <typename Sink>
  void take_found_steps(const Sink& sink) {
    for (; !found_steps_.empty(); found_steps_.pop_front()) sink(found_steps_.front());
  }

  // The steps that were shared out on a device, since the last call.
  [[nodiscard]] std::vector<StepShares> take_shares() { return std::exchange(shared_, {}); }
  // No step that ended by then will be shared out any more.
  [[nodiscard]] std::uint64_t shared_until() const { return sweep_.now_ns(); }
  // The job says when it waits for the next batch.
  [[nodiscard]] bool tells_data() const { return tells_data_; }

  struct Counters {
    std::uint64_t kernels = 0;
    std::uint64_t copies = 0;
    std::uint64_t collectives = 0;
    std::uint64_t left_out = 0;  // steps
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const AttributionCounters& attribution() const { return attribution_.counters(); }
  [[nodiscard]] const OverlapWatchCounters& watched() const { return watch_.counters(); }
  [[nodiscard]] const OverlapCounters& overlaps() const { return regression_.counters(); }
  [[nodiscard]] const LostWindows& windows() const { return lost_; }
  [[nodiscard]] std::uint64_t late() const { return late_ + order_.late(); }

 private:
  struct StepRange {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
    bool begun = false;  // the sweep began it
  };
  struct SeenCollective {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
    std::uint32_t key;
    std::uint64_t uncertainty_ns;
    std::optional<LaunchRanges::Transfer> transfer;
  };
  struct Lane {
    std::uint32_t stream;
    std::uint64_t computations;
  };

  void add_range(const RangeRecord& record);
  void add_kernel(const RangeRecord& record);
  void add_copy(const RangeRecord& record);
  void add_collective(const RangeRecord& record);
  [[nodiscard]] static std::uint64_t common_ns(const SeenCollective& seen, const DeviceInterval& interval);
  void remember_collective(const SeenCollective& seen);
  void put(const DeviceInterval& interval);
  void clock_set_back();
  void fold(DeviceInterval interval);
  void end_steps_before(std::uint64_t now_ns);
  void follow_period(const DeviceInterval& interval);
  [[nodiscard]] bool leads(const DeviceInterval& interval);
  void end_step(std::uint64_t end_ns);
  [[nodiscard]] SweptCommunication swept(const DeviceInterval& interval, std::uint32_t range);
  [[nodiscard]] PartShares part_shares(double length) const;
  [[nodiscard]] const SeenCollective* seen_with(const DeviceInterval& interval);
  [[nodiscard]] std::uint32_t communication_of(const DeviceInterval& interval);
  void watch(const DeviceInterval& interval);
  void regress(const OverlapSeen& seen);
  [[nodiscard]] bool prices_a_plan(const OverlapSeen& seen) const;
  [[nodiscard]] std::uint32_t cost_of(const CostKey& key);
  [[nodiscard]] CostKey overlap_key(CostKind kind, const CommunicationKey& communication) const;

  ActivityOptions options_;
  Counters counters_;
  bool on_device_ = false;
  bool blind_ = true;  // no kernel, copy or graph was recorded
  bool finished_ = false;
  LostWindows lost_;
  KernelSignatures signatures_;
  CommunicationKeys communications_;
  KernelAttribution attribution_;
  HostIntervals host_;
  IntervalOrder order_;
  std::uint64_t late_ = 0;  // of the host's intervals, once a device is seen
  StepSweep sweep_;
  LaunchRanges ranges_;
  WireTimes wires_;
  bool tells_data_ = false;  // the job says when it waits for the next batch
  OverlapWatch watch_;
  OverlapRegression regression_;
  std::vector<CostKey> overlap_keys_ = std::vector<CostKey>(1);  // number 0: there was no room
  std::map<CostKey, std::uint32_t> overlap_numbers_;
  std::deque<SeenCollective> collectives_;
  CommunicationTimes communicated_;  // on the device
  ComputingSpans computed_;
  bool collective_kernels_ = false;  // NCCL's kernels are recorded: kCollective only says what they were

  // Steps.
  std::deque<StepRange> step_ranges_;  // that ended later than what has been folded
  bool annotated_ = false;
  bool sweeping_ = false;  // a step's beginning is known
  StepPeriod period_;
  std::vector<Lane> lanes_;
  std::uint32_t lane_ = 0;
  std::uint64_t computations_ = 0;
  std::uint64_t steps_ = 0;
  std::deque<std::uint64_t> found_steps_;
  std::optional<std::int64_t> step_;
  std::deque<StepShares> latest_;
  std::vector<StepShares> shared_;  // of them, since they were last taken
  std::uint64_t first_ns_ = 0;      // of what was folded since activity() was last asked
  std::uint64_t newest_ns_ = 0;
};

}  // namespace trimtab::agent
