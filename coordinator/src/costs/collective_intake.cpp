#include "costs/collective_intake.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "schema/cost_database.hpp"
#include "schema/nccl.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
constexpr int kSignificantBits = 3;
// The transfer alone: from the last rank's beginning to the first one's end.
CostSource joined_source(CostSource::Beside beside) {
  return {CostSource::Kind::kTraining, "", beside, CostSource::Clock::kRanks};
}

CostSource::Beside beside_of(const wire::CollectiveStamp& said) {
  if (said.beside() == wire::CollectiveStamp::NOTHING) return CostSource::Beside::kNothing;
  if (said.beside() == wire::CollectiveStamp::COMPUTATION) return CostSource::Beside::kComputation;
  return CostSource::Beside::kNotSaid;
}

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
  stamp.beside = beside_of(said);
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

CostKey key_of(const JoinedTransfer& joined) {
  CostKey key;
  key.kind = CostKind::kPointToPoint;
  key.subject = name_of(nccl::kFunctions, nccl::kSendRecv);
  key.bytes = rounded(joined.bytes);
  key.placement = joined.between_nodes ? "inter_node" : "intra_node";
  key.channels = static_cast<std::int32_t>(std::min(joined.channels, nccl::kMaxChannels));
  return key;
}

}  // namespace

std::optional<StampClock> CollectiveIntake::clock_of(const wire::CollectiveStamp& said, const std::string& node) {
  if (!said.has_gpu_ahead_ns()) return std::nullopt;
  StampClock clock;
  const auto [known, is_new] = nodes_.try_emplace(node, next_node_);
  if (is_new) ++next_node_;
  clock.node = known->second;
  clock.gpu = {said.gpu_ahead_ns(), said.gpu_unsure_ns()};
  const std::uint64_t on_host = said.begin_ns() - static_cast<std::uint64_t>(said.gpu_ahead_ns());
  clock.host = clocks_.ahead(node, on_host);
  return clock;
}

void CollectiveIntake::take(const wire::CollectiveStamps& message, const std::string& node, std::int32_t world_size) {
  const Nanoseconds now = services_.clock.monotonic();
  for (const wire::CollectiveStamp& said : message.stamps()) {
    RankStamp stamp = stamp_of(said, message.rank());
    stamp.clock = clock_of(said, node);
    if (nccl::between_two(stamp.facts.function)) {
      if (const auto fingerprint = shared(message.fingerprint_json())) {
        transfers_.add({stamp, said.peer(), fingerprint}, now);
      } else {
        ++services_.counters.collective_costs_dropped;
      }
      continue;
    }
    const auto joined = join_.add(stamp, now);
    if (!joined) continue;
    fold(key_of(joined->facts), joined->transfer_ns, {message.fingerprint_json(), joined->beside});
    count_ranks(*joined, message.job(), world_size);
  }
  services_.counters.collectives = join_.counters();
  services_.counters.transfers = transfers_.counters();
}

std::shared_ptr<const std::string> CollectiveIntake::shared(const std::string& fingerprint_json) {
  if (const auto known = fingerprints_.find(fingerprint_json); known != fingerprints_.end()) return *known;
  if (fingerprint_json.size() > kLongestFingerprint) return nullptr;
  if (fingerprints_.size() >= kMostFingerprints) {
    std::erase_if(fingerprints_, [](const auto& one) { return one.use_count() == 1; });  // nobody waits with it
  }
  if (fingerprints_.size() >= kMostFingerprints) return nullptr;
  return *fingerprints_.insert(std::make_shared<const std::string>(fingerprint_json)).first;
}

void CollectiveIntake::fold_transfers() {
  for (const JoinedTransfer& joined : transfers_.take(services_.clock.monotonic())) {
    fold(key_of(joined), joined.transfer_ns, {*joined.fingerprint_json, joined.beside});
  }
  services_.counters.transfers = transfers_.counters();
}

void CollectiveIntake::fold(const CostKey& key, std::int64_t transfer_ns, const Place& place) {
  if (!costs_.contains(place) && costs_.size() >= kMostFingerprints) {
    ++services_.counters.collective_costs_dropped;
    return;
  }
  Costs& costs = costs_[place];
  auto entry = costs.find(key);
  if (entry == costs.end()) {
    if (count_ >= kMostCosts) {
      ++services_.counters.collective_costs_dropped;
      return;
    }
    entry = costs.emplace(key, Statistics{}).first;
    ++count_;
  }
  entry->second.add(transfer_ns);
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
  fold_transfers();
  services_.counters.collectives = join_.counters();
  if (now - stored_ < kStorePeriod) return;
  stored_ = now;
  if (services_.check_room().ok()) (void)store();
}

bool CollectiveIntake::store() {
  if (unstored_ && !store_one()) return false;
  while (!costs_.empty()) {
    const auto first = costs_.begin();
    count_ -= first->second.size();
    take_out(first->first, first->second);
    costs_.erase(first);
    if (unstored_ && !store_one()) return false;
  }
  return true;
}

void CollectiveIntake::take_out(const Place& place, const Costs& costs) {
  const auto fingerprint = parse_fingerprint(place.fingerprint_json, "collectives");
  if (!fingerprint.ok()) {
    spdlog::error("the costs of {} collectives are left out: {}", costs.size(), fingerprint.error().message);
    return;
  }
  unstored_ = Batch{0, *fingerprint, place.beside, {}};
  for (const auto& [key, statistics] : costs) unstored_->costs.push_back({key, statistics});
}

bool CollectiveIntake::store_one() {
  const Status status = add();
  if (!status.ok()) {
    spdlog::error("the costs of collectives cannot be stored, they are kept: {}", status.error().message);
    return false;
  }
  services_.counters.cost_entries += unstored_->costs.size();
  unstored_.reset();
  return true;
}

// A batch keeps its number through failures: whether one was committed all the same need not be known then.
Status CollectiveIntake::add() {
  const bool is_first_try = unstored_->number == 0;
  if (is_first_try) {
    TRIMTAB_TRY_STATUS(find_last());
    unstored_->number = last_ + 1;
  }
  const BatchId id{origin_, unstored_->number};
  TRIMTAB_TRY(const bool is_new,
              services_.costs.add_batch(id, unstored_->fingerprint, to_text(joined_source(unstored_->beside)),
                                        unstored_->costs));
  if (is_first_try && !is_new) {
    unstored_->number = 0;
    return unavailable("batch " + std::to_string(id.number) + " of " + origin_ +
                       " is there already: another coordinator runs on a copy of this one's state. Give each a state "
                       "directory of its own");
  }
  last_ = id.number;
  return {};
}

// Numbers go on from what is stored, through every restart: sums are one for each cost then. A database that was set
// back meanwhile has a gap, which nobody fills; left open it would keep all that follows from being folded.
Status CollectiveIntake::find_last() {
  TRIMTAB_TRY(OriginFindings found, services_.costs.compare({origin_, last_ + 1, last_}));
  if (found.ahead) {
    last_ = found.last;
    TRIMTAB_TRY(found, services_.costs.compare({origin_, last_ + 1, last_}));
  }
  if (found.lost > 0) {
    spdlog::warn("{} batches of collectives' costs are not in {} any more: it was set back to an older copy",
                 found.lost, services_.costs.name());
  }
  return {};
}

}  // namespace trimtab::coordinator
