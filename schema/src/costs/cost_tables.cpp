#include "costs/cost_tables.hpp"

#include <iterator>
#include <limits>

#include "cost_migrations.hpp"
#include "cost_server_migrations.hpp"

namespace trimtab::cost_tables {

namespace {

constexpr std::uint32_t kApplicationId = 0x74724331;  // "trC1"
constexpr const char* kFindKey =
    "SELECT id FROM cost_keys WHERE kind = ?1 AND subject = ?2 AND dtype = ?3 AND samples = ?4 AND tp = ?5 "
    "AND sharding = ?6 AND bytes = ?7 AND group_size = ?8 AND placement = ?9 AND algorithm = ?10 AND protocol = ?11 "
    "AND channels = ?12 AND kernel_class = ?13";
// The index of a server's keys holds this instead of their texts.
constexpr const char* kByDigest =
    " AND sha256(sha256(kind) || sha256(subject) || sha256(dtype) || sha256(sharding) || sha256(placement) || "
    "sha256(algorithm) || sha256(protocol) || sha256(kernel_class)) = "
    "sha256(sha256(?1) || sha256(?2) || sha256(?3) || sha256(?6) || sha256(?9) || sha256(?10) || sha256(?11) || "
    "sha256(?13))";
constexpr const char* kKeyColumns =
    "kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, algorithm, protocol, channels, "
    "kernel_class";
// Another writer may have added the same key since it was looked for.
constexpr const char* kKeyValues = ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

// What is referred to and could not be read is made again, so that its number means nothing else later: keys that no
// cost has, origins that nobody sends under, fingerprints whose text comes again with their next batch.
constexpr const char* kKeysAgain =
    "WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 1000 + max(coalesce((SELECT "
    "max(id) FROM cost_keys), 0), coalesce((SELECT max(cost_key) FROM costs), 0))) "
    "INSERT INTO cost_keys (id, kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, algorithm, "
    "protocol, channels, kernel_class, checksum) SELECT id, 'set apart', id, '', 0, 0, '', 0, 0, '', '', '', 0, '', "
    "row_checksum(id, 'set apart', CAST(id AS TEXT), '', 0, 0, '', 0, 0, '', '', '', 0, '') FROM ids "
    "WHERE id NOT IN (SELECT id FROM cost_keys) AND EXISTS (SELECT 1 FROM set_apart WHERE place = 'cost_keys')";
constexpr const char* kOriginsOfTheOther =
    "INSERT OR IGNORE INTO origins (id, name, folded, node, checksum) SELECT id, name, folded, node, checksum FROM "
    "origins_again";
constexpr const char* kOtherOrigins =
    "INSERT OR REPLACE INTO origins_again SELECT id, name, folded, node, checksum FROM origins";
constexpr const char* kOriginsAgain =
    "INSERT INTO origins (id, name, folded) SELECT origin, 'set apart ' || lower(hex(randomblob(8))), max(1, "
    "coalesce((SELECT min(number) - 1 FROM batches b WHERE b.origin = used.origin AND number > 0), 1)) FROM (SELECT "
    "origin FROM costs UNION SELECT origin FROM batches) used WHERE origin NOT IN (SELECT id FROM origins)";
constexpr const char* kOriginsChecked =
    "UPDATE origins SET checksum = row_checksum(id, name, folded, node) WHERE checksum = 0";
// An origin that is contributed says so by its name.
constexpr const char* kContributionsAgain =
    "INSERT INTO contributions (origin, contributor, first_ns, last_ns, costs, checksum) SELECT id, who, 0, 0, 0, 0 "
    "FROM (SELECT id, substr(name, 14, instr(substr(name, 14), '/') - 1) AS who FROM origins WHERE name LIKE "
    "'/contributed/%/%') WHERE id NOT IN (SELECT origin FROM contributions)";
constexpr const char* kContributionsKept = "DELETE FROM contributions WHERE origin NOT IN (SELECT id FROM origins)";
constexpr const char* kContributionsCounted =
    "UPDATE contributions SET costs = (SELECT COUNT(*) FROM costs c WHERE c.origin = contributions.origin)";
constexpr const char* kContributionsChecked =
    "UPDATE contributions SET checksum = row_checksum(origin, contributor, first_ns, last_ns, costs)";
constexpr const char* kFingerprintsAgain =
    "INSERT INTO fingerprints (hash, json, checksum) SELECT fingerprint, '', row_checksum(fingerprint, '') FROM "
    "(SELECT "
    "fingerprint FROM costs UNION SELECT fingerprint FROM batches WHERE fingerprint IS NOT NULL) used WHERE "
    "fingerprint "
    "NOT IN (SELECT hash FROM fingerprints)";

// What documents may have, too: else one row would keep everybody from the whole.
Result<std::int64_t> number_of(const Value& value, std::int64_t least, std::int64_t most) {
  const std::int64_t number = as_integer(value);
  if (number >= least && number <= most) return std::int64_t{number};
  return bad_input("a stored cost key has the number " + std::to_string(number) + ", which is out of range");
}

Result<std::int32_t> int32_of(const Value& value, std::int64_t least = 0) {
  TRIMTAB_TRY(const std::int64_t number, number_of(value, least, std::numeric_limits<std::int32_t>::max()));
  return static_cast<std::int32_t>(number);
}

// Of a row that begins with the key's id.
Result<CostKey> parse_key(const Row& row) {
  CostKey key;
  TRIMTAB_TRY(key.kind, parse_cost_kind(as_text(row[1])));
  key.subject = as_text(row[2]);
  key.dtype = as_text(row[3]);
  TRIMTAB_TRY(key.samples, int32_of(row[4]));
  TRIMTAB_TRY(key.tp, int32_of(row[5], 1));
  key.sharding = as_text(row[6]);
  TRIMTAB_TRY(key.bytes, number_of(row[7], 0, std::numeric_limits<std::int64_t>::max()));
  TRIMTAB_TRY(key.group_size, int32_of(row[8]));
  key.placement = as_text(row[9]);
  key.algorithm = as_text(row[10]);
  key.protocol = as_text(row[11]);
  TRIMTAB_TRY(key.channels, int32_of(row[12]));
  key.kernel_class = as_text(row[13]);
  return key;
}

// One that was set apart has no kind.
void keep_key(std::map<std::int64_t, CostKey>& keys, const Row& row) {
  auto key = parse_key(row);
  if (key.ok()) keys[as_integer(row[0])] = std::move(key).value();
}

Row values_of(const CostKey& key) {
  return {std::string(to_string(key.kind)),
          key.subject,
          key.dtype,
          std::int64_t{key.samples},
          std::int64_t{key.tp},
          key.sharding,
          key.bytes,
          std::int64_t{key.group_size},
          key.placement,
          key.algorithm,
          key.protocol,
          std::int64_t{key.channels},
          key.kernel_class};
}

std::int64_t checksum_of(const Origin& origin) {
  return row_checksum({origin.id, origin.name, origin.folded, origin.node});
}

// A file's index that does not fit its table.
Error not_found_again(const Database& database, const std::string& what) {
  return bad_input("cost database " + database.name() + ": the " + what +
                   " was stored and is not found; the database is damaged. Put a backup in its place");
}

// Finds what is there of `keys`; returns the others.
Result<std::vector<CostKey>> find_keys(const Database& database, const std::vector<CostKey>& keys,
                                       std::map<CostKey, std::int64_t>& ids) {
  Rows arguments;
  for (const CostKey& key : keys) arguments.push_back(values_of(key));
  const std::string sql = names_server(database.name()) ? std::string(kFindKey) + kByDigest : kFindKey;
  TRIMTAB_TRY(const auto found, database.query_each(sql, arguments));
  std::vector<CostKey> missing;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (found[i].empty()) {
      missing.push_back(keys[i]);
    } else {
      ids[keys[i]] = as_integer(found[i][0][0]);
    }
  }
  return missing;
}

// The checksum of a key holds its number, which it has once it is there.
Status check_keys(Database& database, const std::vector<CostKey>& keys, const std::map<CostKey, std::int64_t>& ids) {
  Rows arguments;
  for (const CostKey& key : keys) {
    const std::int64_t id = ids.at(key);
    Row values = values_of(key);
    values.insert(values.begin(), id);
    arguments.push_back({row_checksum(values), id});
  }
  return database.execute_each("UPDATE cost_keys SET checksum = ? WHERE id = ? AND checksum = 0", arguments);
}

Status damaged_origin(const Database& database, const std::string& name) {
  return bad_input("cost database " + database.name() + ": what it knows of origin " + name +
                   " cannot be read, and nothing more is stored of it. Start the program again: it sets apart what it "
                   "cannot read");
}

Status check_fingerprint(const Row& row) {
  TRIMTAB_TRY(const Fingerprint fingerprint, parse_fingerprint(as_text(row[1]), "its text"));
  if (hash(fingerprint) == as_text(row[0])) return {};
  return bad_input("its text is that of fingerprint " + hash(fingerprint));
}

Status check_origin(const Row& row) {
  return as_text(row[1]).empty() ? bad_input("an origin without a name") : Status();
}

// A batch of costs names its hardware.
Status check_batch(const Row& row) {
  TRIMTAB_TRY(const auto costs, decode_costs(as_text(row[4])));
  if (costs.empty() || std::holds_alternative<std::string>(row[2])) return {};
  return bad_input("a batch of costs without a fingerprint");
}

// With what a value of a file means that was written before rows had checksums.
template <typename Read>
CheckedTable with_check(CheckedTable table, Read read) {
  table.check = [read](const Row& row) -> Status {
    const auto value = read(row);
    return value.ok() ? Status() : value.error();
  };
  return table;
}

}  // namespace

const CheckedTable& fingerprint_rows() {
  static const CheckedTable table{"fingerprints", {"hash", "json"}};
  return table;
}

const CheckedTable& origin_rows() {
  static const CheckedTable table{"origins", {"id", "name", "folded", "node"}};
  return table;
}

const CheckedTable& origin_again_rows() {
  static const CheckedTable table{"origins_again", origin_rows().columns};
  return table;
}

const CheckedTable& batch_rows() {
  static const CheckedTable table{"batches", {"origin", "number", "fingerprint", "source", "costs"}};
  return table;
}

const CheckedTable& key_rows() {
  static const CheckedTable table{"cost_keys",
                                  {"id", "kind", "subject", "dtype", "samples", "tp", "sharding", "bytes", "group_size",
                                   "placement", "algorithm", "protocol", "channels", "kernel_class"}};
  return table;
}

const CheckedTable& cost_rows() {
  static const CheckedTable table{"costs", {"fingerprint", "cost_key", "source", "origin", "statistics"}};
  return table;
}

const CheckedTable& fact_rows() {
  static const CheckedTable table{"facts", {"fingerprint", "name", "json"}};
  return table;
}

const CheckedTable& contribution_rows() {
  static const CheckedTable table{"contributions", {"origin", "contributor", "first_ns", "last_ns", "costs"}};
  return table;
}

Migrations migrations() {
  return {kApplicationId,
          "cost database",
          {std::begin(kCostMigrations), std::end(kCostMigrations)},
          {std::begin(kCostServerMigrations), std::end(kCostServerMigrations)},
          {with_check(fingerprint_rows(), check_fingerprint), with_check(origin_rows(), check_origin),
           with_check(origin_again_rows(), check_origin), with_check(batch_rows(), check_batch),
           with_check(key_rows(), parse_key),
           with_check(cost_rows(), [](const Row& row) { return Statistics::decode(as_text(row[4])); }), fact_rows(),
           contribution_rows()},
          {kKeysAgain, kOriginsOfTheOther, kOtherOrigins, kOriginsAgain, kOriginsChecked, kFingerprintsAgain,
           kContributionsAgain, kContributionsKept, kContributionsCounted, kContributionsChecked}};
}

Result<std::map<std::int64_t, CostKey>> read_keys(const Database& database, const std::vector<CostKind>& kinds) {
  std::string of_kinds;
  Row arguments;
  for (const CostKind kind : kinds) {
    of_kinds += arguments.empty() ? "WHERE kind IN (?" : ", ?";
    arguments.emplace_back(std::string(to_string(kind)));
  }
  TRIMTAB_TRY(const auto found, database.query_checked(key_rows(), kinds.empty() ? "" : of_kinds + ")", arguments));
  std::map<std::int64_t, CostKey> keys;
  for (const Row& row : found.rows) keep_key(keys, row);
  return keys;
}

Result<std::map<std::int64_t, CostKey>> read_keys_of(const Database& database, const std::set<std::int64_t>& ids) {
  constexpr std::size_t kAtOnce = 500;
  std::map<std::int64_t, CostKey> keys;
  for (auto id = ids.begin(); id != ids.end();) {
    Row some;
    std::string places;
    for (; id != ids.end() && some.size() < kAtOnce; ++id) {
      places += some.empty() ? "?" : ", ?";
      some.emplace_back(*id);
    }
    TRIMTAB_TRY(const auto found, database.query_checked(key_rows(), "WHERE id IN (" + places + ")", some));
    for (const Row& row : found.rows) keep_key(keys, row);
  }
  return keys;
}

// Which rows are a page's is asked of their ids alone: one that cannot be read is of it, too.
Result<KeyPage> read_keys_after(const Database& database, std::int64_t after, std::size_t most) {
  TRIMTAB_TRY(const auto ids, database.query("SELECT id FROM cost_keys WHERE id > ? ORDER BY id LIMIT ?",
                                             {after, static_cast<std::int64_t>(most + 1)}));
  KeyPage page;
  if (ids.empty()) return page;
  const std::int64_t last = as_integer(ids[std::min(ids.size(), most) - 1][0]);
  if (ids.size() > most) page.next = last;
  TRIMTAB_TRY(const auto found, database.query_checked(key_rows(), "WHERE id > ? AND id <= ?", {after, last}));
  for (const Row& row : found.rows) keep_key(page.keys, row);
  return page;
}

Result<std::map<CostKey, std::int64_t>> intern_keys(Database& database, const std::set<CostKey>& keys) {
  std::map<CostKey, std::int64_t> ids;
  TRIMTAB_TRY(const auto missing, find_keys(database, {keys.begin(), keys.end()}, ids));
  if (missing.empty()) return ids;
  Rows arguments;
  for (const CostKey& key : missing) arguments.push_back(values_of(key));
  TRIMTAB_TRY_STATUS(
      database.execute_each(std::string("INSERT INTO cost_keys (") + kKeyColumns + kKeyValues, arguments));
  TRIMTAB_TRY(const auto still_missing, find_keys(database, missing, ids));
  if (!still_missing.empty()) return not_found_again(database, "key of " + still_missing.front().subject);
  TRIMTAB_TRY_STATUS(check_keys(database, missing, ids));
  return ids;
}

Result<std::map<std::string, Origin>> intern_origins(Database& database, const std::set<std::string>& names) {
  const std::string find = "SELECT id, name, folded, node, checksum FROM origins WHERE name = ?" + database.row_lock();
  std::map<std::string, Origin> origins;
  // Those that are not there; in order of name, as every writer locks them.
  const auto look = [&](const std::set<std::string>& wanted) -> Result<std::set<std::string>> {
    Rows arguments;
    for (const std::string& name : wanted) arguments.push_back({name});
    TRIMTAB_TRY(const auto found, database.query_each(find, arguments));
    std::set<std::string> missing;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string& name = as_text(arguments[i][0]);
      if (found[i].empty()) {
        missing.insert(name);
      } else {
        Row row = found[i][0];
        const Value checksum = row.back();
        row.pop_back();
        const bool has_none = checksum == Value(std::int64_t{0});  // new, or on a server from before
        if (!has_none && checksum != Value(row_checksum(row))) return damaged_origin(database, name).error();
        origins[name] = {as_integer(row[0]), as_integer(row[2]), as_text(row[3]), name};
      }
    }
    return missing;
  };
  TRIMTAB_TRY(const auto missing, look(names));
  if (missing.empty()) return origins;
  Rows arguments;
  for (const std::string& name : missing) arguments.push_back({name});
  TRIMTAB_TRY_STATUS(database.execute_each("INSERT INTO origins (name) VALUES (?) ON CONFLICT DO NOTHING", arguments));
  TRIMTAB_TRY(const auto still_missing, look(missing));
  if (!still_missing.empty()) return not_found_again(database, "origin " + *still_missing.begin());
  std::vector<Origin> added;
  for (const std::string& name : missing) added.push_back(origins.at(name));
  TRIMTAB_TRY_STATUS(put_nodes(database, added));
  return origins;
}

Status put_nodes(Database& database, const std::vector<Origin>& origins) {
  Rows arguments;
  for (const Origin& origin : origins) {
    arguments.push_back({origin.node, origin.folded, checksum_of(origin), origin.id});
  }
  return database.execute_each("UPDATE origins SET node = ?, folded = ?, checksum = ? WHERE id = ?", arguments);
}

Status put_costs(Database& database, const Origin& origin, const CostSums& sums) {
  Rows arguments;
  for (const auto& [place, statistics] : sums) {
    arguments.push_back(with_checksum({place.fingerprint, place.key, place.source, origin.id, statistics.encode()}));
  }
  return database.execute_each(
      "INSERT INTO costs (fingerprint, cost_key, source, origin, statistics, checksum) VALUES (?, ?, ?, ?, ?, ?) "
      "ON CONFLICT (fingerprint, cost_key, source, origin) DO UPDATE SET statistics = excluded.statistics, "
      "checksum = excluded.checksum",
      arguments);
}

Status put_fingerprint(Database& database, const std::string& hash, const std::string& json) {
  // Who updates a server's row holds it until the end of the transaction, and nothing is ever set apart there.
  const char* again =
      names_server(database.name())
          ? "NOTHING"
          : "UPDATE SET json = excluded.json, checksum = excluded.checksum WHERE fingerprints.json = ''";
  return database.execute(
      std::string("INSERT INTO fingerprints (hash, json, checksum) VALUES (?, ?, ?) ON CONFLICT (hash) DO ") + again,
      with_checksum({hash, json}));
}

}  // namespace trimtab::cost_tables
