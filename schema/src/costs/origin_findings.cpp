#include "costs/origin_findings.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "costs/cost_tables.hpp"

namespace trimtab {

namespace {

struct Stored {
  std::int64_t folded = 0;
  std::int64_t single = 0;  // of those after `folded` and below held_from
  std::int64_t highest = 0;
  std::string node;
};

bool is_anothers(const std::string& node, const OriginNumbers& said) {
  return !said.node.empty() && !node.empty() && node != said.node;
}

Status check(const OriginNumbers& said) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!said.origin.empty() && said.last < kMost && said.held_from <= said.last + 1) return {};
  return bad_input("origin '" + said.origin + "' says that it has batches from " + std::to_string(said.held_from) +
                   " and has numbered them up to " + std::to_string(said.last) +
                   ": a name is needed, numbers below 2^63, and the first at most one above the second");
}

std::int64_t held_from(const OriginNumbers& said) {
  return static_cast<std::int64_t>(said.held_from);
}

Result<Stored> read(const Database& database, const OriginNumbers& said) {
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT o.folded, (SELECT COUNT(*) FROM batches b WHERE b.origin = o.id AND "
                             "b.number > o.folded AND b.number < ?2), "
                             "(SELECT MAX(b.number) FROM batches b WHERE b.origin = o.id), o.node FROM origins o "
                             "WHERE o.name = ?1",
                             {said.origin, held_from(said)}));
  Stored stored;
  if (rows.empty()) return stored;
  stored.folded = stored.highest = as_integer(rows[0][0]);
  stored.single = as_integer(rows[0][1]);
  if (rows[0][2].index() != 0) stored.highest = std::max(stored.highest, as_integer(rows[0][2]));
  stored.node = as_text(rows[0][3]);
  return stored;
}

std::int64_t lost(const Stored& stored, const OriginNumbers& said) {
  return std::max<std::int64_t>(held_from(said) - 1 - stored.folded - stored.single, 0);
}

// What nobody sends again counts as empty, and the origin is this node's; unless it has become another's since.
Status count_as_empty(Database& database, const OriginNumbers& said, Stored& stored) {
  TRIMTAB_TRY(auto origins, cost_tables::intern_origins(database, {said.origin}));
  TRIMTAB_TRY(stored, read(database, said));
  cost_tables::Origin& origin = origins.at(said.origin);
  if (is_anothers(origin.node, said)) return {};
  if (origin.node.empty() && !said.node.empty()) {
    origin.node = stored.node = said.node;
    TRIMTAB_TRY_STATUS(cost_tables::put_nodes(database, {origin}));
  }
  TRIMTAB_TRY_STATUS(cost_tables::fold_until(database, origin, held_from(said) - 1));
  origin.folded = std::max(origin.folded, held_from(said) - 1);
  return cost_tables::fold(database, origin);
}

}  // namespace

Result<OriginFindings> find_of_origin(Database& database, const OriginNumbers& said) {
  TRIMTAB_TRY_STATUS(check(said));
  TRIMTAB_TRY(Stored stored, read(database, said));
  OriginFindings findings;
  findings.node = stored.node;
  if (is_anothers(stored.node, said)) return findings;
  findings.last = static_cast<std::uint64_t>(stored.highest);
  findings.ahead = said.last < static_cast<std::uint64_t>(stored.highest);
  if (findings.ahead || lost(stored, said) == 0) return findings;
  TRIMTAB_TRY_STATUS(database.transaction([&] { return count_as_empty(database, said, stored); }));
  findings.node = stored.node;
  if (is_anothers(stored.node, said)) return findings;
  findings.lost = static_cast<std::uint64_t>(lost(stored, said));
  return findings;
}

}  // namespace trimtab
