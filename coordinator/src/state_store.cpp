#include "state_store.hpp"

#include <algorithm>
#include <iterator>

#include "coordinator_migrations.hpp"
#include "coordinator_server_migrations.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::uint32_t kApplicationId = 0x54544353;  // "TTCS"

std::int64_t integer(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

// A row's columns in their order.
template <typename... Fields>
void take(const Row& row, Fields&... fields) {
  std::size_t column = 0;
  const auto one = [&](auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const auto& value = row[column++];
    if constexpr (std::is_same_v<Field, std::string>) {
      field = as_text(value);
    } else if constexpr (std::is_floating_point_v<Field>) {
      field = as_real(value);
    } else if constexpr (std::is_same_v<Field, bool>) {
      field = as_integer(value) != 0;
    } else {
      field = static_cast<Field>(as_integer(value));
    }
  };
  (one(fields), ...);
}

}  // namespace

Migrations state_migrations() {
  return {kApplicationId,
          "coordinator state",
          {std::begin(kCoordinatorMigrations), std::end(kCoordinatorMigrations)},
          {std::begin(kCoordinatorServerMigrations), std::end(kCoordinatorServerMigrations)}};
}

Result<StateStore> StateStore::open(const std::string& name) {
  TRIMTAB_TRY(Database database, Database::open(name, DatabaseMode::kCreate, state_migrations(), true));
  TRIMTAB_TRY(const auto rows, database.query("SELECT coordinator FROM identity"));
  if (rows.size() != 1) return unavailable("the coordinator state " + name + " has lost its identity: it is damaged");
  return StateStore(std::move(database), as_text(rows[0][0]));
}

Result<StateStore> StateStore::open_to_read(const std::string& name) {
  TRIMTAB_TRY(Database database, Database::open(name, DatabaseMode::kReadOnly, state_migrations()));
  return StateStore(std::move(database), "");
}

Result<std::int64_t> StateStore::add_job(const TuningState& state, std::int64_t now_ns) {
  TRIMTAB_TRY(const auto rows,
              database_.execute_returning(
                  "INSERT INTO jobs (name, phase, active, state, created_ns, changed_ns) "
                  "VALUES (?, ?, 1, ?, ?, ?) RETURNING run",
                  {state.job.name, std::string(to_string(state.phase)), to_json(state), now_ns, now_ns}));
  return as_integer(rows.at(0)[0]);
}

Status StateStore::save(std::int64_t run, const TuningState& state, const Transition& transition, std::int64_t now_ns) {
  if (transition.empty()) return {};
  return database_.transaction([&] { return write(run, state, transition, now_ns); });
}

Status StateStore::write(std::int64_t run, const TuningState& state, const Transition& transition,
                         std::int64_t now_ns) {
  for (const Note& note : transition.notes) TRIMTAB_TRY_STATUS(write_note(run, note, now_ns));
  for (const AuditEntry& entry : transition.audit) TRIMTAB_TRY_STATUS(add_audit(entry, now_ns));
  TRIMTAB_TRY_STATUS(write_steps(run, transition.steps));
  TRIMTAB_TRY_STATUS(write_trials(run, state, transition, now_ns));
  if (!transition.state_changed) return {};
  return database_.execute(
      "UPDATE jobs SET phase = ?, active = ?, state = ?, changed_ns = ? WHERE run = ?",
      {std::string(to_string(state.phase)), std::int64_t{is_final(state.phase) ? 0 : 1}, to_json(state), now_ns, run});
}

Status StateStore::write_steps(std::int64_t run, const std::vector<MeasuredStep>& steps) {
  Rows rows;
  for (const MeasuredStep& step : steps) {
    rows.push_back({run, integer(step.launch), step.step, integer(step.epoch), std::int64_t{step.trial},
                    std::int64_t{step.block}, std::int64_t{step.warmup ? 1 : 0}, step.wall_ms, step.loss});
  }
  return database_.execute_each(
      "INSERT INTO steps (run, launch, step, epoch, trial, block, warmup, wall_ms, loss) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, launch, step) DO UPDATE SET epoch = excluded.epoch, "
      "trial = excluded.trial, block = excluded.block, warmup = excluded.warmup, wall_ms = excluded.wall_ms, "
      "loss = excluded.loss",
      rows);
}

Status StateStore::write_note(std::int64_t run, const Note& note, std::int64_t now_ns) {
  TRIMTAB_TRY_STATUS(database_.execute(
      "INSERT INTO events SELECT ?1, 1 + COALESCE(MAX(sequence), 0), ?2, ?3, ?4, ?5 FROM events WHERE run = ?1",
      {run, now_ns, note.kind, note.text, note.data_json}));
  TRIMTAB_TRY_STATUS(database_.execute(
      "DELETE FROM events WHERE run = ?1 AND sequence <= (SELECT MAX(sequence) FROM events WHERE run = ?1) - ?2",
      {run, kEventsKept}));
  if (note.kind != "phase" || !phase_named(note.text)) return {};
  TRIMTAB_TRY_STATUS(database_.execute(
      "INSERT INTO phases SELECT ?1, 1 + COALESCE(MAX(sequence), 0), ?2, ?3 FROM phases WHERE run = ?1",
      {run, note.text, now_ns}));
  return database_.execute(
      "DELETE FROM phases WHERE run = ?1 AND sequence <= (SELECT MAX(sequence) FROM phases WHERE run = ?1) - ?2",
      {run, kPhasesKept});
}

// A trial that was taken back before it began leaves no row.
Status StateStore::write_trials(std::int64_t run, const TuningState& state, const Transition& transition,
                                std::int64_t now_ns) {
  for (const Trial& trial : transition.trials) {
    TRIMTAB_TRY_STATUS(write_trial(run, trial, now_ns));
    if (!trial.plan.json.empty()) continue;
    TRIMTAB_TRY_STATUS(
        database_.execute("DELETE FROM steps WHERE run = ? AND trial = ?", {run, std::int64_t{trial.id}}));
  }
  if (!transition.state_changed || state.trials.empty()) return {};
  return write_trial(run, state.trials.back(), now_ns);
}

Status StateStore::write_trial(std::int64_t run, const Trial& trial, std::int64_t now_ns) {
  return database_.execute(
      "INSERT INTO trials (run, trial, state, reason, plan_hash, plan, predicted_ms, measured_ms, changed_ns) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, trial) DO UPDATE SET state = excluded.state, "
      "reason = excluded.reason, plan_hash = excluded.plan_hash, plan = excluded.plan, "
      "predicted_ms = excluded.predicted_ms, measured_ms = excluded.measured_ms, changed_ns = excluded.changed_ns",
      {run, std::int64_t{trial.id}, std::string(to_string(trial.state)), trial.reason.text(), trial.plan.hash,
       trial.plan.json, trial.predicted.mean_ms, trial.measured.mean_ms, now_ns});
}

Status StateStore::save_timelines(std::int64_t run, const std::string& json) {
  return database_.execute("UPDATE jobs SET timelines = ? WHERE run = ?", {json, run});
}

Status StateStore::save_card(std::int64_t run, const std::string& json) {
  return database_.execute("UPDATE jobs SET card = ? WHERE run = ?", {json, run});
}

Result<std::vector<StoredRun>> StateStore::latest_runs() const {
  TRIMTAB_TRY(const auto rows, database_.query("SELECT run, name, active FROM jobs WHERE run IN "
                                               "(SELECT MAX(run) FROM jobs GROUP BY name) ORDER BY run"));
  std::vector<StoredRun> runs;
  for (const Row& row : rows) {
    StoredRun& one = runs.emplace_back();
    take(row, one.run, one.name, one.active);
  }
  return runs;
}

Result<StoredJob> StateStore::job(std::int64_t run) const {
  TRIMTAB_TRY(const auto rows, database_.query("SELECT state, timelines, card FROM jobs WHERE run = ?", {run}));
  if (rows.empty()) return bad_input("run " + std::to_string(run) + " is not stored");
  TRIMTAB_TRY(TuningState state, parse_tuning_state(as_text(rows[0][0])));
  return StoredJob{run, std::move(state), {as_text(rows[0][1]), as_text(rows[0][2])}};
}

Result<std::uint64_t> StateStore::last_launch() const {
  TRIMTAB_TRY(const auto rows, database_.query("SELECT last_launch FROM identity"));
  return static_cast<std::uint64_t>(as_integer(rows.at(0)[0]));
}

Result<std::uint64_t> StateStore::last_launch(const std::string& name) const {
  TRIMTAB_TRY(const std::uint64_t last, last_launch());
  TRIMTAB_TRY(const auto rows,
              database_.query("SELECT state FROM jobs WHERE name = ? ORDER BY run DESC LIMIT 1", {name}));
  if (rows.empty()) return last;
  TRIMTAB_TRY(const TuningState state, parse_tuning_state(as_text(rows[0][0])));
  return std::max(last, state.launch);
}

Status StateStore::raise_last_launch(std::uint64_t launch) {
  return database_.execute("UPDATE identity SET last_launch = ?1 WHERE last_launch < ?1", {integer(launch)});
}

Result<std::vector<std::int64_t>> StateStore::runs_over(std::int64_t before_ns, std::int64_t limit) const {
  TRIMTAB_TRY(const auto rows,
              database_.query("SELECT run FROM jobs WHERE active = 0 AND changed_ns < ? ORDER BY changed_ns LIMIT ?",
                              {before_ns, limit}));
  std::vector<std::int64_t> runs;
  for (const Row& row : rows) runs.push_back(as_integer(row[0]));
  return runs;
}

Result<bool> StateStore::forget_run(std::int64_t run, std::int64_t rows) {
  TRIMTAB_TRY(const auto over, database_.query("SELECT state FROM jobs WHERE run = ? AND active = 0", {run}));
  if (over.empty()) return true;
  TRIMTAB_TRY(const TuningState state, parse_tuning_state(as_text(over[0][0])));
  TRIMTAB_TRY(const bool some, remove_rows(run, rows));
  if (some) return false;
  const auto remove_run = [&]() -> Status {
    TRIMTAB_TRY_STATUS(raise_last_launch(state.launch));
    return database_.execute("DELETE FROM jobs WHERE run = ?", {run});
  };
  TRIMTAB_TRY_STATUS(database_.transaction(remove_run));
  return true;
}

Result<bool> StateStore::remove_rows(std::int64_t run, std::int64_t rows) {
  static constexpr std::pair<const char*, const char*> kTablesAndKeys[] = {{"steps", "launch, step"},
                                                                           {"events", "sequence"},
                                                                           {"trials", "trial"},
                                                                           {"phases", "sequence"},
                                                                           {"commands", "id"}};
  for (const auto& [table, key] : kTablesAndKeys) {
    const std::string of_run = std::string(" FROM ") + table + " WHERE run = ?1";
    TRIMTAB_TRY(const auto some, database_.query("SELECT 1" + of_run + " LIMIT 1", {run}));
    if (some.empty()) continue;
    const std::string columns(key);
    const std::string first = "(SELECT " + columns + of_run + " ORDER BY " + columns + " LIMIT ?2)";
    TRIMTAB_TRY_STATUS(database_.execute("DELETE" + of_run + " AND (" + columns + ") IN " + first, {run, rows}));
    return true;
  }
  return false;
}

Result<std::uint64_t> StateStore::command_id(std::int64_t run, const std::string& tag, const std::string& node) {
  constexpr const char* kFind = "SELECT id FROM commands WHERE run = ? AND tag = ?";
  TRIMTAB_TRY(auto rows, database_.query(kFind, {run, tag}));
  if (rows.empty()) {
    TRIMTAB_TRY(rows, database_.execute_returning("INSERT INTO commands (run, tag, node) VALUES (?, ?, ?) RETURNING id",
                                                  {run, tag, node}));
  }
  return static_cast<std::uint64_t>(as_integer(rows.at(0)[0]));
}

Result<std::optional<CommandOwner>> StateStore::command_owner(std::uint64_t id) const {
  TRIMTAB_TRY(const auto rows, database_.query("SELECT run, tag, node FROM commands WHERE id = ?", {integer(id)}));
  if (rows.empty()) return std::optional<CommandOwner>{};
  return std::optional<CommandOwner>({as_integer(rows[0][0]), as_text(rows[0][1]), as_text(rows[0][2])});
}

Status StateStore::command_done(std::uint64_t id) {
  TRIMTAB_TRY_STATUS(database_.execute("UPDATE commands SET done = 1 WHERE id = ?", {integer(id)}));
  return id <= kCommandsKept ? Status() : forget_done_commands(id - kCommandsKept);
}

Status StateStore::forget_done_commands(std::uint64_t up_to) {
  return database_.execute("DELETE FROM commands WHERE id <= ? AND done = 1", {integer(up_to)});
}

Result<std::vector<StoredEvent>> StateStore::events(std::int64_t run, std::int64_t after, std::int64_t limit) const {
  TRIMTAB_TRY(const auto sizes, database_.query("SELECT sequence, LENGTH(text) + LENGTH(data) FROM events "
                                                "WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?",
                                                {run, after, limit}));
  std::int64_t last = after;
  std::int64_t bytes = 0;
  for (const Row& row : sizes) {
    bytes += as_integer(row[1]);
    if (bytes > kEventBytes && last != after) break;
    last = as_integer(row[0]);
  }
  TRIMTAB_TRY(const auto rows, database_.query("SELECT sequence, at_ns, kind, text, data FROM events "
                                               "WHERE run = ? AND sequence > ? AND sequence <= ? ORDER BY sequence",
                                               {run, after, last}));
  std::vector<StoredEvent> events;
  for (const Row& row : rows) {
    StoredEvent& one = events.emplace_back();
    take(row, one.sequence, one.at_ns, one.note.kind, one.note.text, one.note.data_json);
  }
  return events;
}

Status StateStore::add_audit(const AuditEntry& entry, std::int64_t now_ns) {
  return database_.execute("INSERT INTO audit (at_ns, who, what, job, run, why, tenant) VALUES (?, ?, ?, ?, ?, ?, ?)",
                           {now_ns, entry.who, entry.what, entry.job, entry.run, entry.why, entry.tenant});
}

// The horizon never moves back: what may be gone stays free to go.
Result<std::uint64_t> StateStore::forget_audit(std::int64_t before_ns, std::int64_t count, std::int64_t now_ns) {
  TRIMTAB_TRY(const auto due, database_.query("SELECT 1 FROM audit WHERE at_ns < ? LIMIT 1", {before_ns}));
  if (due.empty()) return std::uint64_t{0};
  std::uint64_t removed = 0;
  const auto forget = [&]() -> Status {
    TRIMTAB_TRY_STATUS(database_.execute("UPDATE audit_horizon SET at_ns = ?1 WHERE at_ns < ?1", {before_ns}));
    TRIMTAB_TRY(const auto gone, database_.execute_returning(
                                     "DELETE FROM audit WHERE entry IN (SELECT entry FROM audit WHERE at_ns < ?1 "
                                     "ORDER BY at_ns LIMIT ?2) RETURNING entry",
                                     {before_ns, count}));
    removed = gone.size();
    const std::string what =
        "remove " + std::to_string(removed) + (removed == 1 ? " entry" : " entries") + " of the audit log";
    return add_audit({kCoordinatorActor, what, "", 0, "older than audit_retention"}, now_ns);
  };
  TRIMTAB_TRY_STATUS(database_.transaction(forget));
  return removed;
}

Result<std::vector<StoredAudit>> StateStore::audit(const std::string& job, std::int64_t after, std::int64_t limit,
                                                   const std::optional<AuditReader>& reader) const {
  std::string sql =
      "SELECT entry, at_ns, who, what, job, run, why, tenant FROM audit "
      "WHERE (?1 = '' OR job = ?1) AND entry > ?2";
  Row arguments{job, after, limit};
  if (reader) {
    sql += " AND (tenant = ?4 OR (tenant = '' AND run = ?5))";
    arguments.emplace_back(reader->tenant);
    arguments.emplace_back(reader->run);
  }
  TRIMTAB_TRY(const auto rows, database_.query(sql + " ORDER BY entry LIMIT ?3", arguments));
  std::vector<StoredAudit> entries;
  for (const Row& row : rows) {
    StoredAudit& one = entries.emplace_back();
    AuditEntry& said = one.audit;
    take(row, one.entry, one.at_ns, said.who, said.what, said.job, said.run, said.why, said.tenant);
  }
  return entries;
}

Result<std::vector<MeasuredStep>> StateStore::steps(std::int64_t run) const {
  TRIMTAB_TRY(const auto rows,
              database_.query("SELECT launch, step, epoch, trial, block, warmup, wall_ms, loss FROM steps "
                              "WHERE run = ? ORDER BY launch DESC, step DESC LIMIT ?",
                              {run, kStepsKept}));
  std::vector<MeasuredStep> steps(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    MeasuredStep& one = steps[rows.size() - 1 - i];
    take(rows[i], one.launch, one.step, one.epoch, one.trial, one.block, one.warmup, one.wall_ms, one.loss);
  }
  return steps;
}

namespace {

constexpr const char* kOlderSteps = " FROM steps WHERE run = ?1 AND (launch, step) <= (?2, ?3)";

}  // namespace

// Of the older steps those stay whose number is a multiple of it; 0: none.
Result<std::int64_t> StateStore::stride_of_steps(const Row& older) const {
  constexpr std::int64_t kMost = (kStepsKept - kStepsWhole) / 2;
  constexpr std::int64_t kLongest = std::int64_t{1} << 40;
  TRIMTAB_TRY(const auto all, database_.query(std::string("SELECT COUNT(*)") + kOlderSteps, older));
  std::int64_t stride = 2;
  while (as_integer(all.at(0)[0]) / stride > kMost) stride *= 2;
  Row arguments = older;
  for (; stride <= kLongest; stride *= 2) {
    arguments.resize(older.size());
    arguments.emplace_back(stride);
    TRIMTAB_TRY(const auto left,
                database_.query(std::string("SELECT COUNT(*)") + kOlderSteps + " AND step % ?4 = 0", arguments));
    if (as_integer(left.at(0)[0]) <= kMost) return std::int64_t{stride};
  }
  return std::int64_t{0};
}

Result<bool> StateStore::thin_steps(std::int64_t run) {
  TRIMTAB_TRY(const auto surplus, database_.query("SELECT launch, step FROM steps WHERE run = ?1 "
                                                  "ORDER BY launch DESC, step DESC LIMIT 1 OFFSET ?2",
                                                  {run, kStepsKept}));
  if (surplus.empty()) return false;
  TRIMTAB_TRY(const auto newest_old, database_.query("SELECT launch, step FROM steps WHERE run = ?1 "
                                                     "ORDER BY launch DESC, step DESC LIMIT 1 OFFSET ?2",
                                                     {run, kStepsWhole}));
  const Row older{run, newest_old.at(0)[0], newest_old.at(0)[1]};
  TRIMTAB_TRY(const std::int64_t stride, stride_of_steps(older));
  Row arguments = older;
  if (stride > 0) arguments.emplace_back(stride);
  arguments.emplace_back(kStepsThinnedAtOnce);
  const std::string unkept = std::string(kOlderSteps) + (stride > 0 ? " AND step % ?4 <> 0" : "");
  const std::string limit = " ORDER BY launch, step LIMIT ?" + std::to_string(arguments.size());
  TRIMTAB_TRY_STATUS(database_.execute(
      "DELETE FROM steps WHERE run = ?1 AND (launch, step) IN (SELECT launch, step" + unkept + limit + ")", arguments));
  return true;
}

Result<std::vector<EarlierTrial>> StateStore::earlier_trials(std::int64_t run) const {
  TRIMTAB_TRY(auto rows,
              database_.query("SELECT trial, state, reason, plan_hash, predicted_ms, measured_ms FROM trials "
                              "WHERE run = ? AND plan = '' ORDER BY trial DESC LIMIT ?",
                              {run, kEarlierTrialsTold}));
  std::ranges::reverse(rows);
  std::vector<EarlierTrial> trials;
  for (const Row& row : rows) {
    EarlierTrial& one = trials.emplace_back();
    take(row, one.id, one.state, one.reason, one.plan_hash, one.predicted_ms, one.measured_ms);
  }
  return trials;
}

}  // namespace trimtab::coordinator
