// An upgrade of a cost database of version 1, as an earlier release wrote it.

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "machine.hpp"
#include "power_cuts.hpp"
#include "schema/database.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

namespace {

constexpr std::int64_t kRows = 40;

Migrations first_release() {
  std::ifstream file(TRIMTAB_FIRST_COSTS);
  std::stringstream text;
  text << file.rdbuf();
  return {0x74724331, "cost database", {text.str()}};
}

void write_old(const std::string& path) {
  auto old = Database::open(path, DatabaseMode::kCreate, first_release());
  expect(old.ok(), "the old database is made");
  const Status filled = old->transaction([&]() -> Status {
    const Fingerprint fingerprint = sample_fingerprint();
    TRIMTAB_TRY_STATUS(
        old->execute("INSERT INTO fingerprints VALUES (?, ?)", {hash(fingerprint), to_json(fingerprint)}));
    TRIMTAB_TRY_STATUS(old->execute("INSERT INTO origins VALUES (1, 'agent', ?)", {kRows}));
    for (std::int64_t i = 1; i <= kRows; ++i) {
      const CostKey key = forward_key("op" + std::to_string(i));
      TRIMTAB_TRY_STATUS(old->execute("INSERT INTO cost_keys VALUES (?, 'operator_forward', ?, ?, ?, 1, ?, 0, 0, '')",
                                      {i, key.subject, key.dtype, std::int64_t{key.samples}, key.sharding}));
      TRIMTAB_TRY_STATUS(old->execute("INSERT INTO costs VALUES (?, ?, 'active', 1, -1, ?)",
                                      {hash(fingerprint), i, statistics_of({i}).encode()}));
    }
    return {};
  });
  expect(filled.ok(), "the old database is filled");
}

std::int64_t count_old(const std::string& path) {
  const auto old = Database::open(path, DatabaseMode::kReadOnly, first_release());
  if (!old.ok()) return -1;
  const auto rows = old->query("SELECT count(*) FROM costs");
  const auto sound = old->query("PRAGMA integrity_check");
  return rows.ok() && sound.ok() && as_text((*sound)[0][0]) == "ok" ? as_integer((*rows)[0][0]) : -1;
}

// A program of the earlier release that has written to the database and has it open: what it made the disk keep, an
// upgrade beside it need not do again.
std::optional<Database> earlier_program(const std::string& path) {
  auto old = Database::open(path, DatabaseMode::kReadWrite, first_release());
  if (!old.ok() || !old->execute("UPDATE origins SET folded = folded").ok()) return std::nullopt;
  return std::move(old).value();
}

bool complete(const CostDatabase& costs) {
  const auto all = costs.costs(hash(sample_fingerprint()), {forward_key("").kind});
  if (!all.ok()) return false;
  std::map<CostKey, Statistics> found;
  for (const Cost& cost : *all) found[cost.key] = cost.statistics;
  for (std::int64_t i = 1; i <= kRows; ++i) {
    if (found[canonical(forward_key("op" + std::to_string(i)))] != statistics_of({i})) return false;
  }
  return true;
}

}  // namespace

void upgrade_cuts(std::uint64_t seed) {
  Random random(seed);
  Machine machine(random);
  const std::string path = machine.disk.file("costs.db");
  const std::string backup = path + ".v1.backup";
  write_old(path);
  for (int attempt = 0; attempt < 3; ++attempt) {
    bool upgraded = false;
    {
      const auto beside = random.below(2) == 0 ? earlier_program(path) : std::nullopt;
      machine.prepare_end(120);
      const auto costs = CostDatabase::open(path, OpenMode::kReadWrite);
      upgraded = costs.ok();
      if (!upgraded) expect(machine.may_fail(), "the upgrade succeeds: " + costs.error().message);
      if (upgraded && !machine.may_fail()) expect(complete(*costs), "the upgraded database has all costs");
    }
    machine.come_up();
    const std::int64_t old = count_old(path);
    expect(old == -1 || old == kRows, "an old database that is still old is whole");
    expect(old == -1 || !upgraded, "an upgrade that was done stays done");
    if (old == -1) expect(count_old(backup) == kRows, "an upgraded database has a whole backup beside it");
  }
  auto costs = CostDatabase::open(path, OpenMode::kReadWrite);
  expect(costs.ok() && costs->look_after().set_apart == 0, "nothing is said to be missing");
  expect(costs.ok() && complete(*costs), "in the end the database is upgraded and has all costs");
  expect(count_old(backup) == kRows, "and the backup is whole");
}

}  // namespace trimtab::test
