#pragma once

// Many batches into the cost database's tables in one transaction: each table is asked, and changed, once for all of
// them, so a server needs few round trips.

#include "costs/cost_tables.hpp"

namespace trimtab {

// Rows of a file that were committed and never change: they need not be looked for again. A server may have been
// restored from an older copy meanwhile, so nothing is remembered of one.
class KnownRows {
 public:
  [[nodiscard]] const std::map<CostKey, std::int64_t>& keys() const { return keys_; }
  [[nodiscard]] bool has_fingerprint(const std::string& hash) const { return fingerprints_.contains(hash); }
  void remember(const std::map<CostKey, std::int64_t>& keys, const std::set<std::string>& fingerprints);

 private:
  std::map<CostKey, std::int64_t> keys_;
  std::set<std::string> fingerprints_;
};

// For one run of a transaction's body.
class BatchInsertion {
 public:
  // All must outlive it.
  BatchInsertion(Database& database, std::span<const CostBatch> batches, const KnownRows& known)
      : database_(database), batches_(batches), known_(known) {}

  // For each batch whether it was new. A new one is stored, and its origin is folded from time to time.
  [[nodiscard]] Result<std::vector<bool>> run();
  // Once the transaction is committed.
  void tell(KnownRows& known) const;

 private:
  Status find_origins();
  Status find_new();
  Status put_fingerprints();
  Status find_keys();
  Status store();
  Status fold();
  [[nodiscard]] const cost_tables::Origin& origin_of(const CostBatch& batch) const;
  [[nodiscard]] std::int64_t id_of(const CostKey& key) const;
  [[nodiscard]] std::string text_of(const std::vector<Cost>& costs) const;

  Database& database_;
  std::span<const CostBatch> batches_;
  const KnownRows& known_;
  std::map<std::string, cost_tables::Origin> origins_;
  std::vector<bool> is_new_;
  std::set<std::string> fingerprints_;   // of new batches, where not known
  std::map<CostKey, std::int64_t> ids_;  // the same
};

}  // namespace trimtab
