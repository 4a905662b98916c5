#pragma once

// Numbers for the communications that a rank was seen to run: what, how much, among how many, how. Bounded: number 0
// stands for all beyond `most`. Pure. Single-threaded.

#include "records/ring_reader.hpp"
#include "schema/cost.hpp"

namespace trimtab::agent {

struct CommunicationKey {
  std::string primitive;   // a cost kind's name: "all_reduce", "send_recv", ...
  std::int64_t bytes = 0;  // 0 = not known
  std::int32_t group_size = 0;
  std::string algorithm;
  std::string protocol;
  std::int32_t channels = 0;
  bool between_nodes = false;
  auto operator<=>(const CommunicationKey&) const = default;
};

// Which slowdowns beside communication price plans (docs/cost_model.md, "What overlaps"): no others are kept.
[[nodiscard]] bool slows_computation(const CommunicationKey& communication);
// Of a computation beside two communications at once.
[[nodiscard]] bool slow_computation(const CommunicationKey& first, const CommunicationKey& second);
// Of one communication beside another.
[[nodiscard]] bool slow_each_other(const CommunicationKey& first, const CommunicationKey& second);

// Of a kCollective or kP2p record.
[[nodiscard]] CommunicationKey communication_key(const RangeRecord& record);
// The power of two that is nearest in ratio; 0 stays 0. Slowdowns of neighbouring sizes are one cost.
[[nodiscard]] std::int64_t bytes_bucket(std::int64_t bytes);

class CommunicationKeys final {
 public:
  explicit CommunicationKeys(std::size_t most = 4096) : most_(most), keys_(1) { keys_[0].primitive = "collective"; }

  [[nodiscard]] std::uint32_t number_of(const CommunicationKey& key);
  [[nodiscard]] const CommunicationKey& at(std::uint32_t number) const { return keys_.at(number); }

 private:
  std::size_t most_;
  std::vector<CommunicationKey> keys_;
  std::map<CommunicationKey, std::uint32_t> numbers_;
};

}  // namespace trimtab::agent
