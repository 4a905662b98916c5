#include "records/rank_rings.hpp"
#include "node/agent_metric.hpp"

#include <spdlog/spdlog.h>

#include <iterator>

namespace trimtab::agent {

namespace {

// A ring that fills faster than this for long drops records, and the producers count them; the loop stays answerable.
constexpr std::size_t kRecordsPerDrain = 64 * 1024;
// Of all rings together: records can be made so that folding them takes long.
constexpr Nanoseconds kDrainTime = std::chrono::milliseconds(60);
constexpr int kRestForExcess = 2;
// A process changes plan in seconds, not many times between two drains.
constexpr std::size_t kMostNews = 8;
constexpr std::uint64_t kBrokenSaid = 20;  // in the log; all are counted
constexpr std::size_t kMostThreadNames = 256;
constexpr std::size_t kMostDevices = 64;
// Records of kernels are published so much later than the kernels ran: what is dropped now ran as long ago as that.
constexpr std::uint64_t kPublishedLateNs = 3'000'000'000;
// A record that ends later than now by more than this is wrong, and all true ones would come too late after it.
constexpr std::uint64_t kClocksDifferNs = 60'000'000'000;
// CUPTI's buffers come about each second, the first one later.
constexpr std::uint64_t kDeviceGraceNs = 10'000'000'000;

constexpr Nanoseconds kKernelsPeriod = std::chrono::seconds(30);
constexpr std::size_t kMostGpuClocks = 512;  // as many communicators as a process's plugin follows

// Times are a GPU's.
bool is_nccl(const RangeRecord& record) {
  return record.kind >= record::kCollective && record.kind <= record::kClock;
}

// Something that the process did, and not what its collector or its clocks tell of themselves.
bool is_event(const RangeRecord& record) {
  return record.kind <= record::kMark || (record.kind >= record::kKernel && record.kind <= record::kGraph) ||
         record.kind == record::kCollective || record.kind == record::kP2p;
}

// What the device computed beside a communication; a clock that is not sure enough of it says nothing.
std::optional<CostSource::Beside> beside_of(ActivityFold& activity, const CollectiveStamp& stamp) {
  const std::uint64_t length = stamp.end_ns - stamp.begin_ns;
  if (!stamp.gpu_ahead || stamp.gpu_ahead->uncertainty_ns > length / 10) return CostSource::Beside::kNotSaid;
  const std::uint64_t begin = stamp.begin_ns - static_cast<std::uint64_t>(stamp.gpu_ahead->ns);
  return activity.beside_communication(begin, begin + length);
}

FoldOptions fold_options() {
  FoldOptions options;
  options.device_grace_ns = kDeviceGraceNs;
  return options;
}

using C = RankRings::Counters;
constexpr CounterMetric<C> kCounters[] = {
    {"records", "Records read from rings.", &C::records},
    {"records_dropped", "Records that found their ring full.", &C::dropped},
    {"records_skipped", "Records that were claimed and never published.", &C::skipped},
    {"records_malformed", "Records that made no sense.", &C::malformed},
    {"record_names_dropped", "Range names that found their table full.", &C::names_dropped},
    {"ranges_untracked", "Ranges nested too deep to follow.", &C::untracked},
    {"records_lost", "Records that an agent had read, and not stored, when it was killed.", &C::lost},
    {"rings_broken", "Rings that were given up.", &C::broken_rings},
    {"rings_refused", "Rings that were not taken: too many, too large, or no rings.", &C::refused_rings},
    {"collectives", "Collectives read from rings.", &C::collectives},
    {"collectives_fused", "Of those, run together with others: their times are not their own.", &C::collectives_fused},
    {"collectives_unfit", "Of those, without a communicator, a function or a second rank.", &C::collectives_unfit},
    {"kernels", "Kernels and graph launches that were folded.", &C::kernels},
    {"collectives_folded", "Collectives of NCCL's plugin that went into shares and slowdowns.", &C::collectives_folded},
    {"passes_unattributed", "Operators' passes and launches whose kernels could not be joined.", &C::unattributed},
    {"passes_crowded",
     "Operators' passes for which there was no room to wait for their kernels: others stand for them.", &C::crowded},
    {"windows_incomplete", "Stretches in which not all kernels were recorded.", &C::windows},
    {"intervals_late", "Kernels whose records came too late for the shares.", &C::late},
    {"overlaps", "Kernels and collectives that ran alone, or clearly beside something.", &C::overlaps},
    {"overlaps_unclear", "Those that ran beside several things, or beside one for a short time only.",
     &C::overlaps_unclear},
    {"overlaps_refused", "Those that took too long to be explained, or for which there was no room.",
     &C::overlaps_refused},
    {"slowdowns", "Values of slowdowns under overlap.", &C::slowdowns},
    {"slowdowns_unsure", "Values that did not become sure and were dropped.", &C::slowdowns_unsure}};

void add(C& to, const C& more) {
  for (const auto& one : kCounters) to.*one.value += more.*one.value;
}

}  // namespace

// A ring's folds take some megabytes, and a process that ends leaves its ring to be read to the end.
Status RankRings::check_room(pid_t process) const {
  const auto same = [process](const auto& entry) { return process != 0 && entry.second.process == process; };
  if (static_cast<std::size_t>(std::ranges::count_if(rings_, same)) >= kMostOfProcess) {
    return bad_input("a process hands over one ring, but " + std::to_string(kMostOfProcess) + " of this one are read");
  }
  if (rings_.size() < kMost) return {};
  return unavailable("this agent reads " + std::to_string(kMost) + " rings already; the process is not measured");
}

Bytes RankRings::room(pid_t process) const {
  Bytes of_process = limits_.of_process;
  for (const auto& [peer, ring] : rings_) {
    if (process != 0 && ring.process == process) of_process -= ring.reader->bytes();
  }
  return std::max<Bytes>(0, std::min(of_process, limits_.of_all - bytes()));
}

std::set<pid_t> RankRings::processes() const {
  std::set<pid_t> processes;
  for (const auto& [peer, ring] : rings_) {
    if (ring.process != 0) processes.insert(ring.process);
  }
  return processes;
}

std::map<RankIdentity, std::uint64_t> RankRings::events() const {
  std::map<RankIdentity, std::uint64_t> events;
  for (const auto& [peer, ring] : rings_) {
    if (ring.rank) events[*ring.rank] += ring.events;
  }
  return events;
}

Bytes RankRings::bytes() const {
  Bytes sum = 0;
  for (const auto& [peer, ring] : rings_) sum += ring.reader->bytes();
  return sum;
}

Status RankRings::attach(net::LocalPeerId peer, int descriptor, CostOwner owner, std::optional<RankIdentity> rank,
                         pid_t process) {
  const Status admitted = check_room(process);
  auto reader = RingReader::attach(descriptor, clock_, {.most_bytes = admitted.ok() ? room(process) : 0});
  if (!admitted.ok() || !reader.ok()) ++counters_.refused_rings;
  TRIMTAB_TRY_STATUS(admitted);
  if (!reader.ok()) return std::move(reader).error();
  counters_.lost += (*reader)->lost_before();
  Ring& ring = rings_[peer] = {};
  ring.reader = std::move(reader).value();
  ring.fold = std::make_unique<RangeFold>(fold_options());
  ring.owner = std::move(owner);
  ring.rank = std::move(rank);
  ring.process = process;
  ring.activity = std::make_unique<ActivityFold>();
  ring.kernels_taken = clock_.monotonic();
  ring.drained_ns = static_cast<std::uint64_t>(clock_.wall().count());
  return {};
}

void RankRings::belongs_to(net::LocalPeerId peer, CostOwner owner, RankIdentity rank) {
  const auto found = rings_.find(peer);
  if (found == rings_.end()) return;
  collect(found->second, false);
  collect_collectives(found->second, false);
  found->second.owner = std::move(owner);
  found->second.rank = std::move(rank);
}

void RankRings::set_context(net::LocalPeerId peer, std::uint64_t epoch, const FoldContext& context, bool now) {
  const auto found = rings_.find(peer);
  if (found == rings_.end()) return;
  found->second.fold->set_context(static_cast<std::int64_t>(epoch), context);
  if (!now) return;
  found->second.fold->begin_epoch(static_cast<std::int64_t>(epoch));
  found->second.timeline.begin_epoch(epoch);
  found->second.passes.begin_epoch(epoch);
}

void RankRings::producer_ended(net::LocalPeerId peer) {
  const auto found = rings_.find(peer);
  if (found != rings_.end()) found->second.reader->producer_ended();
}

void RankRings::drain() {
  const Nanoseconds begun = clock_.monotonic();
  if (begun < rests_until_) return;
  const Nanoseconds until = begun + kDrainTime;
  const std::size_t count = rings_.size();
  for (std::size_t i = 0; i < count && clock_.monotonic() <= until; ++i) {
    const auto entry = behind(drained_last_);
    drained_last_ = entry->first;
    Ring& ring = entry->second;
    drain(entry->first, ring, until);
    if (!ring.gone && !ring.reader->finished()) continue;
    end(entry->first, ring);
    rings_.erase(entry);
  }
  const Nanoseconds now = clock_.monotonic();
  if (now > until) rests_until_ = now + (now - until) * kRestForExcess;
}

std::map<net::LocalPeerId, RankRings::Ring>::iterator RankRings::behind(net::LocalPeerId peer) {
  const auto next = rings_.upper_bound(peer);
  return next == rings_.end() ? rings_.begin() : next;
}

void RankRings::end(net::LocalPeerId peer, Ring& ring) {
  if (traces_ != nullptr) traces_->ring_ended(peer);
  collect(ring, true);
  collect_collectives(ring, true);
  add(counters_, counted(ring));
}

void RankRings::drain(net::LocalPeerId peer, Ring& ring, Nanoseconds until) {
  ring.news = 0;
  const RingDrain drained = ring.reader->drain(
      kRecordsPerDrain, [&](std::span<const RangeRecord> records) { take_in(peer, ring, records); }, until);
  note_loss(ring, drained);
  if (traces_ != nullptr && drained.dropped > 0) traces_->dropped(peer, drained.dropped);
  fold_activity(peer, ring);
  counters_.records += drained.records;
  counters_.skipped += drained.skipped;
  counters_.malformed += drained.malformed;
  counters_.dropped += drained.dropped;
  counters_.names_dropped += drained.names_dropped;
  counters_.untracked += drained.untracked;
  if (!drained.broken) return;
  ring.gone = true;
  if (++counters_.broken_rings > kBrokenSaid) return;
  spdlog::warn("the record ring of process {} is broken and was given up", ring.reader->pid());
}

// Each is a message to the coordinator: a process that makes them up must not fill the link.
bool RankRings::may_tell(Ring& ring) {
  if (++ring.news <= kMostNews) return true;
  ++counters_.malformed;
  return false;
}

void RankRings::take_in(net::LocalPeerId peer, Ring& ring, std::span<const RangeRecord> batch) {
  ring.events += static_cast<std::uint64_t>(std::ranges::count_if(batch, is_event));
  const std::span<const RangeRecord> records = credible(ring, batch);
  for (const RangeRecord& record : records) {
    if (record.kind <= record::kThreadName) {
      ring.fold->add(record);
      ring.passes.add(record);
      const auto picture = ring.timeline.add(record);
      if (picture && on_picture && may_tell(ring)) on_picture(peer, *picture);
    }
    if (record.kind == record::kRangesLeftOut) ring.passes.ranges_left_out(record.end_ns);
    ring.activity->add(record);
    const bool names = record.kind == record::kThreadName;
    if (names && (ring.threads.size() < kMostThreadNames || ring.threads.contains(record.thread))) {
      ring.threads[record.thread] = record;
    }
    const bool device = record.kind == record::kDevice;
    if (device && (ring.devices.size() < kMostDevices || ring.devices.contains(record.depth))) {
      ring.devices[record.depth] = record;
    }
  }
  if (traces_ != nullptr) traces_->records(peer, records);
}

// The batch by the host's clock, without what cannot be. The join over ranks gets the GPUs' own stamps, and how far
// their clocks are ahead.
std::span<const RangeRecord> RankRings::credible(Ring& ring, std::span<const RangeRecord> records) {
  const std::uint64_t latest_ns = static_cast<std::uint64_t>(clock_.wall().count()) + kClocksDifferNs;
  const auto usual = [=](const RangeRecord& record) { return !is_nccl(record) && record.end_ns <= latest_ns; };
  if (std::ranges::all_of(records, usual)) return records;
  credible_.clear();
  for (RangeRecord record : records) {
    if (record.kind == record::kClock) {
      compare_clocks(ring, record);
      continue;
    }
    if (is_nccl(record)) {
      const auto ahead = gpu_ahead(ring, record);
      ring.collectives.add(record, ahead);
      ring.transfers.add(record, ahead);
      if (ahead) put_on_host_clock(ring, record, *ahead);
    }
    if (record.end_ns <= latest_ns) {
      credible_.push_back(record);
    } else {
      ++counters_.malformed;
    }
  }
  return credible_;
}

void RankRings::compare_clocks(Ring& ring, const RangeRecord& record) {
  auto known = ring.gpu_clocks.find(record.domain);
  if (known == ring.gpu_clocks.end() && ring.gpu_clocks.size() < kMostGpuClocks) {
    known = ring.gpu_clocks.emplace(std::string(record.domain), ClockDifference()).first;
  }
  if (known == ring.gpu_clocks.end() || record.detail[0] > record::kReadBefore) return;
  known->second.add(record.begin_ns, record.payload, record.detail[0] == record::kReadAfter);
}

std::optional<ClockDifference::Offset> RankRings::gpu_ahead(const Ring& ring, const RangeRecord& record) {
  const auto known = ring.gpu_clocks.find(record.domain);
  return known == ring.gpu_clocks.end() ? std::nullopt : known->second.at(record.begin_ns);
}

void RankRings::put_on_host_clock(Ring& ring, RangeRecord& record, const ClockDifference::Offset& ahead) {
  const std::uint64_t length = record.end_ns - record.begin_ns;
  record.begin_ns -= static_cast<std::uint64_t>(ahead.ns);
  record.end_ns = record.begin_ns + length;
  record.uncertainty_ns = ahead.uncertainty_ns;
  ring.gpu_offset = ahead;
}

void RankRings::note_loss(Ring& ring, const RingDrain& drained) {
  const auto now = static_cast<std::uint64_t>(clock_.wall().count());
  if (drained.dropped > 0 || drained.skipped > 0) {
    const std::uint64_t since = std::min(now, ring.drained_ns);
    ring.activity->lost(since > kPublishedLateNs ? since - kPublishedLateNs : 0, now);
  }
  ring.drained_ns = now;
}

void RankRings::fold_activity(net::LocalPeerId peer, Ring& ring) {
  ring.activity->settle();
  if (ring.reader->device_unseen()) ring.activity->device_seen();
  if (ring.activity->on_device()) ring.fold->on_device();
  if (ring.reader->device_begun()) ring.passes.on_device();
  ring.activity->take_passes([&](const PassTime& pass) {
    ring.fold->add_device_time(pass.range, pass.device_ns, ring.activity->beside(pass));
    ring.passes.add_device_time(pass.range, pass.device_ns);
  });
  for (const StepShares& shares : ring.activity->take_shares()) {
    ring.passes.add_shares(shares, ring.activity->tells_data());
  }
  for (const TimedStep& step : ring.passes.take(ring.activity->shared_until())) {
    if (on_passes && may_tell(ring)) on_passes(peer, step);
  }
  // Steps that the job names are in its records; those that were found are told here.
  ring.activity->take_found_steps([&](std::uint64_t end_ns) {
    if (traces_ != nullptr) traces_->step_found(peer, end_ns);
  });
}

RankRings::Counters RankRings::counted(const Ring& ring) {
  const ActivityFold& activity = *ring.activity;
  const AttributionCounters& attribution = activity.attribution();
  const OverlapWatchCounters& watched = activity.watched();
  const OverlapCounters& overlaps = activity.overlaps();
  const CollectiveSamples::Counters& collectives = ring.collectives.counters();
  Counters now;
  now.collectives = collectives.seen;
  now.collectives_fused = collectives.fused;
  now.collectives_unfit = collectives.unfit;
  now.kernels = activity.counters().kernels;
  now.collectives_folded = activity.counters().collectives;
  now.unattributed = attribution.incomplete + attribution.windowed + attribution.evicted;
  now.crowded = attribution.crowded;
  now.windows = activity.windows().added();
  now.late = activity.late();
  now.overlaps = watched.alone + watched.beside;
  now.overlaps_unclear = watched.slight + watched.mixed + watched.crowded;
  now.overlaps_refused = overlaps.outliers + overlaps.overflow;
  now.slowdowns = overlaps.blocks;
  now.slowdowns_unsure = overlaps.undecided;
  return now;
}

RankRings::Counters RankRings::counters() const {
  Counters all = counters_;
  for (const auto& [peer, ring] : rings_) add(all, counted(ring));
  return all;
}

void RankRings::collect(Ring& ring, bool ended) {
  if (ended) {
    ring.activity->finish();
    ring.activity->take_passes([&](const PassTime& pass) {
      ring.fold->add_device_time(pass.range, pass.device_ns, ring.activity->beside(pass));
    });
  }
  collected_.add(ring.owner, ring.fold->take(ended));
  collected_.add(ring.owner, ring.activity->take_slowdowns());
  const Nanoseconds now = clock_.monotonic();
  if (!ended && now - ring.kernels_taken < kKernelsPeriod) return;
  ring.kernels_taken = now;
  collected_.add(ring.owner, ring.activity->take_kernels());
}

std::map<RankIdentity, RankActivity> RankRings::activities() {
  std::map<RankIdentity, RankActivity> all;
  for (auto& [peer, ring] : rings_) {
    if (!ring.rank) continue;
    RankActivity activity = ring.activity->activity();
    activity.collector = ring.reader->collector();
    activity.gpu_clock = ring.gpu_offset;
    for (const auto& [number, record] : ring.devices) activity.devices[number] = record.name;
    const auto known = all.find(*ring.rank);
    if (known == all.end()) {
      all.emplace(*ring.rank, std::move(activity));
    } else if (activity.steps > known->second.steps) {
      known->second = std::move(activity);
    }
  }
  return all;
}

std::vector<TraceRecorder::Ring> RankRings::rings_of(const std::string& job) const {
  std::vector<TraceRecorder::Ring> found;
  for (const auto& [peer, ring] : rings_) {
    if (!ring.rank || ring.rank->job != job) continue;
    found.push_back({peer, *ring.rank, ring.reader->pid(), ring.activity->on_device(), {}});
    for (const auto& [thread, record] : ring.threads) found.back().names.push_back(record);
    for (const auto& [device, record] : ring.devices) found.back().names.push_back(record);
  }
  return found;
}

void RankRings::ask_full_detail(net::LocalPeerId peer, std::uint64_t until_ns) {
  const auto found = rings_.find(peer);
  if (found != rings_.end()) found->second.reader->ask_full_detail(until_ns);
}

// CUPTI's kernels come later than NCCL's stamps: one whose kernels may still come waits for the next time, once.
std::vector<CollectiveStamp> RankRings::judged(Ring& ring, std::vector<CollectiveStamp> stamps, bool last) {
  std::vector<CollectiveStamp> told = std::exchange(ring.judged_later, {});
  for (CollectiveStamp& stamp : told) {
    stamp.beside = beside_of(*ring.activity, stamp).value_or(CostSource::Beside::kNotSaid);
  }
  for (CollectiveStamp& stamp : stamps) {
    const auto beside = beside_of(*ring.activity, stamp);
    stamp.beside = beside.value_or(CostSource::Beside::kNotSaid);
    (beside || last ? told : ring.judged_later).push_back(std::move(stamp));
  }
  return told;
}

void RankRings::collect_collectives(Ring& ring, bool last) {
  std::vector<CollectiveStamp> stamps = ring.collectives.take();
  const std::vector<CollectiveStamp> transfers = ring.transfers.take();
  stamps.insert(stamps.end(), transfers.begin(), transfers.end());
  stamps = judged(ring, std::move(stamps), last);
  if (ring.rank && !stamps.empty()) collectives_.push_back({ring.owner, ring.rank->rank, std::move(stamps)});
}

void RankRings::take_collectives(const std::function<void(const RankCollectives&)>& sink) {
  for (auto& [peer, ring] : rings_) collect_collectives(ring, false);
  for (const RankCollectives& rank : std::exchange(collectives_, {})) sink(rank);
}

void RankRings::take(CostCollection& into, const Disturbance& disturbance) {
  for (auto& [peer, ring] : rings_) collect(ring, false);
  collected_.flush([&](const CostOrigin& origin, std::vector<Cost> costs) {
    const CostSource::Clock clock = origin.source.clock;
    const bool marked = clock != CostSource::Clock::kNotSaid && disturbance.of(clock);
    for (Cost& cost : costs) cost.source.disturbed = cost.source.disturbed || marked;
    into.add(origin.owner, costs);
    return true;
  });
}

void RankRings::kept() {
  for (const auto& [peer, ring] : rings_) ring.reader->kept();
}

void RankRings::append_metrics(std::vector<net::Metric>& into) const {
  add_counters(into, kCounters, counters());
  add_gauge(into, "rings", "Rings that are read.", rings_.size());
  add_gauge(into, "ring_bytes", "What those may take of memory.", bytes());
}

}  // namespace trimtab::agent
