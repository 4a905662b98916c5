#include "costs/collective_samples.hpp"

#include <algorithm>
#include <limits>

#include "schema/nccl.hpp"

namespace trimtab::agent {

namespace {

// What a record says where it could not say more.
constexpr std::uint16_t kCapped = 0xffff;

std::optional<std::uint64_t> parse_communicator(std::string_view text) {
  std::uint64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, id, 16);
  if (text.size() != 16 || parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return id;
}

std::optional<CollectiveStamp> stamp_of(const RangeRecord& record) {
  const std::string function(record.name);
  const auto communicator = parse_communicator(record.domain);
  CollectiveStamp stamp;
  stamp.function = nccl::index_of_theirs(nccl::kFunctions, function.c_str());
  stamp.ranks = record.detail[0];
  stamp.rank = record.detail[1];
  stamp.nodes = record.detail[2];
  const bool fits = communicator && stamp.function != nccl::kUnknown && stamp.ranks >= 2 && stamp.ranks < kCapped &&
                    stamp.rank < stamp.ranks && record.payload > 0;
  if (!fits) return std::nullopt;
  stamp.communicator = *communicator;
  stamp.algorithm = static_cast<std::uint8_t>(record.detail[3]);
  stamp.protocol = static_cast<std::uint8_t>(record.detail[4]);
  stamp.channels = record.depth;
  (record.kind == record::kP2p ? stamp.peer : stamp.sequence) = record.thread;
  stamp.bytes = record.payload;
  stamp.begin_ns = record.begin_ns;
  stamp.end_ns = record.end_ns;
  return stamp;
}

bool fits_between_two(const CollectiveStamp& stamp) {
  return nccl::between_two(stamp.function) && stamp.peer < stamp.ranks && stamp.peer != stamp.rank && stamp.gpu_ahead;
}

}  // namespace

void CollectiveSamples::add(const RangeRecord& record, const std::optional<ClockDifference::Offset>& gpu_ahead) {
  if (record.kind != kind_) return;
  ++counters_.seen;
  auto stamp = stamp_of(record);
  if (stamp) stamp->gpu_ahead = gpu_ahead;
  if (!stamp || (kind_ == record::kP2p && !fits_between_two(*stamp))) {
    ++counters_.unfit;
    return;
  }
  if (!last_.contains(stamp->communicator) && last_.size() >= kMostCommunicators) {
    for (auto& [id, last] : last_) let_go(last);
    last_.clear();
  }
  Last& last = last_[stamp->communicator];
  const bool together = last.stamp.begin_ns == stamp->begin_ns;
  last.fused = last.fused || together;
  let_go(last);
  last = {*stamp, together || (record.flags & record::kFused) != 0, true};
}

void CollectiveSamples::let_go(Last& last) {
  if (!std::exchange(last.waits, false)) return;
  if (last.fused) {
    ++counters_.fused;
  } else {
    keep(last.stamp);
  }
}

bool CollectiveSamples::sampled(const CollectiveStamp& stamp) const {
  if (kind_ == record::kP2p) {
    return nccl::in_window(stamp.end_ns - static_cast<std::uint64_t>(stamp.gpu_ahead->ns), level_);
  }
  return nccl::in_sample(nccl::collective_hash(stamp.communicator, stamp.function, stamp.sequence), level_);
}

void CollectiveSamples::keep(const CollectiveStamp& stamp) {
  if (!sampled(stamp)) return;
  kept_.push_back(stamp);
  while (kept_.size() > kMost && level_ < nccl::kMaxSampleLevel) {
    ++level_;
    std::erase_if(kept_, [this](const CollectiveStamp& one) { return !sampled(one); });
  }
  if (kept_.size() > kMost) kept_.pop_back();
}

std::vector<CollectiveStamp> CollectiveSamples::take() {
  for (auto& [id, last] : last_) let_go(last);
  adapt(kept_.size());
  counters_.taken += kept_.size();
  return std::exchange(kept_, {});
}

void CollectiveSamples::adapt(std::size_t taken) {
  quiet_ = taken < kMost / 4 ? quiet_ + 1 : 0;
  if (quiet_ < kQuietTakes || level_ == 0) return;
  quiet_ = 0;
  --level_;
}

namespace {

wire::CollectiveStamp::Beside to_wire(CostSource::Beside beside) {
  if (beside == CostSource::Beside::kNothing) return wire::CollectiveStamp::NOTHING;
  if (beside == CostSource::Beside::kComputation) return wire::CollectiveStamp::COMPUTATION;
  return wire::CollectiveStamp::NOT_SAID;
}

}  // namespace

wire::FromAgent stamps_message(const CostOwner& owner, std::uint32_t rank, const std::vector<CollectiveStamp>& stamps) {
  wire::FromAgent message;
  wire::CollectiveStamps& body = *message.mutable_collective_stamps();
  body.set_job(owner.job);
  body.set_rank(rank);
  body.set_fingerprint_json(owner.fingerprint_json);
  for (const CollectiveStamp& stamp : stamps) {
    wire::CollectiveStamp& one = *body.add_stamps();
    one.set_communicator(stamp.communicator);
    one.set_function(stamp.function);
    one.set_sequence(stamp.sequence);
    one.set_peer(stamp.peer);
    one.set_ranks(stamp.ranks);
    one.set_rank(stamp.rank);
    one.set_nodes(stamp.nodes);
    one.set_algorithm(stamp.algorithm);
    one.set_protocol(stamp.protocol);
    one.set_channels(stamp.channels);
    one.set_bytes(static_cast<std::uint64_t>(stamp.bytes));
    one.set_begin_ns(stamp.begin_ns);
    one.set_duration_ns(stamp.end_ns - stamp.begin_ns);
    one.set_beside(to_wire(stamp.beside));
    if (!stamp.gpu_ahead) continue;
    one.set_gpu_ahead_ns(stamp.gpu_ahead->ns);
    one.set_gpu_unsure_ns(stamp.gpu_ahead->uncertainty_ns);
  }
  return message;
}

namespace {

constexpr double kBounds[] = {10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 0.001, 0.0025, 0.005,
                              0.01,  0.025, 0.05,  0.1,    0.25,   0.5,    1,     5};

struct SizeBucket {
  std::int64_t below;
  const char* label;
};
constexpr std::array<SizeBucket, 6> kSizes{{{std::int64_t{4} << 10, "below_4KiB"},
                                            {std::int64_t{64} << 10, "below_64KiB"},
                                            {std::int64_t{1} << 20, "below_1MiB"},
                                            {std::int64_t{16} << 20, "below_16MiB"},
                                            {std::int64_t{256} << 20, "below_256MiB"},
                                            {std::numeric_limits<std::int64_t>::max(), "from_256MiB"}}};

std::size_t size_bucket(std::int64_t bytes) {
  const auto* found = std::ranges::find_if(kSizes, [&](const SizeBucket& one) { return bytes < one.below; });
  return std::min<std::size_t>(static_cast<std::size_t>(found - kSizes.begin()), kSizes.size() - 1);
}

}  // namespace

CollectiveTimes::Job& CollectiveTimes::job_of(const std::string& name) {
  if (!jobs_.contains(name) && jobs_.size() >= kMostJobs) {
    jobs_.erase(std::ranges::min_element(jobs_, {}, [](const auto& one) { return one.second.touched; }));
  }
  Job& job = jobs_[name];
  job.touched = ++turn_;
  return job;
}

void CollectiveTimes::add(const std::string& job, const std::vector<CollectiveStamp>& stamps) {
  auto& times = job_of(job).times;
  for (const CollectiveStamp& stamp : stamps) {
    if (stamp.function >= nccl::count_of(nccl::kFunctions) || stamp.end_ns < stamp.begin_ns) continue;
    auto& histogram =
        times.try_emplace({stamp.function, size_bucket(stamp.bytes)}, net::Histogram(kBounds)).first->second;
    histogram.observe(static_cast<double>(stamp.end_ns - stamp.begin_ns) / 1e9);
  }
}

void CollectiveTimes::append(std::vector<net::Metric>& into) const {
  for (const auto& [name, job] : jobs_) {
    for (const auto& [kind, histogram] : job.times) {
      const std::string labels = net::labels(
          {{"job", name}, {"collective", nccl::kFunctions[kind.first].ours}, {"size", kSizes[kind.second].label}});
      histogram.append(into, "trimtab_agent_collective_seconds",
                       "Time of sampled collectives, waiting for later ranks included.", labels);
    }
  }
}

}  // namespace trimtab::agent
