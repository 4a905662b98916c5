#pragma once

// Collectives, sends and receives from the agents: joined over ranks, then the transfers into the cost database as
// costs of training, and collectives' waiting and lateness into the counters that /metrics shows. Event loop's thread
// only.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agents/membership.hpp"
#include "costs/transfer_join.hpp"
#include "needs.hpp"
#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::coordinator {

class CollectiveIntake {
 public:
  static constexpr Nanoseconds kStorePeriod = std::chrono::seconds(10);
  // Between two stores; what goes beyond is left out and counted.
  static constexpr std::size_t kMostCosts = 16384;
  static constexpr std::size_t kMostFingerprints = 256;

  // Its batches are those of this coordinator. Services and clocks must outlive it.
  CollectiveIntake(const CostNeeds& services, const NodeClocks& clocks, const std::string& coordinator)
      : services_(services), clocks_(clocks), origin_(coordinator + "/collectives") {}

  // From `node`. `world_size` of the job that it names; 0 = no such job runs: its costs count, its ranks do not.
  void take(const wire::CollectiveStamps& message, const std::string& node, std::int32_t world_size);
  // It is no node of this coordinator any more; under its name may come another machine.
  void forget(const std::string& node) { nodes_.erase(node); }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  // Gives up what does not find its other ranks' stamps, and stores costs when it is time.
  void tick();
  // What has been joined so far, now. False when the database does not take it; it is kept then.
  bool store();

 private:
  using Costs = std::map<CostKey, Statistics>;
  // Costs of one source.
  struct Place {
    std::string fingerprint_json;
    CostSource::Beside beside = CostSource::Beside::kNotSaid;
    auto operator<=>(const Place&) const = default;
  };
  struct ByText {
    using is_transparent = void;
    using Shared = std::shared_ptr<const std::string>;
    bool operator()(const Shared& a, const Shared& b) const { return *a < *b; }
    bool operator()(const Shared& a, const std::string& b) const { return *a < b; }
    bool operator()(const std::string& a, const Shared& b) const { return a < *b; }
  };
  struct Batch {
    std::uint64_t number = 0;  // 0 = none yet
    Fingerprint fingerprint;
    CostSource::Beside beside = CostSource::Beside::kNotSaid;
    std::vector<Cost> costs;
  };
  [[nodiscard]] std::optional<StampClock> clock_of(const wire::CollectiveStamp& said, const std::string& node);
  void fold(const CostKey& key, std::int64_t transfer_ns, const Place& place);
  void fold_transfers();
  // The text as one for all stamps that name it; nullptr where there is no room for another.
  [[nodiscard]] std::shared_ptr<const std::string> shared(const std::string& fingerprint_json);
  void count_ranks(const JoinedCollective& joined, const std::string& job, std::int32_t world_size);
  // What is stored next, unless the fingerprint cannot be read.
  void take_out(const Place& place, const Costs& costs);
  bool store_one();
  [[nodiscard]] Status add();
  [[nodiscard]] Status find_last();

  const CostNeeds& services_;
  const NodeClocks& clocks_;
  const std::string origin_;
  CollectiveJoin join_;
  TransferJoin transfers_;
  std::set<std::shared_ptr<const std::string>, ByText> fingerprints_;  // of transfers that wait
  std::map<std::string, std::uint32_t> nodes_;                         // their numbers in the join
  std::uint32_t next_node_ = 0;  // none is given twice: stamps of one that was forgotten may still wait
  std::map<Place, Costs> costs_;
  std::size_t count_ = 0;
  std::optional<Batch> unstored_;
  std::uint64_t last_ = 0;  // of the coordinator's batches, as far as this process knows
  Nanoseconds stored_{0};
};

}  // namespace trimtab::coordinator
