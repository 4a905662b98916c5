// Costs that somebody contributed. Each contributor's origins have names of their own here, so nobody's costs meet
// another's. Such an origin has no batches: a person's database holds sums, which grow from push to push, and what is
// pushed again must not count twice. So of two values of one cost the one with more measurements counts. That is the
// same in any order and however often, and each cost stands alone, so that a push may end anywhere.

#include <algorithm>

#include "costs/cost_tables.hpp"
#include "documents/json_document.hpp"
#include "schema/sharing/contributed_source.hpp"

namespace trimtab::cost_tables {

namespace {

constexpr std::int64_t kEarliest = 0;
constexpr const char* kPrefix = "/contributed/";  // no agent's origin, and no import's, begins with a slash
constexpr std::size_t kLongestOrigin = 1024;

std::string name_of(const Contributor& who, const std::string& origin) {
  return kPrefix + who.name + "/" + origin;
}

// Which of the two stays.
bool contains(const Statistics& one, const std::string& text, const Statistics& other, const std::string& other_text) {
  return std::pair(one.count(), std::string_view(text)) > std::pair(other.count(), std::string_view(other_text));
}

// Leaves in `sums` what is to be written. A stored value that cannot be read gives way.
Result<ContributionCounts> compare(const Database& database, std::int64_t origin, CostSums& sums) {
  Rows places;
  for (const auto& [place, statistics] : sums) places.push_back({place.fingerprint, place.key, place.source, origin});
  TRIMTAB_TRY(const auto found, database.query_each("SELECT statistics FROM costs WHERE fingerprint = ? AND "
                                                    "cost_key = ? AND source = ? AND origin = ?",
                                                    places));
  ContributionCounts counts;
  auto stored = found.begin();
  for (auto sum = sums.begin(); sum != sums.end(); ++stored) {
    const std::string text = sum->second.encode();
    const std::string there = stored->empty() ? "" : as_text((*stored)[0][0]);
    const auto before = Statistics::decode(there);
    const bool stays = before.ok() && !contains(sum->second, text, *before, there);
    ++(stored->empty() ? counts.added : there == text ? counts.equal : stays ? counts.older : counts.renewed);
    sum = stays ? sums.erase(sum) : std::next(sum);
  }
  return counts;
}

Status put_contribution(Database& database, const Contribution& one) {
  return database.execute(
      "INSERT INTO contributions (origin, contributor, first_ns, last_ns, costs, checksum) VALUES (?, ?, ?, ?, ?, ?) "
      "ON CONFLICT (origin) DO UPDATE SET contributor = excluded.contributor, first_ns = excluded.first_ns, last_ns = "
      "excluded.last_ns, costs = excluded.costs, checksum = excluded.checksum",
      with_checksum({one.origin, one.contributor, one.first_ns, one.last_ns, one.costs}));
}

Status check(const Contributor& who, std::span<const ContributedCosts> costs) {
  TRIMTAB_TRY_STATUS(check_contributor(who.name));
  for (const ContributedCosts& one : costs) {
    if (contributor_of(one.source) != who.name) {
      return bad_input("costs of contributor " + who.name + " must say so, but their source is " +
                       quoted_text(to_text(one.source)));
    }
    if (one.origin.empty() || one.origin.size() > kLongestOrigin || is_contributed(one.origin)) {
      return bad_input("costs come from an origin of 1 to " + std::to_string(kLongestOrigin) +
                       " bytes that nobody contributed, but found " + quoted_text(one.origin));
    }
  }
  return {};
}

// Which of these origins the database has itself.
Result<std::set<std::string>> own_of(const Database& database, std::span<const ContributedCosts> costs) {
  std::set<std::string> names;
  for (const ContributedCosts& one : costs) names.insert(one.origin);
  Rows arguments;
  for (const std::string& name : names) arguments.push_back({name});
  TRIMTAB_TRY(const auto found, database.query_each("SELECT 1 FROM origins WHERE name = ?", arguments));
  std::set<std::string> own;
  auto rows = found.begin();
  for (const std::string& name : names) {
    if (!(rows++)->empty()) own.insert(name);
  }
  return own;
}

using SumsByOrigin = std::map<std::string, CostSums>;

// Under their names here. Fingerprints and keys are stored.
Result<SumsByOrigin> sums_of(Database& database, const Contributor& who, std::span<const ContributedCosts> costs,
                             const std::set<std::string>& own) {
  std::set<CostKey> keys;
  for (const ContributedCosts& one : costs) {
    if (own.contains(one.origin) || one.costs.empty()) continue;
    for (const Cost& cost : one.costs) keys.insert(canonical(cost.key));
    TRIMTAB_TRY_STATUS(put_fingerprint(database, one.fingerprint.hash(), one.fingerprint.json()));
  }
  TRIMTAB_TRY(const auto ids, intern_keys(database, keys));
  SumsByOrigin sums;
  for (const ContributedCosts& one : costs) {
    if (own.contains(one.origin) || one.costs.empty()) continue;
    CostSums& of = sums[name_of(who, one.origin)];
    for (const Cost& cost : one.costs) {
      // Named twice in one push, they are two values of one cost as well.
      Statistics& sum = of[{one.fingerprint.hash(), ids.at(canonical(cost.key)), to_text(one.source)}];
      if (contains(cost.statistics, cost.statistics.encode(), sum, sum.encode())) sum = cost.statistics;
    }
  }
  for (auto& [name, of] : sums) std::erase_if(of, [](const auto& one) { return one.second.empty(); });
  return sums;
}

Result<std::int64_t> count_of(const Database& database, const std::string& contributor) {
  TRIMTAB_TRY(const auto all, read_contributions(database, "WHERE contributor = ?", {contributor}));
  std::int64_t count = 0;
  for (const auto& [origin, one] : all) count += one.costs;
  return count;
}

// In one statement, which counts what it removes.
Result<std::int64_t> remove_some(Database& database, std::int64_t origin, std::int64_t most) {
  // As every writer of an origin does.
  TRIMTAB_TRY(const auto locked, database.query("SELECT id FROM origins WHERE id = ?" + database.row_lock(), {origin}));
  if (locked.empty()) return std::int64_t{0};
  TRIMTAB_TRY(const auto rows, database.execute_returning(
                                   "DELETE FROM costs WHERE origin = ?1 AND (fingerprint, cost_key, source) IN (SELECT "
                                   "fingerprint, cost_key, source FROM costs WHERE origin = ?1 LIMIT ?2) RETURNING 1",
                                   {origin, most}));
  return static_cast<std::int64_t>(rows.size());
}

}  // namespace

bool is_contributed(const std::string& origin) {
  return origin.starts_with(kPrefix);
}

Result<std::map<std::int64_t, Contribution>> read_contributions(const Database& database, const std::string& rest,
                                                                const Row& arguments) {
  TRIMTAB_TRY(const auto found, database.query_checked(contribution_rows(), rest, arguments));
  std::map<std::int64_t, Contribution> contributions;
  for (const Row& row : found.rows) {
    // A clock may have stood before 1970, and documents have no such times.
    contributions[as_integer(row[0])] = {as_integer(row[0]), as_text(row[1]), std::max(as_integer(row[2]), kEarliest),
                                         std::max(as_integer(row[3]), kEarliest), as_integer(row[4])};
  }
  return contributions;
}

Result<ContributionCounts> add_contributed(Database& database, const Contribution& with, const CostSums& sums) {
  CostSums changed = sums;
  TRIMTAB_TRY(const ContributionCounts counts, compare(database, with.origin, changed));
  TRIMTAB_TRY(const auto before, read_contributions(database, "WHERE origin = ?", {with.origin}));
  if (changed.empty() && !before.empty()) return counts;
  TRIMTAB_TRY_STATUS(put_costs(database, {with.origin}, changed));
  Contribution now = with;
  now.costs = static_cast<std::int64_t>(counts.added);
  if (!before.empty()) {
    const Contribution& there = before.begin()->second;
    now.costs += there.costs;
    now.first_ns = std::min(now.first_ns, there.first_ns);
    now.last_ns = std::max(now.last_ns, there.last_ns);
  }
  TRIMTAB_TRY_STATUS(put_contribution(database, now));
  return counts;
}

Result<ContributionCounts> contribute(Database& database, const Contributor& who,
                                      std::span<const ContributedCosts> costs) {
  TRIMTAB_TRY_STATUS(check(who, costs));
  TRIMTAB_TRY(const auto own, own_of(database, costs));
  ContributionCounts counts;
  for (const ContributedCosts& one : costs) {
    if (own.contains(one.origin)) counts.own += one.costs.size();
  }
  TRIMTAB_TRY(const SumsByOrigin sums, sums_of(database, who, costs, own));
  std::set<std::string> names;
  for (const auto& [name, of] : sums) names.insert(name);
  TRIMTAB_TRY(const auto origins, intern_origins(database, names));
  for (const auto& [name, of] : sums) {
    const Contribution with{origins.at(name).id, who.name, who.at_ns, who.at_ns, 0};
    TRIMTAB_TRY(const auto one, add_contributed(database, with, of));
    counts.added += one.added;
    counts.renewed += one.renewed;
    counts.equal += one.equal;
    counts.older += one.older;
  }
  if (counts.added == 0) return counts;
  TRIMTAB_TRY(const std::int64_t all, count_of(database, who.name));
  if (static_cast<std::uint64_t>(all) <= kMostContributed) return counts;
  return no("of one contributor " + std::to_string(kMostContributed) +
            " costs are kept at most, and with these there "
            "would be " +
            std::to_string(all) + " of " + who.name +
            ". Push what others need (--hardware), or have earlier ones removed (trimtab db remove --contributor " +
            who.name + ")");
}

Result<RemovedCosts> remove_contributed(Database& database, const std::string& contributor, std::int64_t most) {
  TRIMTAB_TRY(const auto contributions, read_contributions(database, "WHERE contributor = ?", {contributor}));
  RemovedCosts removed;
  std::int64_t left = most;
  for (const auto& [origin, contribution] : contributions) {
    if (left <= 0) return removed;
    TRIMTAB_TRY(const std::int64_t gone, remove_some(database, origin, left));
    removed.costs += static_cast<std::uint64_t>(gone);
    left -= gone;
    if (left > 0) {
      for (const char* table : {"batches WHERE origin", "contributions WHERE origin", "origins WHERE id"}) {
        TRIMTAB_TRY_STATUS(database.execute(std::string("DELETE FROM ") + table + " = ?", {origin}));
      }
      continue;
    }
    Contribution rest = contribution;
    rest.costs = std::max<std::int64_t>(0, rest.costs - gone);
    TRIMTAB_TRY_STATUS(put_contribution(database, rest));
    return removed;
  }
  removed.all = true;
  return removed;
}

Result<CostSums> folded_of(const Database& database, std::int64_t origin,
                           const std::function<std::int64_t(std::int64_t)>& key_of) {
  TRIMTAB_TRY(const auto found, database.query_checked(cost_rows(), "WHERE origin = ?", {origin}));
  CostSums sums;
  for (const Row& row : found.rows) {
    const std::int64_t key = key_of(as_integer(row[1]));
    if (key == 0) continue;
    TRIMTAB_TRY(Statistics statistics, Statistics::decode(as_text(row[4])));
    sums[{as_text(row[0]), key, as_text(row[2])}] = std::move(statistics);
  }
  return sums;
}

}  // namespace trimtab::cost_tables
