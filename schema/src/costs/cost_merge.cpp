#include <algorithm>
#include <limits>

#include "costs/cost_tables.hpp"
#include "documents/json_document.hpp"

namespace trimtab::cost_tables {

namespace {

class Merge {
 public:
  Merge(Database& ours, const Database& theirs) : ours_(ours), theirs_(theirs) {}

  Result<MergeCounts> run() {
    TRIMTAB_TRY_STATUS(merge_fingerprints());
    TRIMTAB_TRY_STATUS(map_keys());
    TRIMTAB_TRY(const auto origins, theirs_.query_checked(origin_rows(), "ORDER BY name"));
    TRIMTAB_TRY(const auto contributions, read_contributions(theirs_));
    for (const Row& row : origins.rows) {
      const auto contributed = contributions.find(as_integer(row[0]));
      if (contributed == contributions.end()) {
        TRIMTAB_TRY_STATUS(merge_origin({as_integer(row[0]), as_integer(row[2])}, as_text(row[1])));
      } else {
        TRIMTAB_TRY_STATUS(merge_contributed(contributed->second, as_text(row[1])));
      }
    }
    TRIMTAB_TRY_STATUS(merge_facts());
    return counts_;
  }

 private:
  Status merge_fingerprints() {
    TRIMTAB_TRY(const auto found, theirs_.query_checked(fingerprint_rows(), "ORDER BY hash"));
    for (const Row& row : found.rows) {
      const auto fingerprint = parse_fingerprint(as_text(row[1]), theirs_.name());
      if (!fingerprint.ok() || hash(*fingerprint) != as_text(row[0])) continue;
      TRIMTAB_TRY_STATUS(put_fingerprint(ours_, as_text(row[0]), as_text(row[1])));
      named_.insert(as_text(row[0]));
    }
    return {};
  }

  // Of hardware whose text could not be read its costs know the hash alone.
  Status name_hardware(const std::string& hash) {
    const bool is_new = !hash.empty() && named_.insert(hash).second;
    return is_new ? put_fingerprint(ours_, hash, "") : Status();
  }

  // Their ids of cost keys to ours.
  Status map_keys() {
    TRIMTAB_TRY(auto keys, read_keys(theirs_, {}));
    std::set<CostKey> all;
    for (auto& [their_id, key] : keys) all.insert(key = canonical(std::move(key)));
    TRIMTAB_TRY(const auto ids, intern_keys(ours_, all));
    for (const auto& [their_id, key] : keys) keys_[their_id] = ids.at(key);
    return {};
  }

  Status merge_origin(const Origin& their, const std::string& name) {
    TRIMTAB_TRY(auto interned, intern_origins(ours_, {name}));
    Origin our = interned.at(name);
    TRIMTAB_TRY(std::set<std::int64_t> known, numbers_of(ours_, our));
    const std::uint64_t before = static_cast<std::uint64_t>(our.folded) + known.size();
    if (their.folded > our.folded) TRIMTAB_TRY_STATUS(adopt_folded(our, their, known));
    const std::uint64_t kept = static_cast<std::uint64_t>(our.folded) + known.size();
    TRIMTAB_TRY(const std::uint64_t fresh, copy_batches(our, their, known));
    counts_.batches += kept + fresh - before;
    TRIMTAB_TRY(const std::uint64_t theirs, batches_of(their));
    counts_.known += theirs - std::min(theirs, kept + fresh - before);
    return kept + fresh > before ? fold(ours_, our) : Status();
  }

  Status merge_contributed(Contribution contribution, const std::string& name) {
    TRIMTAB_TRY(const CostSums sums, their_sums(contribution.origin));
    TRIMTAB_TRY(const auto interned, intern_origins(ours_, {name}));
    contribution.origin = interned.at(name).id;
    TRIMTAB_TRY(const ContributionCounts one, add_contributed(ours_, contribution, sums));
    counts_.contributed.added += one.added;
    counts_.contributed.renewed += one.renewed;
    counts_.contributed.equal += one.equal;
    counts_.contributed.older += one.older;
    if (one.added + one.renewed > 0) ++counts_.batches;
    return {};
  }

  // Under our keys; without those whose key was set apart.
  Result<CostSums> their_sums(std::int64_t origin) {
    TRIMTAB_TRY(CostSums sums, folded_of(theirs_, origin, [&](std::int64_t key) {
                  const auto found = keys_.find(key);
                  return found == keys_.end() ? 0 : found->second;
                }));
    for (const auto& [place, sum] : sums) TRIMTAB_TRY_STATUS(name_hardware(place.fingerprint));
    return sums;
  }

  [[nodiscard]] Result<std::uint64_t> batches_of(const Origin& their) const {
    TRIMTAB_TRY(const auto rows, theirs_.query("SELECT COUNT(*) FROM batches WHERE origin = ?", {their.id}));
    return static_cast<std::uint64_t>(their.folded + as_integer(rows.at(0)[0]));
  }

  // Of the batches that are stored one by one.
  static Result<std::set<std::int64_t>> numbers_of(const Database& database, const Origin& origin) {
    TRIMTAB_TRY(const auto rows, database.query("SELECT number FROM batches WHERE origin = ?", {origin.id}));
    std::set<std::int64_t> numbers;
    for (const Row& row : rows) numbers.insert(as_integer(row[0]));
    return numbers;
  }

  // Their folded sum holds 1 ... n for a greater n than ours, so it contains ours and takes its place.
  Status adopt_folded(Origin& our, const Origin& their, std::set<std::int64_t>& known) {
    TRIMTAB_TRY_STATUS(ours_.execute("DELETE FROM costs WHERE origin = ?", {our.id}));
    TRIMTAB_TRY_STATUS(
        ours_.execute("DELETE FROM batches WHERE origin = ? AND number <> 0 AND number <= ?", {our.id, their.folded}));
    our.folded = their.folded;
    std::erase_if(known, [&](std::int64_t number) { return number != 0 && number <= our.folded; });
    TRIMTAB_TRY_STATUS(put_nodes(ours_, {our}));
    TRIMTAB_TRY(const CostSums sums, their_sums(their.id));
    return put_costs(ours_, our, sums);
  }

  // Returns how many were new. Some at a time, so that memory does not grow with their number.
  Result<std::uint64_t> copy_batches(const Origin& our, const Origin& their, const std::set<std::int64_t>& known) {
    constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
    std::uint64_t copied = 0;
    for (std::int64_t last = -1;;) {
      TRIMTAB_TRY(auto batches, next_batches(theirs_, their, last, kLast));
      if (batches.empty()) return copied;
      last = batches.back().number;
      std::erase_if(batches, [&](const SingleBatch& batch) {
        return known.contains(batch.number) || (batch.number >= 1 && batch.number <= our.folded);
      });
      for (SingleBatch& batch : batches) {
        batch.origin = our.id;
        TRIMTAB_TRY_STATUS(name_hardware(batch.fingerprint));
        TRIMTAB_TRY(batch.costs, translated(batch.costs));
      }
      copied += batches.size();
      TRIMTAB_TRY_STATUS(insert_batches(ours_, std::move(batches)));
    }
  }

  Result<std::string> translated(const std::string& costs) const {
    TRIMTAB_TRY(const auto decoded, decode_costs(costs));
    std::string text;
    for (const KeyedCost& cost : decoded) {
      const auto key = keys_.find(cost.key);
      if (key != keys_.end()) append_cost(text, key->second, cost.statistics);
    }
    return text;
  }

  Status merge_facts() {
    TRIMTAB_TRY(const auto found, theirs_.query_checked(fact_rows(), "ORDER BY fingerprint, name"));
    Rows arguments;
    for (const Row& row : found.rows) {
      TRIMTAB_TRY(const auto revision,
                  theirs_.query("SELECT revision FROM facts WHERE fingerprint = ? AND name = ?", {row[0], row[1]}));
      if (revision.empty()) continue;
      arguments.push_back({row[0], row[1], revision[0][0], row[2], row_checksum(row)});
    }
    return ours_.execute_each(
        "INSERT INTO facts (fingerprint, name, revision, json, checksum) VALUES (?, ?, ?, ?, ?) ON CONFLICT "
        "(fingerprint, name) DO UPDATE SET revision = excluded.revision, json = excluded.json, checksum = "
        "excluded.checksum WHERE (excluded.revision, excluded.json) > (facts.revision, facts.json)",
        arguments);
  }

  Database& ours_;
  const Database& theirs_;
  std::map<std::int64_t, std::int64_t> keys_;
  std::set<std::string> named_;  // fingerprints that ours has
  MergeCounts counts_;
};

}  // namespace

Result<MergeCounts> merge_costs(Database& ours, const Database& theirs) {
  return Merge(ours, theirs).run();
}

}  // namespace trimtab::cost_tables
