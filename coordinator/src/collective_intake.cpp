#include "collective_intake.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "schema/fingerprint.hpp"
#include "schema/nccl.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
constexpr int kSignificantBits = 3;

std::uint8_t small(std::uint32_t value) {
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(value, nccl::kUnknown));
}

// What cannot be is left to the join to refuse.
RankStamp stamp_of(const wire::CollectiveStamp& said, std::uint32_t job_rank) {
  RankStamp stamp;
  stamp.facts = {said.communicator(),
                 small(said.function()),
                 small(said.algorithm()),
                 small(said.protocol()),
                 said.channels(),
                 said.ranks(),
                 said.nodes(),
                 static_cast<std::int64_t>(std::min(said.bytes(), kMostBytes))};
  stamp.sequence = said.sequence();
  stamp.rank = said.rank();
  stamp.job_rank = job_rank;
  stamp.begin_ns = said.begin_ns();
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - said.begin_ns();
  stamp.end_ns = said.begin_ns() + std::min(said.duration_ns(), room);
  return stamp;
}

template <std::uint32_t count>
std::string name_of(const nccl::Name (&names)[count], std::uint8_t index) {
  return index < count ? names[index].ours : "";
}

// To the nearest number of three significant bits (4 to 7 times a power of two): ragged sizes must not make a cost
// each.
std::int64_t rounded(std::int64_t bytes) {
  const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
  const auto width = static_cast<int>(std::bit_width(size));
  if (width <= kSignificantBits) return bytes;
  const int shift = width - kSignificantBits;
  return static_cast<std::int64_t>(((size + (std::uint64_t{1} << (shift - 1))) >> shift) << shift);
}

CostKey key_of(const CollectiveFacts& facts) {
  CostKey key;
  key.kind = CostKind::kCollective;
  key.subject = name_of(nccl::kFunctions, facts.function);
  key.bytes = rounded(facts.bytes);
  key.group_size = static_cast<std::int32_t>(facts.ranks);
  key.placement = facts.nodes > 1 ? "inter_node" : "intra_node";
  key.algorithm = name_of(nccl::kAlgorithms, facts.algorithm);
  key.protocol = name_of(nccl::kProtocols, facts.protocol);
  key.channels = static_cast<std::int32_t>(std::min(facts.channels, nccl::kMaxChannels));
  return key;
}

}  // namespace

std::optional<StampClock> CollectiveIntake::clock_of(const wire::CollectiveStamp& said, const std::string& node) {
  if (!said.has_gpu_ahead_ns()) return std::nullopt;
  StampClock clock;
  clock.node = nodes_.try_emplace(node, static_cast<std::uint32_t>(nodes_.size())).first->second;
  clock.gpu = {said.gpu_ahead_ns(), said.gpu_unsure_ns()};
  const std::uint64_t on_host = said.begin_ns() - static_cast<std::uint64_t>(said.gpu_ahead_ns());
  clock.host = services_.clocks.ahead(node, on_host);
  return clock;
}

void CollectiveIntake::take(const wire::CollectiveStamps& message, const std::string& node, std::int32_t world_size) {
  for (const wire::CollectiveStamp& said : message.stamps()) {
    RankStamp stamp = stamp_of(said, message.rank());
    stamp.clock = clock_of(said, node);
    const auto joined = join_.add(stamp, services_.clock.monotonic());
    if (!joined) continue;
    fold(*joined, message.fingerprint_json());
    count_ranks(*joined, message.job(), world_size);
  }
  services_.counters.collectives = join_.counters();
}

void CollectiveIntake::fold(const JoinedCollective& joined, const std::string& fingerprint_json) {
  if (!costs_.contains(fingerprint_json) && costs_.size() >= kMostFingerprints) {
    ++services_.counters.collective_costs_dropped;
    return;
  }
  Costs& costs = costs_[fingerprint_json];
  const CostKey key = key_of(joined.facts);
  auto entry = costs.find(key);
  if (entry == costs.end()) {
    if (count_ >= kMostCosts) {
      ++services_.counters.collective_costs_dropped;
      return;
    }
    entry = costs.emplace(key, Statistics{}).first;
    ++count_;
  }
  entry->second.add(joined.transfer_ns);
}

void CollectiveIntake::count_ranks(const JoinedCollective& joined, const std::string& job, std::int32_t world_size) {
  for (std::size_t i = 0; i < joined.job_ranks.size(); ++i) {
    if (joined.job_ranks[i] >= static_cast<std::uint32_t>(world_size)) continue;
    RankWaiting& rank = services_.counters.waiting[{job, joined.job_ranks[i]}];
    rank.waiting_seconds += static_cast<double>(joined.waiting_ns[i]) / 1e9;
    rank.transfer_seconds += static_cast<double>(joined.transfer_ns) / 1e9;
    ++rank.collectives;
    if (joined.late_job_rank == joined.job_ranks[i]) ++rank.late;
  }
}

void CollectiveIntake::tick() {
  const Nanoseconds now = services_.clock.monotonic();
  join_.expire(now);
  services_.counters.collectives = join_.counters();
  if (now - stored_ < kStorePeriod) return;
  stored_ = now;
  (void)store();
}

bool CollectiveIntake::store() {
  for (auto entry = costs_.begin(); entry != costs_.end();) {
    if (!store(entry->first, entry->second)) return false;
    count_ -= entry->second.size();
    entry = costs_.erase(entry);
  }
  return true;
}

bool CollectiveIntake::store(const std::string& fingerprint_json, const Costs& costs) {
  const auto fingerprint = parse_fingerprint(fingerprint_json, "collectives");
  if (!fingerprint.ok()) {
    spdlog::error("the costs of {} collectives are left out: {}", costs.size(), fingerprint.error().message);
    return true;
  }
  if (origin_.empty()) {
    // Of this run of the coordinator alone: the numbers begin at 1 again with the next.
    origin_ = services_.store.identity() + "/collectives/" + std::to_string(services_.clock.wall().count());
  }
  std::vector<Cost> batch;
  for (const auto& [key, statistics] : costs) batch.push_back({key, statistics});
  const auto stored = services_.costs.add_batch({origin_, batch_ + 1}, *fingerprint, "passive", batch);
  if (!stored.ok()) {
    spdlog::error("the costs of collectives cannot be stored, they are kept: {}", stored.error().message);
    return false;
  }
  ++batch_;
  services_.counters.cost_entries += batch.size();
  return true;
}

}  // namespace trimtab::coordinator
