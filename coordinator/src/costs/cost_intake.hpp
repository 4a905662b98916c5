#pragma once

// Batches of costs from agents into the merged cost database. A batch counts once; what is acknowledged is committed.
// Batches of many agents are committed together (group commit), and each is answered after that.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "agents/membership.hpp"
#include "base/log_pace.hpp"
#include "needs.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::coordinator {

// How many values stored costs consist of.
struct MeasuredValues {
  std::uint64_t all = 0;
  std::uint64_t disturbed = 0;  // of them, while others used the machine (schema/cost_source.hpp)
};

// What is told of a batch that is stored, or refused for good.
struct BatchAnswer {
  std::uint64_t peer = 0;
  std::uint64_t number = 0;
  std::string node;
  std::string job;
  std::string refused;      // why it can never be stored; empty: it can
  std::string fingerprint;  // hash
  bool has_active = false;  // costs that a benchmark measured
  MeasuredValues values = {};
};

// A batch as far as it can be read.
struct ReadBatch {
  BatchAnswer answer;
  std::vector<CostBatch> parts;
};

// Longer texts of keys, which no agent makes, are not read: they are stored for ever, and twice (the index).
inline constexpr std::size_t kLongestKey = std::size_t{2} << 10;

// Reads batches. Agents repeat their keys and fingerprints, so the texts of these are read once and remembered, in
// bounded memory.
class BatchReader {
 public:
  // Entries that cannot be read are left out and counted: the batch is stored without them, since the agent could only
  // send the same again.
  // `instance`: the agent's.
  [[nodiscard]] ReadBatch read(const std::string& instance, const wire::CostBatch& batch, Counters& counters);

 private:
  using Sources = std::map<std::string, std::vector<Cost>>;
  Sources by_source(const wire::CostBatch& batch, Counters& counters);
  const CostKey* key_of(const std::string& json);
  Result<NamedFingerprint> fingerprint_of(const std::string& json, const std::string& source);

  std::unordered_map<std::string, CostKey> keys_;
  std::unordered_map<std::string, NamedFingerprint> fingerprints_;
  std::size_t key_bytes_ = 0;
  std::size_t fingerprint_bytes_ = 0;
};

// What waits for the next commit.
class CostIntake {
 public:
  using Tell = std::function<void(const BatchAnswer&)>;
  // More costs than this, as they came, do not wait: memory stays bounded however many agents send at once, and so does
  // the time that a commit keeps everything else waiting.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  // `tell` is called for each batch, in the order they came, after the commit that holds it. What could not be stored
  // is told nothing of: there must be no acknowledgement, and the agent sends the batch again.
  CostIntake(const CostNeeds& services, Tell tell) : services_(services), tell_(std::move(tell)) {}

  void take(std::uint64_t peer, const Member& member, const wire::CostBatch& batch);
  void commit();
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] bool full() const { return bytes_ >= kMostBytes; }

 private:
  struct Waiting {
    BatchAnswer answer;
    std::size_t parts = 0;  // of `parts_`, where they stand in the same order
    bool stored = false;
  };
  void say(const std::string& failure);
  Status store(std::span<Waiting> group, std::span<const CostBatch> parts);
  void store_each(std::span<Waiting> group, std::span<const CostBatch> parts);

  const CostNeeds& services_;
  Tell tell_;
  BatchReader reader_;
  std::vector<Waiting> waiting_;
  std::vector<CostBatch> parts_;
  std::size_t bytes_ = 0;
  LogPace pace_;
};

}  // namespace trimtab::coordinator
