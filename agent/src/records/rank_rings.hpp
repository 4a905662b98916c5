#pragma once

// The record rings that training processes have handed over: drained a little and often, folded into costs and into
// what each rank does right now; traces are taken from them on the way. Loop thread only.

#include <set>

#include "costs/collective_samples.hpp"
#include "node/disturbance.hpp"
#include "records/activity_fold.hpp"
#include "records/range_fold.hpp"
#include "records/step_passes.hpp"
#include "records/step_timeline.hpp"
#include "records/trace_recorder.hpp"

namespace trimtab::agent {

class RankRings final {
 public:
  // What rings that are read may take of memory.
  struct Limits {
    Bytes of_process = kMostRingBytes;  // all rings of one process
    Bytes of_all = Bytes{256} << 20;
  };

  // `clock` must outlive it.
  RankRings(const Clock& clock, const Limits& limits) : clock_(clock), limits_(limits) {}

  // Called within drain() when a process has completed the step that its epoch is pictured by.
  std::function<void(net::LocalPeerId, const StepPicture&)> on_picture;
  // … when what it spent in its operators in a step is known.
  std::function<void(net::LocalPeerId, const TimedStep&)> on_passes;

  // What is drained goes to its traces, too. Must outlive the rings, or be nullptr.
  void trace_with(TraceRecorder* recorder) { traces_ = recorder; }

  // Takes over `descriptor`. `owner` is where the costs belong, `rank` whose process it is, where that is known.
  // Refused, and counted, where `process` (as the kernel says; 0 = not known) has kMostOfProcess rings that are still
  // read, at kMost, and where the ring does not fit into what the limits leave.
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kMostOfProcess = 4;
  [[nodiscard]] Status attach(net::LocalPeerId peer, int descriptor, CostOwner owner, std::optional<RankIdentity> rank,
                              pid_t process = 0);
  // Whose the process is, known only now. What was folded before stays with the former owner.
  void belongs_to(net::LocalPeerId peer, CostOwner owner, RankIdentity rank);
  // What the process runs in `epoch`; `now` where it does already.
  void set_context(net::LocalPeerId peer, std::uint64_t epoch, const FoldContext& context, bool now);
  // The connection has ended: what is left is drained, then the ring goes.
  void producer_ended(net::LocalPeerId peer);

  // To be called ten times a second. Takes some 60 ms at most, whatever is in the rings: what is left then comes first
  // the next time. Where it took longer all the same, the next calls do nothing until that is made up for.
  void drain();
  // What was folded since the last call. What the node's disturbance meanwhile has made longer is told apart.
  void take(CostCollection& into, const Disturbance& disturbance = {});
  // What was taken is stored: an agent that is killed from now on has not lost it.
  void kept();
  // What each rank does now; of a rank with several processes the one that trains. Counts "since it was last asked".
  [[nodiscard]] std::map<RankIdentity, RankActivity> activities();
  // Ranges, kernels and collectives that each rank's rings have given.
  [[nodiscard]] std::map<RankIdentity, std::uint64_t> events() const;
  // The rings of a job's ranks.
  [[nodiscard]] std::vector<TraceRecorder::Ring> rings_of(const std::string& job) const;
  // Every kernel of the process until then, whatever it costs (RingReader::ask_full_detail).
  void ask_full_detail(net::LocalPeerId peer, std::uint64_t until_ns);

  // One rank's sample of its collectives since the last call; ranks that nobody knows have none.
  struct RankCollectives {
    CostOwner owner;
    std::uint32_t rank = 0;
    std::vector<CollectiveStamp> stamps;
  };
  void take_collectives(const std::function<void(const RankCollectives&)>& sink);

  struct Counters {
    std::uint64_t collectives = 0;
    std::uint64_t collectives_fused = 0;
    std::uint64_t collectives_unfit = 0;
    std::uint64_t records = 0;
    std::uint64_t skipped = 0;
    std::uint64_t malformed = 0;
    std::uint64_t dropped = 0;  // by the producers
    std::uint64_t names_dropped = 0;
    std::uint64_t untracked = 0;
    std::uint64_t lost = 0;  // read by an agent that was killed before it had stored what they say
    std::uint64_t broken_rings = 0;
    std::uint64_t refused_rings = 0;
    // Of what ran on devices.
    std::uint64_t kernels = 0;
    std::uint64_t collectives_folded = 0;
    std::uint64_t unattributed = 0;  // kernels of passes that were dropped, and joins that made room for newer ones
    std::uint64_t crowded = 0;       // passes for which there was no room to wait for their kernels
    std::uint64_t windows = 0;
    std::uint64_t late = 0;
    // Of slowdowns under overlap.
    std::uint64_t overlaps = 0;          // kernels and collectives that ran alone or clearly beside something
    std::uint64_t overlaps_unclear = 0;  // beside several things, or beside one for a short time only
    std::uint64_t overlaps_refused = 0;  // outliers, and those of pairs for which there was no room
    std::uint64_t slowdowns = 0;         // values
    std::uint64_t slowdowns_unsure = 0;  // values that did not become sure
  };
  // Of all rings that are or were read.
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] std::size_t size() const { return rings_.size(); }
  // Those that have handed over the rings, as far as they are known.
  [[nodiscard]] std::set<pid_t> processes() const;
  [[nodiscard]] Bytes bytes() const;  // of all rings that are read
  void append_metrics(std::vector<net::Metric>& into) const;

 private:
  struct Ring {
    std::unique_ptr<RingReader> reader;
    std::unique_ptr<RangeFold> fold;
    StepTimeline timeline;
    StepPasses passes;
    CostOwner owner;
    std::optional<RankIdentity> rank;
    pid_t process = 0;
    CollectiveSamples collectives;
    CollectiveSamples transfers{record::kP2p};
    std::vector<CollectiveStamp> judged_later;  // kernels that ran beside them may still come
    std::unique_ptr<ActivityFold> activity;
    std::map<std::string, ClockDifference, std::less<>> gpu_clocks = {};  // by communicator: each may be on another GPU
    std::optional<ClockDifference::Offset> gpu_offset = {};               // of the latest collective
    std::map<std::uint32_t, RangeRecord> threads = {};                    // the latest kThreadName of each
    std::map<std::uint16_t, RangeRecord> devices = {};                    // the latest kDevice of each
    std::uint64_t drained_ns = 0;                                         // CLOCK_REALTIME, when it was last read
    Nanoseconds kernels_taken{0};
    std::uint64_t events = 0;
    std::size_t news = 0;  // pictures and passes that were told in this drain
    bool gone = false;
  };
  [[nodiscard]] Status check_room(pid_t process) const;
  // Bytes that a further ring of the process may have.
  [[nodiscard]] Bytes room(pid_t process) const;
  // The ring behind this one, the first behind the last.
  [[nodiscard]] std::map<net::LocalPeerId, Ring>::iterator behind(net::LocalPeerId peer);
  void drain(net::LocalPeerId peer, Ring& ring, Nanoseconds until);
  void end(net::LocalPeerId peer, Ring& ring);
  // False, and counted, for a ring that has more news than a job can have.
  [[nodiscard]] bool may_tell(Ring& ring);
  void take_in(net::LocalPeerId peer, Ring& ring, std::span<const RangeRecord> records);
  [[nodiscard]] std::span<const RangeRecord> credible(Ring& ring, std::span<const RangeRecord> records);
  static void compare_clocks(Ring& ring, const RangeRecord& record);
  [[nodiscard]] static std::optional<ClockDifference::Offset> gpu_ahead(const Ring& ring, const RangeRecord& record);
  static void put_on_host_clock(Ring& ring, RangeRecord& record, const ClockDifference::Offset& ahead);
  // What its folds have counted.
  [[nodiscard]] static Counters counted(const Ring& ring);
  void note_loss(Ring& ring, const RingDrain& drained);
  void fold_activity(net::LocalPeerId peer, Ring& ring);
  void collect(Ring& ring, bool ended);
  void collect_collectives(Ring& ring, bool last);
  [[nodiscard]] static std::vector<CollectiveStamp> judged(Ring& ring, std::vector<CollectiveStamp> stamps, bool last);

  const Clock& clock_;
  const Limits limits_;
  std::map<net::LocalPeerId, Ring> rings_;
  net::LocalPeerId drained_last_ = 0;
  Nanoseconds rests_until_{0};
  CostCollection collected_;                  // of rings that have gone
  std::vector<RankCollectives> collectives_;  // likewise
  std::vector<RangeRecord> credible_;         // of the batch at hand
  TraceRecorder* traces_ = nullptr;
  Counters counters_;  // of drained records, and of the folds of rings that have gone
};

}  // namespace trimtab::agent
