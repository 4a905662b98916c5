#include "state_tables.hpp"

#include <iterator>

#include "coordinator_migrations.hpp"
#include "coordinator_server_migrations.hpp"
#include "state_store.hpp"

namespace trimtab::coordinator {

namespace state_tables {

namespace {

constexpr std::uint32_t kApplicationId = 0x54544353;  // "TTCS"
// Checking as much takes 0.6 s of a processor.
constexpr Bytes kCheckedUpTo = Bytes{128} << 20;

// What follows runs where something was set apart.
constexpr const char* kNow = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000000";

std::string checksum_again(const CheckedTable& table, const std::string& rest) {
  return "UPDATE " + table.name + " SET checksum = row_checksum(" + columns_of(table) + ")" + rest;
}

// One of the two is whole, else agents meet another coordinator.
std::vector<std::string> identity_again() {
  const std::string skipped = std::to_string(kLaunchesSkipped);
  const std::string copy =
      "INSERT INTO identity_again SELECT coordinator, last_launch, checksum FROM identity WHERE NOT EXISTS (SELECT 1 "
      "FROM identity_again)";
  return {
      "INSERT INTO identity SELECT coordinator, last_launch, checksum FROM identity_again WHERE NOT EXISTS (SELECT 1 "
      "FROM identity)",
      "INSERT INTO identity (coordinator) SELECT lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM identity)",
      "UPDATE identity SET last_launch = last_launch + " + skipped,
      checksum_again(identity_rows(), ""),
      "DELETE FROM identity_again",
      copy,
      "INSERT INTO audit_horizon SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM audit_horizon)"};
}

// A run of which its state is left: it says what the other row said.
std::vector<std::string> jobs_again() {
  return {std::string("INSERT OR IGNORE INTO jobs (run, name, tenant, phase, active, launch, created_ns, changed_ns) "
                      "SELECT run, CAST(COALESCE(json_extract(json, '$.name'), json_extract(json_extract(json, "
                      "'$.job'), '$.name')) AS TEXT), "
                      "COALESCE(CAST(json_extract(json, '$.tenant') AS TEXT), '*'), "
                      "CAST(json_extract(json, '$.phase') AS TEXT), "
                      "json_extract(json, '$.phase') NOT IN ('finished', 'failed', 'stopped'), "
                      "CAST(json_extract(json, '$.launch') AS INTEGER), ") +
              kNow + ", " + kNow +
              " FROM documents WHERE kind = 'state' AND json_valid(json) AND run NOT IN (SELECT run FROM jobs)",
          checksum_again(job_rows(), " WHERE checksum = 0")};
}

// The rows that were set apart of a table whose key is a run and a number.
std::string numbered_apart(const char* place) {
  return std::string(
             "(SELECT CAST(row_text AS INTEGER) AS run, CAST(substr(row_text, instr(row_text, ', ') + 2) AS INTEGER) "
             "AS number FROM set_apart WHERE place = '") +
         place + "' AND row_text <> '') WHERE number > 0 AND run IN (SELECT run FROM jobs)";
}

// Where something stood it is said that it cannot be read.
std::vector<std::string> damaged_again() {
  const std::string text = std::string("'") + kDamagedText + "'";
  const std::string damaged = std::string("'") + kDamaged + "'";
  const std::string before = "COALESCE((SELECT MAX(at_ns) FROM ";
  return {
      "INSERT OR IGNORE INTO trials (run, trial, state, reason, plan_hash, plan, predicted_ms, measured_ms, "
      "changed_ns) SELECT run, number, " +
          damaged + ", " + text + ", '', '', 0, 0, 0 FROM " + numbered_apart("trials"),
      checksum_again(trial_rows(), " WHERE checksum = 0"),
      "INSERT OR IGNORE INTO events (run, sequence, at_ns, kind, text, data) SELECT run, number, " + before +
          "events e WHERE e.run = apart.run AND sequence < number), 0), " + damaged + ", " + text +
          ", '{}' FROM (SELECT run, number FROM " + numbered_apart("events") + ") AS apart",
      checksum_again(event_rows(), " WHERE checksum = 0"),
      "INSERT OR IGNORE INTO audit (entry, at_ns, who, what, job, run, why) SELECT entry, " + before +
          "audit a WHERE a.entry < apart.entry), " + kNow + "), '" + kCoordinatorActor + "', '" + kDamagedEntry +
          "', '', 0, reason FROM (SELECT CAST(row_text AS INTEGER) AS entry, reason FROM set_apart WHERE place = "
          "'audit' AND row_text <> '') AS apart WHERE entry > 0",
      std::string("INSERT INTO audit (at_ns, who, what, job, run, why) SELECT ") + kNow + ", '" + kCoordinatorActor +
          "', 'set apart what cannot be read of the stored state', '', 0, reason FROM set_apart WHERE place = '' "
          "ORDER BY rowid DESC LIMIT 1",
      checksum_again(audit_rows(), " WHERE checksum = 0")};
}

std::vector<std::string> after_salvage() {
  std::vector<std::string> all;
  for (const auto& some : {identity_again(), jobs_again(), damaged_again()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

const CheckedTable& identity_rows() {
  static const CheckedTable table{"identity", {"coordinator", "last_launch"}};
  return table;
}

const CheckedTable& identity_again_rows() {
  static const CheckedTable table{"identity_again", identity_rows().columns};
  return table;
}

const CheckedTable& job_rows() {
  static const CheckedTable table{"jobs", {"run", "name", "tenant", "phase", "active", "launch", "changed_ns"}};
  return table;
}

const CheckedTable& document_rows() {
  static const CheckedTable table{"documents", {"run", "kind", "json"}};
  return table;
}

const CheckedTable& phase_rows() {
  static const CheckedTable table{"phases", {"run", "sequence", "phase", "entered_ns"}};
  return table;
}

const CheckedTable& trial_rows() {
  static const CheckedTable table{
      "trials", {"run", "trial", "state", "reason", "plan_hash", "plan", "predicted_ms", "measured_ms", "changed_ns"}};
  return table;
}

const CheckedTable& step_rows() {
  static const CheckedTable table{"steps",
                                  {"run", "launch", "step", "epoch", "trial", "block", "warmup", "wall_ms", "loss"}};
  return table;
}

const CheckedTable& command_rows() {
  static const CheckedTable table{"commands", {"id", "run", "tag", "node", "done"}};
  return table;
}

const CheckedTable& event_rows() {
  static const CheckedTable table{"events", {"run", "sequence", "at_ns", "kind", "text", "data"}};
  return table;
}

const CheckedTable& audit_rows() {
  static const CheckedTable table{"audit", {"entry", "at_ns", "who", "what", "job", "run", "why", "tenant"}};
  return table;
}

}  // namespace state_tables

Migrations state_migrations() {
  using namespace state_tables;
  return {kApplicationId,
          "coordinator state",
          {std::begin(kCoordinatorMigrations), std::end(kCoordinatorMigrations)},
          {std::begin(kCoordinatorServerMigrations), std::end(kCoordinatorServerMigrations)},
          {identity_rows(), identity_again_rows(), job_rows(), document_rows(), phase_rows(), trial_rows(), step_rows(),
           command_rows(), event_rows(), audit_rows()},
          after_salvage(),
          kCheckedUpTo};
}

}  // namespace trimtab::coordinator
