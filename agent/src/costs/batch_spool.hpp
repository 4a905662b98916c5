#pragma once

// Cost batches on disk until the coordinator has acknowledged them. A batch is stored before it is sent and keeps its
// number, so an agent that is killed at any moment sends it again under the same number, and the coordinator counts it
// once. Bounded: beyond the limit passive batches are not taken, beyond twice the limit none is. None that has a number
// is ever given up: the coordinator folds an origin's batches for as long as none is missing (schema/README.md). One
// owner thread.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "schema/database.hpp"

namespace trimtab::agent {

struct SpooledBatch {
  std::uint64_t id = 0;
  std::string payload;
};

class BatchSpool {
 public:
  // `database` must outlive the spool.
  [[nodiscard]] static Result<BatchSpool> open(Database& database, Bytes limit);

  // The batch's number; 0 when it found no room and is not stored. Active batches (asked-for benchmarks) find some up
  // to twice the limit. On failure (disk full) nothing is stored.
  [[nodiscard]] Result<std::uint64_t> put(bool active, const std::string& payload);
  // Also of a batch that is not there (any more).
  [[nodiscard]] Status acknowledge(std::uint64_t id);
  // Those with larger numbers than `after`, oldest first.
  [[nodiscard]] Result<std::vector<SpooledBatch>> next(std::uint64_t after, std::size_t count) const;

  // Of a release that knows other costs, or damaged. A copy is kept aside under `instance`, and the batch stays in the
  // spool; where no coordinator can read it either, it leaves.
  [[nodiscard]] Status set_aside(const std::string& instance, const SpooledBatch& batch, const std::string& reason,
                                 bool leaves);
  struct AsideBatch {
    std::string instance;
    SpooledBatch batch;
  };
  // Those with larger names and numbers than `after`, in order.
  [[nodiscard]] Result<std::vector<AsideBatch>> next_aside(const AsideBatch& after, std::size_t count) const;
  [[nodiscard]] Status forget_aside(const AsideBatch& aside);
  // How many are kept aside.
  [[nodiscard]] std::uint64_t aside() const { return aside_; }

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] Bytes limit() const { return limit_; }

 private:
  BatchSpool(Database& database, Bytes limit) : database_(&database), limit_(limit) {}
  [[nodiscard]] Status count_aside();

  Database* database_;
  Bytes limit_;
  Bytes bytes_ = 0;
  std::uint64_t aside_ = 0;
};

}  // namespace trimtab::agent
