
#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "costs/batch_insertion.hpp"
#include "schema/server_inspection.hpp"

namespace trimtab {

namespace {

using cost_tables::CostPlace;
using cost_tables::CostQuery;

constexpr std::size_t kFoldedAtOnce = 16;

DatabaseMode database_mode(OpenMode mode) {
  return mode == OpenMode::kCreate      ? DatabaseMode::kCreate
         : mode == OpenMode::kReadWrite ? DatabaseMode::kReadWrite
                                        : DatabaseMode::kReadOnly;
}

// Of keys up to and with an id: none is ever removed, and a file gives ids in their order.
struct KeyCount {
  std::uint64_t count = 0;
  std::int64_t last = 0;
};

Status check_batch(const BatchId& batch, const std::string& source) {
  if (batch.origin.empty() || source.empty()) return bad_input("a batch of costs needs an origin and a source");
  if (batch.number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return bad_input("batches are numbered below 2^63, found " + std::to_string(batch.number));
  }
  if (parse_cost_source(source).kind == CostSource::Kind::kTakenOver) {
    return bad_input("costs that are taken over were not measured on this hardware and are not stored: " + source);
  }
  return {};
}

}  // namespace

struct CostDatabase::Implementation {
  Database database;
  KnownRows known = {};
  KeyCount keys = {};
};

CostDatabase::CostDatabase(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
CostDatabase::CostDatabase(CostDatabase&&) noexcept = default;
CostDatabase& CostDatabase::operator=(CostDatabase&&) noexcept = default;
CostDatabase::~CostDatabase() = default;

Result<CostDatabase> CostDatabase::open(const std::string& name, OpenMode mode) {
  TRIMTAB_TRY(Database database, Database::open(name, database_mode(mode), cost_tables::migrations()));
  return CostDatabase(std::make_unique<Implementation>(Implementation{std::move(database)}));
}

const std::string& CostDatabase::name() const {
  return implementation_->database.name();
}

const std::string& CostDatabase::backup() const {
  return implementation_->database.backup();
}

DatabaseHealth CostDatabase::look_after() {
  return implementation_->database.look_after();
}

Result<bool> CostDatabase::add_batch(const BatchId& batch, const Fingerprint& fingerprint, const std::string& source,
                                     const std::vector<Cost>& costs) {
  const CostBatch one{batch, fingerprint, source, costs};
  TRIMTAB_TRY(const auto is_new, add_batches({&one, 1}));
  return bool{is_new.front()};
}

Result<std::vector<bool>> CostDatabase::add_batches(std::span<const CostBatch> batches) {
  for (const CostBatch& batch : batches) TRIMTAB_TRY_STATUS(check_batch(batch.id, batch.source));
  std::vector<bool> is_new;
  if (batches.empty()) return is_new;
  std::optional<BatchInsertion> insertion;
  const auto insert_all = [&]() -> Status {
    insertion.emplace(implementation_->database, batches, implementation_->known);
    TRIMTAB_TRY(is_new, insertion->run());
    return {};
  };
  TRIMTAB_TRY_STATUS(implementation_->database.transaction(insert_all));
  insertion->tell(implementation_->known);
  return is_new;
}

Result<OriginFindings> CostDatabase::compare(const OriginNumbers& said) {
  return cost_tables::find_of_origin(implementation_->database, said);
}

Result<std::vector<UnfoldedOrigin>> CostDatabase::unfolded_origins(std::int64_t after, std::size_t most) const {
  return cost_tables::unfolded_origins(implementation_->database, after, most);
}

Result<std::size_t> CostDatabase::fold_origins(std::span<const std::string> names) {
  std::size_t done = 0;
  if (names.empty()) return done;
  Database& database = implementation_->database;
  const auto fold = [&]() -> Status {
    TRIMTAB_TRY(done, cost_tables::fold_some(database, names.first(std::min(names.size(), kFoldedAtOnce))));
    return {};
  };
  TRIMTAB_TRY_STATUS(database.transaction(fold));
  return done;
}

namespace {

using MergedCosts = std::map<std::pair<std::int64_t, CostSource>, Statistics>;

// By key and source.
Result<std::vector<Cost>> costs_of(MergedCosts merged, const std::map<std::int64_t, CostKey>& keys) {
  std::vector<Cost> result;
  for (auto& [place, statistics] : merged) {
    const auto key = keys.find(place.first);
    if (key == keys.end()) continue;  // the key could not be read, and what it cost says nothing without it
    result.push_back({key->second, std::move(statistics), place.second});
  }
  std::ranges::sort(result,
                    [](const Cost& a, const Cost& b) { return std::tie(a.key, a.source) < std::tie(b.key, b.source); });
  return result;
}

Result<MergedCosts> read_merged(const Database& database, const CostQuery& query) {
  MergedCosts merged;
  TRIMTAB_TRY_STATUS(cost_tables::read_values(database, query, [&](const CostPlace& place, const Statistics& one) {
    merged[{place.key, parse_cost_source(place.source)}].merge(one);
  }));
  return merged;
}

std::set<std::int64_t> ids_of(const std::map<std::int64_t, CostKey>& keys) {
  std::set<std::int64_t> ids;
  for (const auto& [id, key] : keys) ids.insert(id);
  return ids;
}

}  // namespace

Result<std::vector<Cost>> CostDatabase::costs(const std::string& fingerprint_hash, const std::vector<CostKind>& kinds,
                                              const std::string& source) const {
  const Database& database = implementation_->database;
  MergedCosts merged;
  std::map<std::int64_t, CostKey> keys;
  const auto read = [&]() -> Status {
    TRIMTAB_TRY(keys, cost_tables::read_keys(database, kinds));
    CostQuery query{fingerprint_hash, source, std::nullopt};
    if (!kinds.empty()) query.keys = ids_of(keys);
    TRIMTAB_TRY(merged, read_merged(database, query));
    return {};
  };
  TRIMTAB_TRY_STATUS(database.snapshot(read));
  return costs_of(std::move(merged), keys);
}

Result<CostPage> CostDatabase::costs_page(const std::string& fingerprint_hash, std::int64_t after,
                                          std::size_t most) const {
  const Database& database = implementation_->database;
  MergedCosts merged;
  cost_tables::KeyPage keys;
  const auto read = [&]() -> Status {
    TRIMTAB_TRY(keys, cost_tables::read_keys_after(database, after, most));
    if (keys.keys.empty()) return {};
    TRIMTAB_TRY(merged, read_merged(database, {fingerprint_hash, "", ids_of(keys.keys)}));
    return {};
  };
  TRIMTAB_TRY_STATUS(database.snapshot(read));
  CostPage page;
  page.next = keys.next;
  TRIMTAB_TRY(page.costs, costs_of(std::move(merged), keys.keys));
  return page;
}

Result<std::vector<CostRow>> CostDatabase::rows() const {
  const Database& database = implementation_->database;
  cost_tables::CostSums merged;
  std::map<std::int64_t, CostKey> keys;
  const auto read = [&]() -> Status {
    TRIMTAB_TRY(keys, cost_tables::read_keys(database, {}));
    return cost_tables::read_values(database, {},
                                    [&](const CostPlace& place, const Statistics& one) { merged[place].merge(one); });
  };
  TRIMTAB_TRY_STATUS(database.snapshot(read));
  std::vector<CostRow> result;
  for (auto& [place, statistics] : merged) {
    const auto key = keys.find(place.key);
    if (key == keys.end()) continue;
    result.push_back(
        {place.fingerprint, place.source, {key->second, std::move(statistics), parse_cost_source(place.source)}});
  }
  std::ranges::sort(result, [](const CostRow& a, const CostRow& b) {
    return std::tie(a.fingerprint, a.source, a.cost.key) < std::tie(b.fingerprint, b.source, b.cost.key);
  });
  return result;
}

namespace {

Result<std::vector<Fingerprint>> parse_fingerprints(const Database& database, const Rows& rows) {
  std::vector<Fingerprint> result;
  for (const Row& row : rows) {
    if (as_text(row[1]).empty()) continue;  // its text could not be read
    TRIMTAB_TRY(Fingerprint fingerprint, parse_fingerprint(as_text(row[1]), database.name()));
    result.push_back(std::move(fingerprint));
  }
  return result;
}

}  // namespace

Result<std::vector<Fingerprint>> CostDatabase::fingerprints() const {
  const Database& database = implementation_->database;
  TRIMTAB_TRY(const auto found, database.query_checked(cost_tables::fingerprint_rows(), "ORDER BY hash"));
  return parse_fingerprints(database, found.rows);
}

// Some may be left out that cannot be read: what follows is asked for until there are enough.
Result<std::vector<Fingerprint>> CostDatabase::fingerprints_after(const std::string& after, std::size_t most) const {
  const Database& database = implementation_->database;
  std::vector<Fingerprint> result;
  for (std::string from = after; result.size() < most;) {
    TRIMTAB_TRY(const auto hashes, database.query("SELECT hash FROM fingerprints WHERE hash > ? ORDER BY hash LIMIT ?",
                                                  {from, static_cast<std::int64_t>(most - result.size())}));
    if (hashes.empty()) break;
    const std::string last = as_text(hashes.back()[0]);
    TRIMTAB_TRY(const auto found, database.query_checked(cost_tables::fingerprint_rows(),
                                                         "WHERE hash > ? AND hash <= ? ORDER BY hash", {from, last}));
    TRIMTAB_TRY(auto some, parse_fingerprints(database, found.rows));
    std::ranges::move(some, std::back_inserter(result));
    from = last;
  }
  return result;
}

// On a server a lower id may be committed later, and an older copy may have been restored: all keys are counted there.
Result<std::uint64_t> CostDatabase::key_count() const {
  const Database& database = implementation_->database;
  KeyCount& known = implementation_->keys;
  if (names_server(database.name())) known = {};
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT COUNT(*), COALESCE(MAX(id), ?1) FROM cost_keys WHERE id > ?1", {known.last}));
  known.count += static_cast<std::uint64_t>(as_integer(rows.at(0)[0]));
  known.last = as_integer(rows[0][1]);
  return std::uint64_t{known.count};
}

Result<std::optional<Bytes>> CostDatabase::used_bytes() const {
  const Database& database = implementation_->database;
  if (names_server(database.name())) return std::optional<Bytes>();
  TRIMTAB_TRY(const auto rows, database.query("SELECT (page_count - freelist_count) * page_size "
                                              "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"));
  return std::optional<Bytes>(as_integer(rows.at(0)[0]));
}

Result<MergeCounts> CostDatabase::merge_from(const std::string& other) {
  TRIMTAB_TRY(const CostDatabase theirs, open(other, OpenMode::kReadOnly));
  return merge_from(theirs);
}

Result<MergeCounts> CostDatabase::merge_from(const CostDatabase& other) {
  Database& theirs = other.implementation_->database;
  Database& ours = implementation_->database;
  MergeCounts counts;
  const auto merge = [&]() -> Status {
    TRIMTAB_TRY(counts, cost_tables::merge_costs(ours, theirs));
    return {};
  };
  // Their writer may go on, we see one moment.
  TRIMTAB_TRY_STATUS(theirs.snapshot([&] { return ours.transaction(merge); }));
  return counts;
}

Result<ContributionCounts> CostDatabase::contribute(const Contributor& who, std::span<const ContributedCosts> costs) {
  Database& database = implementation_->database;
  ContributionCounts counts;
  TRIMTAB_TRY_STATUS(database.transaction([&]() -> Status {
    TRIMTAB_TRY(counts, cost_tables::contribute(database, who, costs));
    return {};
  }));
  return counts;
}

Result<RemovedCosts> CostDatabase::remove_contributed(const std::string& contributor, std::size_t most) {
  Database& database = implementation_->database;
  RemovedCosts removed;
  TRIMTAB_TRY_STATUS(database.transaction([&]() -> Status {
    TRIMTAB_TRY(removed, cost_tables::remove_contributed(database, contributor, static_cast<std::int64_t>(most)));
    return {};
  }));
  return removed;
}

Result<std::vector<ContributorSummary>> CostDatabase::contributors() const {
  TRIMTAB_TRY(const auto contributions, cost_tables::read_contributions(implementation_->database));
  std::map<std::string, ContributorSummary> by_name;
  for (const auto& [origin, one] : contributions) {
    const auto [found, fresh] =
        by_name.try_emplace(one.contributor, ContributorSummary{one.contributor, 0, one.first_ns, one.last_ns});
    ContributorSummary& summary = found->second;
    summary.costs += static_cast<std::uint64_t>(one.costs);
    summary.first_ns = std::min(summary.first_ns, one.first_ns);
    summary.last_ns = std::max(summary.last_ns, one.last_ns);
  }
  std::vector<ContributorSummary> summaries;
  for (auto& [name, summary] : by_name) summaries.push_back(std::move(summary));
  return summaries;
}

Result<CostParts> CostDatabase::parts_after(const std::string& after, std::size_t most) const {
  const Database& database = implementation_->database;
  CostParts parts;
  TRIMTAB_TRY_STATUS(database.snapshot([&]() -> Status {
    TRIMTAB_TRY(parts, cost_tables::parts_after(database, after, most));
    return {};
  }));
  return parts;
}

Status CostDatabase::put_parts(const CostParts& parts) {
  Database& database = implementation_->database;
  return database.transaction([&] { return cost_tables::put_parts(database, parts); });
}

Status CostDatabase::put_fact(const std::string& fingerprint_hash, const std::string& name, const std::string& json) {
  return implementation_->database.execute(
      "INSERT INTO facts (fingerprint, name, revision, json, checksum) VALUES (?, ?, 1, ?, ?) ON CONFLICT "
      "(fingerprint, "
      "name) DO UPDATE SET revision = facts.revision + 1, json = excluded.json, checksum = excluded.checksum",
      with_checksum({fingerprint_hash, name, json}));
}

// A fact that is not there is stored empty first, so that two who make it wait for each other.
Status CostDatabase::change_fact(const std::string& fingerprint_hash, const std::string& name,
                                 const FactChange& change) {
  Database& database = implementation_->database;
  return database.transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(
        database.execute("INSERT INTO facts (fingerprint, name, revision, json, checksum) VALUES (?, ?, 0, ?, ?) "
                         "ON CONFLICT (fingerprint, name) DO NOTHING",
                         with_checksum({fingerprint_hash, name, std::string()})));
    TRIMTAB_TRY(const auto rows,
                database.query("SELECT revision FROM facts WHERE fingerprint = ? AND name = ?" + database.row_lock(),
                               {fingerprint_hash, name}));
    const bool known = !rows.empty() && as_integer(rows[0][0]) > 0;
    TRIMTAB_TRY(const auto there, fact(fingerprint_hash, name));
    return put_fact(fingerprint_hash, name, change(known && there ? &*there : nullptr));
  });
}

Result<std::optional<std::string>> CostDatabase::fact(const std::string& fingerprint_hash,
                                                      const std::string& name) const {
  TRIMTAB_TRY(const auto found,
              implementation_->database.query_checked(cost_tables::fact_rows(), "WHERE fingerprint = ? AND name = ?",
                                                      {fingerprint_hash, name}));
  return found.rows.empty() ? std::optional<std::string>() : std::optional(as_text(found.rows[0][2]));
}

Result<ServerInspection> inspect_cost_server(const std::string& name) {
  return inspect_server(name, cost_tables::migrations(), false);
}

}  // namespace trimtab
