#include "cost_merge.hpp"

#include <map>
#include <string>

#include "cost_tables.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab {

namespace {

using cost_tables::CostPlace;
using cost_tables::Origin;

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
    TRIMTAB_TRY(const auto rows, theirs_.query("SELECT hash, json FROM fingerprints"));
    for (const Row& row : rows) {
      TRIMTAB_TRY(const Fingerprint fingerprint, parse_fingerprint(as_text(row[1]), theirs_.path()));
      if (hash(fingerprint) != as_text(row[0])) {
        return bad_input(theirs_.path() + ": fingerprint " + as_text(row[0]) + " does not match its hash " +
                         hash(fingerprint) + "; the file was not written by this program");
      }
      TRIMTAB_TRY_STATUS(ours_.execute("INSERT OR IGNORE INTO fingerprints (hash, json) VALUES (?, ?)", row));
    }
    return {};
  }

  // Their ids of cost keys to ours.
  Status read_keys() {
    TRIMTAB_TRY(const auto rows,
                theirs_.query(std::string("SELECT k.id, ") + cost_tables::kKeyColumns + " FROM cost_keys k"));
    for (const Row& row : rows) {
      TRIMTAB_TRY(const CostKey key, cost_tables::parse_key(row, 1));
      TRIMTAB_TRY(keys_[as_integer(row[0])], cost_tables::intern_key(ours_, canonical(key)));
    }
    return {};
  }

  Status merge_origin(const Origin& their, const std::string& name) {
    TRIMTAB_TRY(Origin our, cost_tables::intern_origin(ours_, name));
    TRIMTAB_TRY(const std::uint64_t before, batch_count(our));
    if (their.folded > our.folded) TRIMTAB_TRY_STATUS(adopt_folded(our, their));
    TRIMTAB_TRY(const auto rows, theirs_.query("SELECT number FROM batches WHERE origin = ?", {their.id}));
    for (const Row& row : rows) {
      TRIMTAB_TRY_STATUS(merge_batch(our, their, as_integer(row[0])));
    }
    TRIMTAB_TRY(const std::uint64_t after, batch_count(our));
    added_ += after - before;
    return after > before ? cost_tables::fold(ours_, name) : Status();
  }

  Result<std::uint64_t> batch_count(const Origin& our) {
    TRIMTAB_TRY(const auto rows, ours_.query("SELECT count(*) FROM batches WHERE origin = ?", {our.id}));
    return static_cast<std::uint64_t>(our.folded) + static_cast<std::uint64_t>(as_integer(rows[0][0]));
  }

  // Their folded sum holds 1 ... n for a greater n than ours, so it contains ours and takes its place.
  Status adopt_folded(Origin& our, const Origin& their) {
    TRIMTAB_TRY_STATUS(
        ours_.execute("DELETE FROM costs WHERE origin = ? AND number <> 0 AND number <= ?", {our.id, their.folded}));
    TRIMTAB_TRY_STATUS(
        ours_.execute("DELETE FROM batches WHERE origin = ? AND number <> 0 AND number <= ?", {our.id, their.folded}));
    our.folded = their.folded;
    TRIMTAB_TRY_STATUS(ours_.execute("UPDATE origins SET folded = ? WHERE id = ?", {our.folded, our.id}));
    return copy_costs(our, their, cost_tables::kFolded);
  }

  Status merge_batch(const Origin& our, const Origin& their, std::int64_t number) {
    TRIMTAB_TRY(const bool known, cost_tables::has_batch(ours_, our, number));
    if (known) return {};
    TRIMTAB_TRY_STATUS(cost_tables::insert_batch(ours_, our, number));
    return copy_costs(our, their, number);
  }

  Status copy_costs(const Origin& our, const Origin& their, std::int64_t number) {
    TRIMTAB_TRY(const auto rows, theirs_.query("SELECT fingerprint, cost_key, source, statistics FROM costs "
                                               "WHERE origin = ? AND number = ?",
                                               {their.id, number}));
    for (const Row& row : rows) {
      const auto key = keys_.find(as_integer(row[1]));
      if (key == keys_.end()) return bad_input(theirs_.path() + ": a cost has no key; the file is damaged");
      TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[3])));
      const CostPlace place{as_text(row[0]), key->second, as_text(row[2])};
      TRIMTAB_TRY_STATUS(cost_tables::put_cost(ours_, place, our, number, statistics.encode()));
    }
    return {};
  }

  Status merge_facts() {
    TRIMTAB_TRY(const auto rows, theirs_.query("SELECT fingerprint, name, revision, json FROM facts"));
    for (const Row& row : rows) {
      TRIMTAB_TRY_STATUS(ours_.execute(
          "INSERT INTO facts (fingerprint, name, revision, json) VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint, name) "
          "DO UPDATE SET revision = excluded.revision, json = excluded.json "
          "WHERE (excluded.revision, excluded.json) > (revision, json)",
          row));
    }
    return {};
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
