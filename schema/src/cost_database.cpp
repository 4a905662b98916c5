#include "schema/cost_database.hpp"

#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "cost_merge.hpp"
#include "cost_tables.hpp"
#include "schema/database.hpp"

namespace trimtab {

namespace {

using cost_tables::StoredCost;

DatabaseMode database_mode(OpenMode mode) {
  return mode == OpenMode::kCreate      ? DatabaseMode::kCreate
         : mode == OpenMode::kReadWrite ? DatabaseMode::kReadWrite
                                        : DatabaseMode::kReadOnly;
}

// One cost a key, also where the caller names a key twice or spells it in two ways; without those that have no values.
std::map<CostKey, Statistics> by_key(const std::vector<Cost>& costs) {
  std::map<CostKey, Statistics> result;
  for (const Cost& cost : costs) {
    if (!cost.statistics.empty()) result[canonical(cost.key)].merge(cost.statistics);
  }
  return result;
}

std::set<CostKey> keys_of(const std::map<CostKey, Statistics>& values) {
  std::set<CostKey> keys;
  for (const auto& [key, statistics] : values) keys.insert(key);
  return keys;
}

std::string placeholders(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += i == 0 ? "?" : ", ?";
  return text;
}

// One cost's values: what was measured here goes before what others say of it.
class BySource {
 public:
  void add(const std::string& source, const Statistics& statistics) {
    (source.starts_with("import:") ? imported_ : measured_).merge(statistics);
  }
  [[nodiscard]] Statistics best() && { return std::move(measured_.empty() ? imported_ : measured_); }

 private:
  Statistics measured_;
  Statistics imported_;
};

Status check_batch(const BatchId& batch, const std::string& source) {
  if (batch.origin.empty() || source.empty()) return bad_input("a batch of costs needs an origin and a source");
  if (batch.number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return bad_input("batches are numbered below 2^63, found " + std::to_string(batch.number));
  }
  return {};
}

}  // namespace

struct CostDatabase::Implementation {
  Database database;

  Status insert(const BatchId& batch, const Fingerprint& fingerprint, const std::string& source,
                const std::vector<Cost>& costs, bool& added);
};

Status CostDatabase::Implementation::insert(const BatchId& batch, const Fingerprint& fingerprint,
                                            const std::string& source, const std::vector<Cost>& costs, bool& added) {
  const auto number = static_cast<std::int64_t>(batch.number);
  TRIMTAB_TRY(const auto origin, cost_tables::intern_origin(database, batch.origin));
  TRIMTAB_TRY(const bool known, cost_tables::has_batch(database, origin, number));
  added = !known;
  if (known) return {};
  TRIMTAB_TRY_STATUS(cost_tables::insert_batches(database, origin, {number}));
  const std::string fingerprint_hash = hash(fingerprint);
  TRIMTAB_TRY_STATUS(cost_tables::put_fingerprint(database, fingerprint_hash, to_json(fingerprint)));
  const std::map<CostKey, Statistics> values = by_key(costs);
  TRIMTAB_TRY(const auto ids, cost_tables::intern_keys(database, keys_of(values)));
  std::vector<StoredCost> stored;
  for (const auto& [key, statistics] : values) {
    stored.push_back({{fingerprint_hash, ids.at(key), source}, number, statistics.encode()});
  }
  TRIMTAB_TRY_STATUS(cost_tables::put_costs(database, origin, stored));
  // Asking at every batch would read all single batches each time.
  constexpr std::int64_t kFoldEvery = 64;
  return number % kFoldEvery == 0 ? cost_tables::fold(database, origin) : Status();
}

CostDatabase::CostDatabase(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
CostDatabase::CostDatabase(CostDatabase&&) noexcept = default;
CostDatabase& CostDatabase::operator=(CostDatabase&&) noexcept = default;
CostDatabase::~CostDatabase() = default;

Result<CostDatabase> CostDatabase::open(const std::string& name, OpenMode mode) {
  TRIMTAB_TRY(Database database, Database::open(name, database_mode(mode), cost_tables::migrations()));
  return CostDatabase(std::make_unique<Implementation>(Implementation{std::move(database)}));
}

Result<bool> CostDatabase::add_batch(const BatchId& batch, const Fingerprint& fingerprint, const std::string& source,
                                     const std::vector<Cost>& costs) {
  TRIMTAB_TRY_STATUS(check_batch(batch, source));
  bool added = false;
  TRIMTAB_TRY_STATUS(implementation_->database.transaction(
      [&] { return implementation_->insert(batch, fingerprint, source, costs, added); }));
  return added;
}

Result<std::uint64_t> CostDatabase::add_batches(const std::vector<CostBatch>& batches) {
  for (const CostBatch& batch : batches) TRIMTAB_TRY_STATUS(check_batch(batch.id, batch.source));
  std::uint64_t count = 0;
  const auto insert_all = [&]() -> Status {
    count = 0;
    for (const CostBatch& batch : batches) {
      bool added = false;
      TRIMTAB_TRY_STATUS(implementation_->insert(batch.id, batch.fingerprint, batch.source, batch.costs, added));
      count += added ? 1 : 0;
    }
    return {};
  };
  TRIMTAB_TRY_STATUS(implementation_->database.transaction(insert_all));
  return count;
}

Result<std::vector<Cost>> CostDatabase::costs(const std::string& fingerprint_hash, const std::vector<CostKind>& kinds,
                                              const std::string& source) const {
  std::string sql = std::string("SELECT c.statistics, c.source, ") + cost_tables::kKeyColumns +
                    " FROM costs c JOIN cost_keys k ON k.id = c.cost_key WHERE c.fingerprint = ?";
  Row arguments{fingerprint_hash};
  if (!kinds.empty()) sql += " AND k.kind IN (" + placeholders(kinds.size()) + ")";
  for (const CostKind kind : kinds) arguments.emplace_back(std::string(to_string(kind)));
  if (!source.empty()) {
    sql += " AND c.source = ?";
    arguments.emplace_back(source);
  }
  TRIMTAB_TRY(const auto rows, implementation_->database.query(sql, arguments));
  std::map<CostKey, BySource> merged;
  for (const Row& row : rows) {
    TRIMTAB_TRY(const CostKey key, cost_tables::parse_key(row, 2));
    TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[0])));
    merged[key].add(as_text(row[1]), statistics);
  }
  std::vector<Cost> result;
  for (auto& [key, sources] : merged) result.push_back({key, std::move(sources).best()});
  return result;
}

Result<std::optional<Cost>> CostDatabase::find(const std::string& fingerprint_hash, const CostKey& key) const {
  Cost cost{canonical(key), {}};
  TRIMTAB_TRY(const auto id, cost_tables::find_key(implementation_->database, cost.key));
  if (!id) return std::optional<Cost>();
  TRIMTAB_TRY(const auto rows, implementation_->database.query(
                                   "SELECT statistics, source FROM costs WHERE fingerprint = ? AND cost_key = ?",
                                   {fingerprint_hash, *id}));
  if (rows.empty()) return std::optional<Cost>();
  BySource sources;
  for (const Row& row : rows) {
    TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[0])));
    sources.add(as_text(row[1]), statistics);
  }
  cost.statistics = std::move(sources).best();
  return std::optional(std::move(cost));
}

Result<std::vector<CostRow>> CostDatabase::rows() const {
  TRIMTAB_TRY(const auto rows, implementation_->database.query(
                                   std::string("SELECT c.fingerprint, c.source, c.statistics, ") +
                                   cost_tables::kKeyColumns + " FROM costs c JOIN cost_keys k ON k.id = c.cost_key"));
  std::map<std::tuple<std::string, std::string, CostKey>, Statistics> merged;
  for (const Row& row : rows) {
    TRIMTAB_TRY(const CostKey key, cost_tables::parse_key(row, 3));
    TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[2])));
    merged[{as_text(row[0]), as_text(row[1]), key}].merge(statistics);
  }
  std::vector<CostRow> result;
  for (auto& [place, statistics] : merged) {
    const auto& [fingerprint, source, key] = place;
    result.push_back({fingerprint, source, {key, std::move(statistics)}});
  }
  return result;
}

Result<std::vector<Fingerprint>> CostDatabase::fingerprints() const {
  TRIMTAB_TRY(const auto rows, implementation_->database.query("SELECT json FROM fingerprints ORDER BY hash"));
  std::vector<Fingerprint> result;
  for (const Row& row : rows) {
    TRIMTAB_TRY(Fingerprint fingerprint, parse_fingerprint(as_text(row[0]), implementation_->database.name()));
    result.push_back(std::move(fingerprint));
  }
  return result;
}

Result<std::uint64_t> CostDatabase::cost_count() const {
  TRIMTAB_TRY(const auto rows,
              implementation_->database.query(
                  "SELECT count(*) FROM (SELECT DISTINCT fingerprint, cost_key, source FROM costs) AS places"));
  return static_cast<std::uint64_t>(as_integer(rows[0][0]));
}

Result<std::uint64_t> CostDatabase::merge_from(const std::string& other) {
  TRIMTAB_TRY(Database theirs, Database::open(other, DatabaseMode::kReadOnly, cost_tables::migrations()));
  Database& ours = implementation_->database;
  std::uint64_t added = 0;
  const auto merge = [&]() -> Status {
    TRIMTAB_TRY(added, merge_costs(ours, theirs));
    return {};
  };
  // Their writer may go on, we see one moment.
  TRIMTAB_TRY_STATUS(theirs.snapshot([&] { return ours.transaction(merge); }));
  return added;
}

Status CostDatabase::put_fact(const std::string& fingerprint_hash, const std::string& name, const std::string& json) {
  return implementation_->database.execute(
      "INSERT INTO facts (fingerprint, name, revision, json) VALUES (?, ?, 1, ?) ON CONFLICT (fingerprint, name) "
      "DO UPDATE SET revision = facts.revision + 1, json = excluded.json",
      {fingerprint_hash, name, json});
}

Result<std::optional<std::string>> CostDatabase::fact(const std::string& fingerprint_hash,
                                                      const std::string& name) const {
  TRIMTAB_TRY(const auto rows,
              implementation_->database.query("SELECT json FROM facts WHERE fingerprint = ? AND name = ?",
                                              {fingerprint_hash, name}));
  return rows.empty() ? std::optional<std::string>() : std::optional(as_text(rows[0][0]));
}

}  // namespace trimtab
