#pragma once

// Costs on their way into batches: collected in memory by job, fingerprint and source, then cut into batches of a
// bounded size. What finds no room there waits here, merged by key, and so takes no more memory with time; new keys of
// training beyond kMostWaiting, and of benchmarks beyond twice as many, are dropped and counted. Pure.

#include "schema/cost.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

// Whose costs they are.
struct CostOwner {
  std::string job;
  std::string fingerprint_json;
  auto operator<=>(const CostOwner&) const = default;
};
struct CostOrigin {
  CostOwner owner;
  CostSource source;
  [[nodiscard]] bool of_benchmark() const { return source.kind == CostSource::Kind::kBenchmark; }
  auto operator<=>(const CostOrigin&) const = default;
};

class CostCollection {
 public:
  static constexpr std::size_t kMostWaiting = 20'000;  // some 10 MiB

  // By their own sources.
  void add(const CostOwner& owner, const std::vector<Cost>& costs);
  [[nodiscard]] bool empty() const { return costs_.empty(); }
  [[nodiscard]] std::size_t size() const { return waiting_; }       // costs
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }  // values of keys for which there was no room
  // Gives each origin's costs to `store`, in batches; what it refuses to take is kept for the next time.
  template <typename Store>
  void flush(const Store& store) {
    for (auto origin = costs_.begin(); origin != costs_.end();) {
      origin = flush_origin(origin->first, origin->second, store) ? costs_.erase(origin) : std::next(origin);
    }
  }

 private:
  using Collected = std::map<CostKey, Statistics>;
  template <typename Store>
  bool flush_origin(const CostOrigin& origin, Collected& costs, const Store& store) {
    while (!costs.empty()) {
      std::vector<Cost> batch;
      auto end = costs.begin();
      for (std::size_t bytes = 0; end != costs.end() && bytes < kBatchBytes; ++end) {
        batch.push_back({end->first, end->second, origin.source});
        bytes += size_of(batch.back());
      }
      if (!store(origin, batch)) return false;
      waiting_ -= batch.size();
      costs.erase(costs.begin(), end);
    }
    return true;
  }
  void add(const CostOrigin& origin, const Cost& cost);
  [[nodiscard]] static std::size_t size_of(const Cost& cost);

  // Eight seconds at 64 kbit/s, in which nothing else is heard of the agent.
  static constexpr std::size_t kBatchBytes = 64U << 10;
  std::map<CostOrigin, Collected> costs_;
  std::size_t waiting_ = 0;
  std::uint64_t dropped_ = 0;
};

// A batch without its number, serialized, and back. One batch is of one source.
[[nodiscard]] std::string encode_batch(const CostOrigin& origin, const std::vector<Cost>& costs);
struct DecodedBatch {
  CostOrigin origin;
  std::vector<Cost> costs;
};
// Fails for one of a release that knows other costs, and for a damaged one.
[[nodiscard]] Result<DecodedBatch> decode_batch(std::string_view payload);
// Whether a coordinator can be asked to take it, whatever it holds.
[[nodiscard]] bool is_batch(std::string_view payload);

}  // namespace trimtab::agent
