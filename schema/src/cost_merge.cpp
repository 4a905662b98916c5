#include "cost_merge.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cost_tables.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab {

namespace {

using cost_tables::Origin;
using cost_tables::StoredCost;

class Merge {
 public:
  Merge(Database& ours, const Database& theirs) : ours_(ours), theirs_(theirs) {}

  Result<std::uint64_t> run() {
    TRIMTAB_TRY_STATUS(merge_fingerprints());
    TRIMTAB_TRY_STATUS(read_keys());
    TRIMTAB_TRY(const auto origins, theirs_.query("SELECT id, folded, name FROM origins ORDER BY name"));
    for (const Row& row : origins) {
      TRIMTAB_TRY_STATUS(merge_origin({as_integer(row[0]), as_integer(row[1])}, as_text(row[2])));
    }
    TRIMTAB_TRY_STATUS(merge_facts());
    return added_;
  }

 private:
  Status merge_fingerprints() {
    TRIMTAB_TRY(const auto rows, theirs_.query("SELECT hash, json FROM fingerprints ORDER BY hash"));
    for (const Row& row : rows) {
      TRIMTAB_TRY(const Fingerprint fingerprint, parse_fingerprint(as_text(row[1]), theirs_.name()));
      if (hash(fingerprint) != as_text(row[0])) {
        return bad_input(theirs_.name() + ": fingerprint " + as_text(row[0]) + " does not match its hash " +
                         hash(fingerprint) + "; it was not written by this program");
      }
      TRIMTAB_TRY_STATUS(cost_tables::put_fingerprint(ours_, as_text(row[0]), as_text(row[1])));
    }
    return {};
  }

  // Their ids of cost keys to ours.
  Status read_keys() {
    TRIMTAB_TRY(const auto rows,
                theirs_.query(std::string("SELECT k.id, ") + cost_tables::kKeyColumns + " FROM cost_keys k"));
    std::map<std::int64_t, CostKey> keys;
    std::set<CostKey> all;
    for (const Row& row : rows) {
      TRIMTAB_TRY(const CostKey key, cost_tables::parse_key(row, 1));
      all.insert(keys[as_integer(row[0])] = canonical(key));
    }
    TRIMTAB_TRY(const auto ids, cost_tables::intern_keys(ours_, all));
    for (const auto& [their_id, key] : keys) keys_[their_id] = ids.at(key);
    return {};
  }

  Status merge_origin(const Origin& their, const std::string& name) {
    TRIMTAB_TRY(Origin our, cost_tables::intern_origin(ours_, name));
    TRIMTAB_TRY(std::set<std::int64_t> known, numbers_of(ours_, our));
    const std::uint64_t before = static_cast<std::uint64_t>(our.folded) + known.size();
    if (their.folded > our.folded) TRIMTAB_TRY_STATUS(adopt_folded(our, their, known));
    TRIMTAB_TRY(const std::set<std::int64_t> numbers, numbers_of(theirs_, their));
    std::vector<std::int64_t> fresh;
    for (const std::int64_t number : numbers) {
      const bool folded = number >= 1 && number <= our.folded;
      if (!folded && !known.contains(number)) fresh.push_back(number);
    }
    TRIMTAB_TRY_STATUS(copy_batches(our, their, fresh));
    const std::uint64_t after = static_cast<std::uint64_t>(our.folded) + known.size() + fresh.size();
    added_ += after - before;
    return after > before ? cost_tables::fold(ours_, our) : Status();
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
    TRIMTAB_TRY_STATUS(
        ours_.execute("DELETE FROM costs WHERE origin = ? AND number <> 0 AND number <= ?", {our.id, their.folded}));
    TRIMTAB_TRY_STATUS(
        ours_.execute("DELETE FROM batches WHERE origin = ? AND number <> 0 AND number <= ?", {our.id, their.folded}));
    our.folded = their.folded;
    std::erase_if(known, [&](std::int64_t number) { return number != 0 && number <= our.folded; });
    TRIMTAB_TRY_STATUS(ours_.execute("UPDATE origins SET folded = ? WHERE id = ?", {our.folded, our.id}));
    return copy_costs(our, their, {cost_tables::kFolded});
  }

  Status copy_batches(const Origin& our, const Origin& their, const std::vector<std::int64_t>& numbers) {
    TRIMTAB_TRY_STATUS(cost_tables::insert_batches(ours_, our, numbers));
    return copy_costs(our, their, numbers);
  }

  // Batch by batch, so that memory does not grow with their number.
  Status copy_costs(const Origin& our, const Origin& their, const std::vector<std::int64_t>& numbers) {
    for (const std::int64_t number : numbers) {
      TRIMTAB_TRY(const auto rows, theirs_.query("SELECT fingerprint, cost_key, source, statistics FROM costs "
                                                 "WHERE origin = ? AND number = ?",
                                                 {their.id, number}));
      std::vector<StoredCost> costs;
      for (const Row& row : rows) {
        const auto key = keys_.find(as_integer(row[1]));
        if (key == keys_.end()) return bad_input(theirs_.name() + ": a cost has no key; the database is damaged");
        TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[3])));
        costs.push_back({{as_text(row[0]), key->second, as_text(row[2])}, number, statistics.encode()});
      }
      TRIMTAB_TRY_STATUS(cost_tables::put_costs(ours_, our, costs));
    }
    return {};
  }

  Status merge_facts() {
    TRIMTAB_TRY(const auto rows,
                theirs_.query("SELECT fingerprint, name, revision, json FROM facts ORDER BY fingerprint, name"));
    return ours_.execute_each(
        "INSERT INTO facts (fingerprint, name, revision, json) VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint, name) "
        "DO UPDATE SET revision = excluded.revision, json = excluded.json "
        "WHERE (excluded.revision, excluded.json) > (facts.revision, facts.json)",
        rows);
  }

  Database& ours_;
  const Database& theirs_;
  std::map<std::int64_t, std::int64_t> keys_;
  std::uint64_t added_ = 0;
};

}  // namespace

Result<std::uint64_t> merge_costs(Database& ours, const Database& theirs) {
  return Merge(ours, theirs).run();
}

}  // namespace trimtab
