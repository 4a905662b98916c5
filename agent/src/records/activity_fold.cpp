#include "records/activity_fold.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kLatestSteps = 32;
constexpr std::size_t kMostStepRanges = 1024;
const CostSource kOnDevice{CostSource::Kind::kTraining, "", CostSource::Beside::kNotSaid, CostSource::Clock::kDevice};
constexpr std::size_t kMostCollectives = std::size_t{1} << 14;
// Collectives come almost in order, and few run at once: what would have to be looked for further is left out.
constexpr std::size_t kMostLookedAt = 1024;
// The plugin's stamps and CUPTI's are of two clocks.
constexpr std::uint64_t kClocksDifferNs = 1'000'000;
constexpr std::size_t kMostLanes = 64;
constexpr std::size_t kBusiest = 5;
constexpr std::size_t kMostOverlapKeys = 4096;
constexpr std::uint64_t kLaneChosenEvery = 4096;  // computations
// A step that begins so much later than the one before it ended was not trained all the time.
constexpr double kInterrupted = 0.05;
// In an interval's subject: a CommunicationKey's number, not a signature's.
constexpr std::uint32_t kIsCommunication = 1U << 31U;
// Of the streams that kCollective records stand for.
constexpr std::uint32_t kCollectiveStream = 1U << 31U;
constexpr std::string_view kGraphName = "CUDA graph";
constexpr std::string_view kSendReceive = "send_recv";

std::uint32_t low_half(std::int64_t payload) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(payload) & 0xffffffffU);
}

}  // namespace

ActivityFold::ActivityFold(ActivityOptions options)
    : options_(options),
      attribution_(lost_, options.attribution),
      order_(options.host_settle_ns),
      regression_(options.overlap),
      period_(options.period) {}

void ActivityFold::add(const RangeRecord& record) {
  switch (record.kind) {
    case record::kRange:
      return add_range(record);
    case record::kKernel:
    case record::kGraph:
      return add_kernel(record);
    case record::kMemcpy:
    case record::kMemset:
      return add_copy(record);
    case record::kRangesLeftOut:
      return lost_.add(record.begin_ns, record.end_ns);
    case record::kLaunch:
      return attribution_.add_launch(low_half(record.payload), record.domain_value, record.begin_ns, record.end_ns);
    case record::kWait:
      attribution_.no_launch(record.domain_value);
      return sweep_.waits().add(HostWaits::For::kDevice, record.begin_ns, record.end_ns);
    case record::kWindow:
      device_seen();  // only a process with CUDA has one
      return lost_.add(record.begin_ns, record.end_ns);
    case record::kCollective:
    case record::kP2p:
      return add_collective(record);
    default:
      return;
  }
}

void ActivityFold::device_seen() {
  if (std::exchange(on_device_, true)) return;
  late_ += order_.late();
  order_ = IntervalOrder(options_.device_settle_ns);
  HostWaits waits = std::move(sweep_.waits());  // of before its records came
  sweep_ = {};
  sweep_.waits() = std::move(waits);
  sweeping_ = false;
  latest_.clear();
  signatures_.clear();
  period_.reset();
  lanes_.clear();
  lane_ = 0;
  computations_ = 0;
  first_ns_ = newest_ns_ = 0;
}

void ActivityFold::add_range(const RangeRecord& record) {
  if ((record.flags & record::kUnterminated) != 0) return;
  attribution_.add_range(record);
  ranges_.add(record);
  if (record.range.kind == RangeName::Kind::kData) {
    tells_data_ = true;
    sweep_.waits().add(HostWaits::For::kData, record.begin_ns, record.end_ns);
  }
  if (record.range.kind == RangeName::Kind::kStep) {
    annotated_ = true;
    ++steps_;
    if ((record.flags & record::kPayloadValid) != 0) step_ = record.payload;
    if (step_ranges_.size() >= kMostStepRanges) step_ranges_.pop_front();
    step_ranges_.push_back({record.begin_ns, record.end_ns});
    return;
  }
  if (record.range.kind == RangeName::Kind::kPlanChange) {
    // Whoever takes a pass gives it the key of the plan in force, and that is the new one now.
    attribution_.forget();
    wires_.clear();
    return regression_.restart();
  }
  if (on_device_) return;
  const auto activity = HostIntervals::activity_of(record);
  if (!activity) return;
  const std::uint32_t signature = signatures_.number_of(record);
  signatures_.add(signature, record.end_ns - record.begin_ns, false);
  for (const DeviceInterval& interval : host_.add(record, *activity, signature)) put(interval);
}

void ActivityFold::add_kernel(const RangeRecord& record) {
  device_seen();
  blind_ = false;
  ++counters_.kernels;
  RangeRecord named = record;
  if (record.kind == record::kGraph) named.name = kGraphName;
  const std::uint32_t signature = signatures_.number_of(named);
  const std::uint64_t duration = record.end_ns - record.begin_ns;
  signatures_.add(signature, duration, true);
  attribution_.add_kernel(low_half(record.payload), record.begin_ns, record.end_ns);
  const KernelSignature& known = signatures_.at(signature);
  DeviceInterval interval{record.begin_ns, record.end_ns, record.thread, signature};
  interval.device = record.depth;
  interval.correlation = low_half(record.payload);
  interval.kernel_class = known.kernel_class;
  if (known.collective) {
    interval.activity = Activity::kCommunication;
    collective_kernels_ = true;
    communicated_.add(record.begin_ns, record.end_ns, record.thread);
  } else {
    computed_.add(record.begin_ns, record.end_ns);
  }
  put(interval);
}

void ActivityFold::add_copy(const RangeRecord& record) {
  device_seen();
  blind_ = false;
  ++counters_.copies;
  attribution_.add_kernel(record.domain_value, record.begin_ns, record.end_ns);
  DeviceInterval interval{record.begin_ns, record.end_ns, record.thread, 0, Activity::kCopy};
  interval.device = record.depth;
  interval.correlation = record.domain_value;
  put(interval);
}

void ActivityFold::add_collective(const RangeRecord& record) {
  device_seen();
  ++counters_.collectives;
  const std::uint32_t key = communications_.number_of(communication_key(record));
  if (collectives_.size() >= kMostCollectives) collectives_.pop_front();
  std::optional<LaunchRanges::Transfer> transfer;
  if (record.kind == record::kP2p) transfer = {record.name == "Send", record.payload, record.thread};
  remember_collective({record.begin_ns, record.end_ns, key, record.uncertainty_ns, transfer});
  if (collective_kernels_) return;
  communicated_.add(record.begin_ns, record.end_ns, kCollectiveStream);
  DeviceInterval interval{record.begin_ns, record.end_ns, kCollectiveStream, key | kIsCommunication,
                          Activity::kCommunication};
  interval.device = DeviceInterval::kAnyDevice;  // NCCL does not say which
  put(interval);
}

void ActivityFold::remember_collective(const SeenCollective& seen) {
  auto place = collectives_.end();  // by beginning
  for (std::size_t passed = 0; place != collectives_.begin() && std::prev(place)->begin_ns > seen.begin_ns; --place) {
    if (++passed > kMostLookedAt) return;
  }
  collectives_.insert(place, seen);
}

void ActivityFold::put(const DeviceInterval& interval) {
  if (order_.full()) settle();
  const std::uint64_t resets = order_.resets();
  (void)order_.add(interval);  // counted there
  if (order_.resets() != resets) clock_set_back();
}

// What was seen until now lies in the future, and nothing that comes would follow it.
void ActivityFold::clock_set_back() {
  attribution_.forget();
  sweep_ = {};
  sweeping_ = false;
  step_ranges_.clear();
  shared_.clear();
  ranges_ = LaunchRanges();
  collectives_.clear();
  communicated_ = {};
  computed_.clear();
  watch_.restart();
  period_.reset();
  first_ns_ = newest_ns_ = 0;
}

void ActivityFold::settle() {
  order_.release([this](const DeviceInterval& interval) { fold(interval); });
}

void ActivityFold::finish() {
  finished_ = true;
  order_.finish([this](const DeviceInterval& interval) { fold(interval); });
  sweep_.next_handed_out(std::nullopt);
  end_steps_before(~std::uint64_t{0});
}

void ActivityFold::fold(DeviceInterval interval) {
  if (first_ns_ == 0) first_ns_ = interval.begin_ns;
  newest_ns_ = std::max(newest_ns_, interval.end_ns);
  const auto launch = attribution_.launch_of(interval.correlation, interval.begin_ns);
  sweep_.next_handed_out(launch ? launch->end_ns : std::nullopt);
  end_steps_before(interval.begin_ns);
  if (!annotated_) follow_period(interval);
  sweep_.add(interval, swept(interval, launch ? launch->range : 0));
  if (on_device_) watch(interval);
}

// What a communication was for, as the range that handed it out says; of a transfer also how long it ran by itself.
SweptCommunication ActivityFold::swept(const DeviceInterval& interval, std::uint32_t range) {
  if (!on_device_ || interval.activity != Activity::kCommunication) return {};
  SweptCommunication result{ranges_.purpose_of(range)};
  std::optional<LaunchRanges::Transfer> transfer = ranges_.transfer_of(range);
  const SeenCollective* seen = seen_with(interval);
  if (seen != nullptr && seen->transfer) transfer = seen->transfer;
  const bool is_kernel = (interval.subject & kIsCommunication) == 0;
  const bool sends = is_kernel && signatures_.at(interval.subject).collective &&
                     signatures_.at(interval.subject).collective->primitive == kSendReceive;
  if (result.purpose == Purpose::kUnknown && (sends || transfer)) result.purpose = Purpose::kTransfer;
  if (result.purpose != Purpose::kTransfer || !transfer) return result;
  wires_.add(*transfer, interval.length_ns());
  result.wire_ns = wires_.of(*transfer);
  return result;
}

// A step that is known before what ran in it has been folded counts from its own beginning on. Of a longer one only the
// end comes in time: it counts from the end before it, and not at all if it began much later.
void ActivityFold::end_steps_before(std::uint64_t now_ns) {
  while (!step_ranges_.empty()) {
    StepRange& step = step_ranges_.front();
    if (!step.begun && step.begin_ns <= now_ns && step.begin_ns >= sweep_.now_ns()) {
      sweep_.begin(step.begin_ns);
      sweeping_ = step.begun = true;
    }
    if (step.end_ns > now_ns) return;
    const StepRange ended = step;
    step_ranges_.pop_front();
    end_step(ended.end_ns);
    if (ended.begun || latest_.empty() || latest_.back().end_ns != ended.end_ns) continue;
    const StepShares& shares = latest_.back();
    const auto length = static_cast<double>(ended.end_ns - ended.begin_ns);
    if (static_cast<double>(shares.end_ns - shares.begin_ns) <= (1 + kInterrupted) * length) continue;
    latest_.pop_back();
    if (!shared_.empty() && shared_.back().end_ns == ended.end_ns) shared_.pop_back();
    ++counters_.left_out;
  }
}

void ActivityFold::follow_period(const DeviceInterval& interval) {
  if (!leads(interval)) return;
  const auto boundary = period_.add(interval.subject, interval.begin_ns);
  if (boundary == StepPeriod::Boundary::kNone) return;
  if (boundary == StepPeriod::Boundary::kFirst) sweeping_ = false;
  if (boundary == StepPeriod::Boundary::kRegular) {
    ++steps_;
    if (found_steps_.size() >= kMostStepRanges) found_steps_.pop_front();
    found_steps_.push_back(interval.begin_ns);
  }
  end_step(interval.begin_ns);
}

// Whether the steps are looked for among intervals like this one: the computations of the busiest stream, or, where
// nothing computes, the communications.
bool ActivityFold::leads(const DeviceInterval& interval) {
  if (interval.activity == Activity::kCommunication) return computations_ == 0;
  if (interval.activity != Activity::kComputation) return false;
  if (computations_ == 0) {
    period_.reset();
    lane_ = interval.stream;
  }
  auto lane = std::ranges::find(lanes_, interval.stream, &Lane::stream);
  if (lane == lanes_.end()) {
    if (lanes_.size() >= kMostLanes) return false;
    lane = lanes_.insert(lanes_.end(), {interval.stream, 0});
  }
  ++lane->computations;
  if (++computations_ % kLaneChosenEvery == 0 && !period_.found()) {
    const std::uint32_t busiest = std::ranges::max_element(lanes_, {}, &Lane::computations)->stream;
    if (std::exchange(lane_, busiest) != busiest) period_.reset();
    for (Lane& one : lanes_) one.computations /= 2;
  }
  return interval.stream == lane_;
}

void ActivityFold::end_step(std::uint64_t end_ns) {
  const bool in_time = end_ns >= sweep_.now_ns();
  StepShares shares = sweep_.end(std::max(end_ns, sweep_.now_ns()));
  const bool whole = std::exchange(sweeping_, in_time);
  if (!whole || !in_time || shares.end_ns <= shares.begin_ns || lost_.overlap(shares.begin_ns, shares.end_ns)) {
    if (whole) ++counters_.left_out;
    return;
  }
  if (latest_.size() >= kLatestSteps) latest_.pop_front();
  if (on_device_ && !blind_ && shared_.size() < kMostStepRanges) shared_.push_back(shares);
  latest_.push_back(std::move(shares));
}

// How long both may have run at once, the collective shifted by as much as its clock is unsure; 0 where they cannot
// have.
std::uint64_t ActivityFold::common_ns(const SeenCollective& seen, const DeviceInterval& interval) {
  const std::uint64_t from = std::max(seen.begin_ns, interval.begin_ns);
  const std::uint64_t until = std::min(seen.end_ns, interval.end_ns) + seen.uncertainty_ns;
  const std::uint64_t shorter = std::min(seen.end_ns - seen.begin_ns, interval.length_ns());
  return until > from ? std::min(until - from, shorter) : 0;
}

// The one kCollective or kP2p record that ran at the same time as a kernel of NCCL's. Where the clocks are so unsure
// that more than one may have been at that time, none is taken. Valid until the next record.
const ActivityFold::SeenCollective* ActivityFold::seen_with(const DeviceInterval& interval) {
  const SeenCollective* found = nullptr;
  int matches = 0;
  const auto over = [&](const SeenCollective& one) {
    return one.end_ns + kClocksDifferNs + one.uncertainty_ns < interval.begin_ns;
  };
  while (!collectives_.empty() && over(collectives_.front())) collectives_.pop_front();
  const auto yet_to_come = [&](const SeenCollective& one) {
    return one.begin_ns >= interval.end_ns + kClocksDifferNs + one.uncertainty_ns;
  };
  std::size_t looked_at = 0;
  for (auto seen = collectives_.begin(); seen != collectives_.end() && !yet_to_come(*seen) && matches < 2; ++seen) {
    if (++looked_at > kMostLookedAt) matches = 2;  // one of them may be it as well
    const std::uint64_t shorter = std::min(seen->end_ns - seen->begin_ns, interval.length_ns());
    const std::uint64_t common = common_ns(*seen, interval);
    if (common == 0 || 2 * common < shorter) continue;
    found = &*seen;
    ++matches;
  }
  return matches == 1 ? found : nullptr;
}

// What a kernel of NCCL's did: as the record beside it says, else as its name says.
std::uint32_t ActivityFold::communication_of(const DeviceInterval& interval) {
  if ((interval.subject & kIsCommunication) != 0) return interval.subject & ~kIsCommunication;
  if (const SeenCollective* seen = seen_with(interval)) return seen->key;
  const KernelSignature& signature = signatures_.at(interval.subject);
  CommunicationKey key;
  if (signature.collective) {
    key.primitive = signature.collective->primitive;
    key.algorithm = signature.collective->algorithm;
    key.protocol = signature.collective->protocol;
    key.channels = static_cast<std::int32_t>(std::min(signature.grid[0], 1024U));
  }
  return communications_.number_of(key);
}

void ActivityFold::watch(const DeviceInterval& interval) {
  if (lost_.overlap(interval.begin_ns, interval.end_ns)) return watch_.restart();
  DeviceInterval watched = interval;
  if (interval.activity == Activity::kCommunication) watched.subject = communication_of(interval);
  for (const OverlapSeen& seen : watch_.add(watched)) {
    if (!lost_.overlap(seen.interval.begin_ns, seen.interval.end_ns)) regress(seen);
  }
}

void ActivityFold::regress(const OverlapSeen& seen) {
  using Beside = OverlapSeen::Beside;
  const DeviceInterval& interval = seen.interval;
  const bool computes = interval.activity == Activity::kComputation;
  const std::uint32_t subject = computes ? interval.subject : interval.subject | kIsCommunication;
  if (interval.subject == 0) return;  // one of many
  if (seen.beside == Beside::kNothing) return regression_.alone(subject, interval.length_ns());
  if (!prices_a_plan(seen)) return;
  CostKey key;
  if (seen.beside == Beside::kComputation) {
    key = overlap_key(CostKind::kOverlapCommunication, communications_.at(interval.subject));
    key.kernel_class = seen.one_class ? to_string(seen.kernel_class) : "mixed";
  } else {
    // Two at once are one thing to be beside: their names joined, their bytes and channels added.
    CommunicationKey other = communications_.at(seen.communications[0]);
    if (seen.communication_count == 2) {
      const CommunicationKey& second = communications_.at(seen.communications[1]);
      other.primitive += "+" + second.primitive;
      other.bytes = other.bytes > 0 && second.bytes > 0 ? other.bytes + second.bytes : 0;
      other.channels += second.channels;
      other.between_nodes = other.between_nodes || second.between_nodes;
      if (other.group_size != second.group_size) other.group_size = 0;
      if (other.algorithm != second.algorithm) other.algorithm.clear();
      if (other.protocol != second.protocol) other.protocol.clear();
    }
    if (computes) {
      key = overlap_key(CostKind::kOverlapComputation, other);
      key.kernel_class = to_string(interval.kernel_class);
    } else {
      key = overlap_key(CostKind::kOverlapCommunication, communications_.at(interval.subject));
      key.subject += "+" + other.primitive;
      key.kernel_class = "communication";
    }
  }
  if (const std::uint32_t cost = cost_of(key); cost != 0) {
    regression_.beside(subject, cost, interval.length_ns(), seen.beside_ns);
  }
}

bool ActivityFold::prices_a_plan(const OverlapSeen& seen) const {
  if (seen.beside == OverlapSeen::Beside::kComputation) {
    return slows_computation(communications_.at(seen.interval.subject));
  }
  const CommunicationKey& first = communications_.at(seen.communications[0]);
  const bool two = seen.communication_count == 2;
  if (seen.interval.activity == Activity::kCommunication) {
    return !two && slow_each_other(communications_.at(seen.interval.subject), first);
  }
  return two ? slow_computation(first, communications_.at(seen.communications[1])) : slows_computation(first);
}

CostKey ActivityFold::overlap_key(CostKind kind, const CommunicationKey& communication) const {
  CostKey key;
  key.kind = kind;
  key.subject = communication.primitive;
  key.bytes = bytes_bucket(communication.bytes);
  key.group_size = communication.group_size;
  key.algorithm = communication.algorithm;
  key.protocol = communication.protocol;
  key.channels = communication.channels;
  key.placement = communication.between_nodes ? "inter_node" : "intra_node";
  return canonical(std::move(key));
}

std::uint32_t ActivityFold::cost_of(const CostKey& key) {
  if (const auto known = overlap_numbers_.find(key); known != overlap_numbers_.end()) return known->second;
  if (overlap_keys_.size() >= kMostOverlapKeys) return 0;
  const auto number = static_cast<std::uint32_t>(overlap_keys_.size());
  overlap_keys_.push_back(key);
  overlap_numbers_.emplace(key, number);
  return number;
}

std::vector<Cost> ActivityFold::take_slowdowns() {
  std::vector<Cost> costs;
  for (auto& [number, statistics] : regression_.take()) {
    costs.push_back({overlap_keys_.at(number), std::move(statistics), kOnDevice});
  }
  return costs;
}

CostSource::Beside ActivityFold::beside(const PassTime& pass) {
  return communicated_.ran_beside(pass.begin_ns, pass.end_ns) ? CostSource::Beside::kCommunication
                                                              : CostSource::Beside::kNothing;
}

std::optional<CostSource::Beside> ActivityFold::beside_communication(std::uint64_t begin_ns, std::uint64_t end_ns) {
  using Beside = CostSource::Beside;
  if (blind_ || lost_.overlap(begin_ns, end_ns)) return Beside::kNotSaid;
  if (end_ns > computed_.known_until()) return std::nullopt;
  if (!computed_.cover(begin_ns, end_ns)) return Beside::kNotSaid;
  const std::uint64_t computed_ns = computed_.computed(begin_ns, end_ns);
  const bool beside = CommunicationTimes::more_than_slight(computed_ns, end_ns - begin_ns);
  return beside ? Beside::kComputation : Beside::kNothing;
}

PartShares ActivityFold::part_shares(double length) const {
  StepParts sum;
  for (const StepShares& step : latest_) sum += step.parts;
  const auto share = [length](std::uint64_t ns) { return static_cast<double>(ns) / length; };
  const auto slight = [&](std::uint64_t ns) { return share(ns) <= StepParts::kSlight; };
  PartShares parts;
  if (slight(sum.unknown_ns)) {
    parts.collectives = share(sum.own_ns + sum.layout_ns);
    parts.gradients = share(sum.gradients_ns);
  }
  parts.transfers = share(sum.wire_ns + sum.unsplit_ns);
  if (slight(sum.unsplit_ns)) {
    parts.bubble = share(sum.bubble_ns);
  } else {
    *parts.transfers += share(sum.bubble_ns);
  }
  if (slight(sum.unjudged_ns)) parts.launch_bound = share(sum.launching_ns);
  if (tells_data_) parts.data = share(sum.data_ns);
  return parts;
}

RankActivity ActivityFold::activity() {
  RankActivity now;
  now.on_device = on_device_;
  now.steps = steps_;
  now.step = step_;
  now.windows = lost_.added();
  now.steps_left_out = counters_.left_out;
  if (const auto found = period_.found(); found && !annotated_) {
    now.detected = true;
    now.confidence = found->confidence;
    now.kernels_per_step = found->kernels;
  }
  double length = 0;
  if (on_device_ && blind_) latest_.clear();  // what computed was not recorded
  for (const StepShares& step : latest_) {
    length += static_cast<double>(step.end_ns - step.begin_ns);
    now.computation += static_cast<double>(step.computation_ns);
    now.exposed_communication += static_cast<double>(step.exposed_communication_ns);
    now.overlapped_communication += static_cast<double>(step.overlapped_communication_ns);
    now.exposed_copy += static_cast<double>(step.exposed_copy_ns);
    now.idle += static_cast<double>(step.idle_ns);
  }
  if (length > 0) {
    if (on_device_) now.parts = part_shares(length);
    const auto steps = static_cast<double>(latest_.size());
    now.steps_measured = latest_.size();
    now.step_seconds = length / steps / 1e9;
    now.steps_per_second = 1 / now.step_seconds;
    for (double* share :
         {&now.computation, &now.exposed_communication, &now.overlapped_communication, &now.exposed_copy, &now.idle}) {
      *share /= length;
    }
    now.streams = latest_.back().streams;
    now.stream_seconds = static_cast<double>(latest_.back().end_ns - latest_.back().begin_ns) / 1e9;
  }
  now.busiest = signatures_.busiest(kBusiest);
  now.busiest_seconds = newest_ns_ > first_ns_ ? static_cast<double>(newest_ns_ - first_ns_) / 1e9 : 0;
  first_ns_ = 0;
  return now;
}

}  // namespace trimtab::agent
