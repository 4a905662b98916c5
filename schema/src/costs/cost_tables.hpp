#pragma once

// The cost database's tables as functions: keys, origins, batches, costs. The caller holds the transaction.
//
// Why several writers at once stay exact on a server: all that is read and then changed belongs to origins, whose rows
// intern_origins() has locked, in the order of their names, until the transaction ends. Keys and fingerprints are only
// ever added, facts change in one statement.

#include <map>
#include <set>

#include "schema/cost_database.hpp"
#include "schema/database.hpp"

namespace trimtab::cost_tables {

[[nodiscard]] Migrations migrations();

// The tables and their checked columns. Rows without their checksum are left out wherever they are read.
[[nodiscard]] const CheckedTable& fingerprint_rows();   // hash, json: empty where only the hash could be read
[[nodiscard]] const CheckedTable& origin_rows();        // id, name, folded, node
[[nodiscard]] const CheckedTable& origin_again_rows();  // the same, of a file
[[nodiscard]] const CheckedTable& batch_rows();         // origin, number, fingerprint, source, costs
[[nodiscard]] const CheckedTable& key_rows();
[[nodiscard]] const CheckedTable& cost_rows();          // fingerprint, cost_key, source, origin, statistics
[[nodiscard]] const CheckedTable& fact_rows();          // fingerprint, name, json
[[nodiscard]] const CheckedTable& contribution_rows();  // origin, contributor, first_ns, last_ns, costs

// Keys by id; of these kinds, or all. Without those that cannot be read.
[[nodiscard]] Result<std::map<std::int64_t, CostKey>> read_keys(const Database& database,
                                                                const std::vector<CostKind>& kinds);
// Those of these ids.
[[nodiscard]] Result<std::map<std::int64_t, CostKey>> read_keys_of(const Database& database,
                                                                   const std::set<std::int64_t>& ids);
// The first `most` keys after this id, without those that cannot be read.
struct KeyPage {
  std::map<std::int64_t, CostKey> keys;
  std::int64_t next = 0;  // the last id, where others follow
};
[[nodiscard]] Result<KeyPage> read_keys_after(const Database& database, std::int64_t after, std::size_t most);
// The ids of all of them; those that are new are stored. REQUIRES: canonical keys.
[[nodiscard]] Result<std::map<CostKey, std::int64_t>> intern_keys(Database& database, const std::set<CostKey>& keys);

struct Origin {
  std::int64_t id = 0;
  std::int64_t folded = 0;  // all of 1 ... folded are stored as one
  std::string node = {};    // whose it is; empty = nobody's yet
  std::string name = {};
};
// By name; stored where they are new, and locked until the transaction ends.
[[nodiscard]] Result<std::map<std::string, Origin>> intern_origins(Database& database,
                                                                   const std::set<std::string>& names);
// Writes whose these are, and up to where they are folded. REQUIRES: interned in this transaction.
[[nodiscard]] Status put_nodes(Database& database, const std::vector<Origin>& origins);

// Folded sums.
struct CostPlace {
  std::string fingerprint;
  std::int64_t key = 0;
  std::string source;
  auto operator<=>(const CostPlace&) const = default;
};
using CostSums = std::map<CostPlace, Statistics>;
// Replaces what stands there of this origin.
[[nodiscard]] Status put_costs(Database& database, const Origin& origin, const CostSums& sums);
[[nodiscard]] Status put_fingerprint(Database& database, const std::string& hash, const std::string& json);

// Batches that are not folded: one row each, with their costs as text.

// One cost of a batch, as in its row's text: the key's id in this database.
struct KeyedCost {
  std::int64_t key = 0;
  Statistics statistics;
};

struct SingleBatch {
  std::int64_t origin = 0;
  std::int64_t number = 0;
  std::string fingerprint;  // hash
  std::string source;
  std::string costs;  // text
};

// One line: the key's id, a space, the statistics.
void append_cost(std::string& costs, std::int64_t key, const Statistics& statistics);
// Of the keys that are wanted; unset = of all.
[[nodiscard]] Result<std::vector<KeyedCost>> decode_costs(std::string_view costs,
                                                          const std::function<bool(std::int64_t key)>& wanted = {});

// REQUIRES: none of them is there.
[[nodiscard]] Status insert_batches(Database& database, std::vector<SingleBatch> batches);
// Which of an origin's batches after `after`, up to and with `last`, are there; in their order, at most 64 of them.
[[nodiscard]] Result<std::vector<SingleBatch>> next_batches(const Database& database, const Origin& origin,
                                                            std::int64_t after, std::int64_t last);

// What is wanted; what is empty or unset wants everything.
struct CostQuery {
  std::string fingerprint;  // hash
  std::string source;
  std::optional<std::set<std::int64_t>> keys;
};
using EachValue = std::function<void(const CostPlace&, const Statistics&)>;
// Calls `each` with every value, in no order and several times a place; the caller holds a snapshot.
[[nodiscard]] Status read_values(const Database& database, const CostQuery& query, const EachValue& each);

// Adds the origin's batches that follow on the folded ones without a gap to the folded sums. Changes no cost. `origin`
// is as interned in this transaction.
[[nodiscard]] Status fold(Database& database, const Origin& origin);
// The same for all batches up to `end`, of which some may be missing: those count as without costs from now on.
[[nodiscard]] Status fold_until(Database& database, const Origin& origin, std::int64_t end);
// As CostDatabase::fold_origins(), of all these names.
[[nodiscard]] Result<std::size_t> fold_some(Database& database, std::span<const std::string> names);
// As CostDatabase::unfolded_origins().
[[nodiscard]] Result<std::vector<UnfoldedOrigin>> unfolded_origins(const Database& database, std::int64_t after,
                                                                   std::size_t most);

// As CostDatabase::compare(). Writes only where batches are lost, in a transaction of its own.
[[nodiscard]] Result<OriginFindings> find_of_origin(Database& database, const OriginNumbers& said);
// The union of two cost databases (schema/README.md, "Batches and merging"): adds all of `theirs` to `ours`, inside the
// caller's transactions on both.
[[nodiscard]] Result<MergeCounts> merge_costs(Database& ours, const Database& theirs);

// Of an origin whose costs somebody contributed.
struct Contribution {
  std::int64_t origin = 0;
  std::string contributor;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::int64_t costs = 0;
};
// Whether an origin is of those, by its name: no other's begins like that.
[[nodiscard]] bool is_contributed(const std::string& origin);
[[nodiscard]] Result<std::map<std::int64_t, Contribution>> read_contributions(const Database& database,
                                                                              const std::string& rest = "",
                                                                              const Row& arguments = {});
// Adds to what is there of the origin, which `with` names: of two values of one cost the one with more measurements
// counts. REQUIRES: the origin is interned in this transaction, and fingerprints and keys are there.
[[nodiscard]] Result<ContributionCounts> add_contributed(Database& database, const Contribution& with,
                                                         const CostSums& sums);
// As CostDatabase::contribute(), remove_contributed(), parts_after() and put_parts().
[[nodiscard]] Result<ContributionCounts> contribute(Database& database, const Contributor& who,
                                                    std::span<const ContributedCosts> costs);
[[nodiscard]] Result<RemovedCosts> remove_contributed(Database& database, const std::string& contributor,
                                                      std::int64_t most);
[[nodiscard]] Result<CostParts> parts_after(const Database& database, const std::string& after, std::size_t most);
[[nodiscard]] Status put_parts(Database& database, const CostParts& parts);
// The folded sums of an origin, under the ids that `key_of` makes of the stored ones; 0 leaves a cost out.
[[nodiscard]] Result<CostSums> folded_of(const Database& database, std::int64_t origin,
                                         const std::function<std::int64_t(std::int64_t)>& key_of);

}  // namespace trimtab::cost_tables
