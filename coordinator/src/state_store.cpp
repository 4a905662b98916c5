#include "state_store.hpp"

#include <algorithm>

#include "base/text_parts.hpp"
#include "state_tables.hpp"

namespace trimtab::coordinator {
using namespace state_tables;

namespace {

// Kinds of documents.
constexpr const char* kState = "state";
constexpr const char* kLasting = "lasting";  // of the state
constexpr const char* kTimelines = "timelines";
constexpr const char* kCard = "card";
// Of no run, which 0 stands for: a token's names of nodes, a line each.
constexpr std::int64_t kNoRun = 0;
constexpr std::string_view kNodesOf = "nodes of ";

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

// What is left of a row that does not have its checksum: the column, where it holds a number.
std::int64_t number_in(const Row& row, std::size_t column) {
  const auto* number = std::get_if<std::int64_t>(&row[column]);
  return number == nullptr ? 0 : *number;
}

struct Head {
  std::int64_t run = 0;
  std::string name;
  std::string tenant;
  std::string phase;
  bool active = false;
  std::uint64_t launch = 0;
};

Head head_of(const Row& row) {
  Head head;
  take(row, head.run, head.name, head.tenant, head.phase, head.active, head.launch);
  return head;
}

// Of a job whose state cannot be read: it is over, since nobody knows which plan it ran.
TuningState lost_state(const Head& head, const std::string& database) {
  TuningState state;
  state.job.name = head.name;
  state.job.world_size = 1;
  state.tenant = head.tenant;
  state.launch = head.launch;
  state.phase = phase_named(head.phase).value_or(Phase::kFailed);
  if (!is_final(state.phase)) state.phase = Phase::kFailed;
  state.failure =
      "what was stored of it is damaged, its plan too, so it is not run on: ranks that are left of it are "
      "ended. Hand it in again, and it goes on from its latest checkpoint. What could not be read is named "
      "in the table set_apart of " +
      database;
  return state;
}

}  // namespace

// A file that was too large to be checked, and is damaged where the start reads it, is checked the second time.
Result<StateStore> StateStore::open(const std::string& name) {
  auto opened = try_open(name);
  if (opened.ok() || opened.error().kind != ErrorKind::kBadInput || names_server(name)) return opened;
  return try_open(name);
}

Result<StateStore> StateStore::try_open(const std::string& name) {
  TRIMTAB_TRY(Database database, Database::open(name, DatabaseMode::kCreate, state_migrations(), true));
  StateStore store(std::move(database), "");
  TRIMTAB_TRY_STATUS(store.read_identity());
  if (!names_server(name)) {
    TRIMTAB_TRY_STATUS(store.latest_runs());
  }
  return store;
}

// Whose rows are checked as they are read: an answer must not wait until the whole file is.
Result<StateStore> StateStore::open_to_read(const std::string& name) {
  Migrations migrations = state_migrations();
  migrations.checked.clear();
  TRIMTAB_TRY(Database database, Database::open(name, DatabaseMode::kReadOnly, migrations));
  return StateStore(std::move(database), "");
}

// From the first that is whole, which the other is then made of.
Status StateStore::read_identity() {
  for (const CheckedTable* table : {&identity_rows(), &identity_again_rows()}) {
    TRIMTAB_TRY(const auto found, database_.query_checked(*table));
    if (found.rows.size() != 1) continue;
    identity_ = as_text(found.rows[0][0]);
    last_launch_ = static_cast<std::uint64_t>(as_integer(found.rows[0][1]));
    const bool is_checked = table == &identity_rows() && !names_server(name());  // a server's may lack its checksum
    return is_checked ? Status() : database_.transaction([&] { return write_identity(last_launch_); });
  }
  return bad_input("the coordinator state " + name() +
                   " has lost its identity: it is damaged. Put a backup in its place");
}

Status StateStore::write_identity(std::uint64_t last_launch) {
  for (const CheckedTable* table : {&identity_rows(), &identity_again_rows()}) {
    TRIMTAB_TRY_STATUS(database_.execute("DELETE FROM " + table->name));
    TRIMTAB_TRY_STATUS(database_.execute(insertion(*table), with_checksum({identity_, integer(last_launch)})));
  }
  return {};
}

Result<std::int64_t> StateStore::add_job(const TuningState& state, std::int64_t now_ns) {
  std::int64_t run = 0;
  const auto add = [&]() -> Status {
    TRIMTAB_TRY(const auto rows,
                database_.execute_returning("INSERT INTO jobs (name, phase, active, created_ns, changed_ns) "
                                            "VALUES (?, ?, 1, ?, ?) RETURNING run",
                                            {state.job.name, std::string(to_string(state.phase)), now_ns, now_ns}));
    run = as_integer(rows.at(0)[0]);
    return write_state(run, state, now_ns);
  };
  TRIMTAB_TRY_STATUS(database_.transaction(add));
  lasting_stored_[run] = !state.model_json.empty();
  return run;
}

Status StateStore::write_state(std::int64_t run, const TuningState& state, std::int64_t now_ns) {
  // With each transition that would be megabytes again.
  const auto stored = lasting_stored_.find(run);
  const bool is_stored = stored != lasting_stored_.end() && stored->second == !state.model_json.empty();
  if (!is_stored || state.watched) TRIMTAB_TRY_STATUS(write_document(run, kLasting, lasting_json(state)));
  TRIMTAB_TRY_STATUS(write_document(run, kState, changing_json(state)));
  Row head = with_checksum({run, state.job.name, state.tenant, std::string(to_string(state.phase)),
                            std::int64_t{is_final(state.phase) ? 0 : 1}, integer(state.launch), now_ns});
  std::swap(head.front(), head.back());  // the checksum is set, the run is asked for
  return database_.execute(
      "UPDATE jobs SET checksum = ?, name = ?, tenant = ?, phase = ?, active = ?, launch = ?, changed_ns = ? WHERE "
      "run = ?",
      head);
}

Status StateStore::write_document(std::int64_t run, const std::string& kind, const std::string& json) {
  return database_.execute(insertion(document_rows(), "run, kind"), with_checksum({run, kind, json}));
}

Status StateStore::save(std::int64_t run, const TuningState& state, const Transition& transition, std::int64_t now_ns) {
  if (transition.empty()) return {};
  TRIMTAB_TRY_STATUS(database_.transaction([&] { return write(run, state, transition, now_ns); }));
  if (transition.state_changed) lasting_stored_[run] = !state.model_json.empty();
  return {};
}

Status StateStore::write(std::int64_t run, const TuningState& state, const Transition& transition,
                         std::int64_t now_ns) {
  TRIMTAB_TRY_STATUS(write_notes(run, transition.notes, now_ns));
  for (const AuditEntry& entry : transition.audit) TRIMTAB_TRY_STATUS(write_audit(entry, now_ns));
  TRIMTAB_TRY_STATUS(write_steps(run, transition.steps));
  TRIMTAB_TRY_STATUS(write_trials(run, state, transition, now_ns));
  return transition.state_changed ? write_state(run, state, now_ns) : Status();
}

Status StateStore::write_steps(std::int64_t run, const std::vector<MeasuredStep>& steps) {
  Rows rows;
  for (const MeasuredStep& step : steps) {
    rows.push_back(
        with_checksum({run, integer(step.launch), step.step, integer(step.epoch), std::int64_t{step.trial},
                       std::int64_t{step.block}, std::int64_t{step.warmup ? 1 : 0}, step.wall_ms, step.loss}));
  }
  return database_.execute_each(insertion(step_rows(), "run, launch, step"), rows);
}

Status StateStore::write_notes(std::int64_t run, const std::vector<Note>& notes, std::int64_t now_ns) {
  Rows events;
  Rows phases;
  for (const Note& note : notes) {
    events.push_back({now_ns, note.kind, note.text, note.data_json});
    if (note.kind == "phase" && phase_named(note.text)) phases.push_back({note.text, now_ns});
  }
  TRIMTAB_TRY_STATUS(append(event_rows(), run, events, kEventsKept));
  return append(phase_rows(), run, phases, kPhasesKept);
}

// Behind the run's rows there, of which so many stay.
Status StateStore::append(const CheckedTable& table, std::int64_t run, const Rows& values, std::int64_t kept) {
  if (values.empty()) return {};
  TRIMTAB_TRY(const auto last,
              database_.query("SELECT COALESCE(MAX(sequence), 0) FROM " + table.name + " WHERE run = ?", {run}));
  std::int64_t sequence = as_integer(last.at(0)[0]);
  Rows rows;
  for (const Row& one : values) {
    Row row{run, ++sequence};
    row.insert(row.end(), one.begin(), one.end());
    rows.push_back(with_checksum(std::move(row)));
  }
  TRIMTAB_TRY_STATUS(database_.execute_each(insertion(table), rows));
  return database_.execute("DELETE FROM " + table.name + " WHERE run = ? AND sequence <= ?", {run, sequence - kept});
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
      insertion(trial_rows(), "run, trial"),
      with_checksum({run, std::int64_t{trial.id}, std::string(to_string(trial.state)), trial.reason.text(),
                     trial.plan.hash, trial.plan.json, trial.predicted.mean_ms, trial.measured.mean_ms, now_ns}));
}

Status StateStore::save_timelines(std::int64_t run, const std::string& json) {
  return write_document(run, kTimelines, json);
}

Status StateStore::save_card(std::int64_t run, const std::string& json) {
  return write_document(run, kCard, json);
}

Result<std::map<std::string, std::vector<std::string>>> StateStore::node_names() const {
  TRIMTAB_TRY(const auto found, database_.query_checked(document_rows(), "WHERE run = ?", {kNoRun}));
  std::map<std::string, std::vector<std::string>> names;
  for (const Row& row : found.rows) {
    const std::string& kind = as_text(row[1]);
    if (!kind.starts_with(kNodesOf)) continue;
    std::string_view text = as_text(row[2]);
    std::vector<std::string>& nodes = names[kind.substr(kNodesOf.size())];
    while (!text.empty()) nodes.emplace_back(take_line(text));
  }
  return names;
}

Status StateStore::save_node_names(const std::string& owner, const std::vector<std::string>& nodes) {
  const std::string kind = std::string(kNodesOf) + owner;
  if (!nodes.empty()) return write_document(kNoRun, kind, joined(nodes, "\n"));
  return database_.execute("DELETE FROM documents WHERE run = ? AND kind = ?", {kNoRun, kind});
}

// Where the row is damaged, the run's state says whose it is.
Result<std::vector<StoredRun>> StateStore::latest_runs() const {
  TRIMTAB_TRY(const auto found,
              database_.query_checked(job_rows(), "WHERE run IN (SELECT MAX(run) FROM jobs GROUP BY name)"));
  std::vector<StoredRun> runs;
  for (const Row& row : found.rows) {
    const Head head = head_of(row);
    runs.push_back({head.run, head.name, head.active});
  }
  for (const Row& row : found.damaged) {
    const std::int64_t run = number_in(row, 0);
    const auto stored = job(run);
    if (!stored.ok() && stored.error().kind != ErrorKind::kBadInput) return stored.error();
    if (stored.ok()) runs.push_back({run, stored->state.job.name, !is_final(stored->state.phase)});
  }
  std::ranges::sort(runs, {}, &StoredRun::run);
  return runs;
}

Result<StoredJob> StateStore::job(std::int64_t run) const {
  TRIMTAB_TRY(const auto heads, database_.query_checked(job_rows(), "WHERE run = ?", {run}));
  TRIMTAB_TRY(const auto documents, database_.query_checked(document_rows(), "WHERE run = ?", {run}));
  if (heads.rows.empty() && heads.damaged.empty()) {
    return bad_input("run " + std::to_string(run) + " is not stored");
  }
  StoredJob stored;
  stored.run = run;
  std::string state_json;
  std::string lasting;
  for (const Row& row : documents.rows) {
    const std::string& kind = as_text(row[1]);
    const std::string& json = as_text(row[2]);
    if (kind == kTimelines) stored.documents.timelines_json = json;
    if (kind == kCard) stored.documents.card_json = json;
    if (kind == kState) state_json = json;
    if (kind == kLasting) lasting = json;
  }
  if (!state_json.empty()) {
    auto parsed = parse_tuning_state(state_json, lasting);
    if (parsed.ok()) {
      stored.state = std::move(parsed).value();
      return stored;
    }
    if (parsed.error().kind != ErrorKind::kNo) return parsed.error();
  }
  stored.is_lost = true;
  if (heads.rows.empty()) {
    return bad_input("what is stored of run " + std::to_string(run) +
                     " is damaged: neither its name nor its state can be read");
  }
  stored.state = lost_state(head_of(heads.rows[0]), name());
  return stored;
}

Result<std::uint64_t> StateStore::last_launch(const std::string& name) const {
  TRIMTAB_TRY(const auto found,
              database_.query_checked(job_rows(), "WHERE name = ? ORDER BY run DESC LIMIT 1", {name}));
  if (!found.damaged.empty()) return last_launch_ + kLaunchesSkipped;
  return found.rows.empty() ? last_launch_ : std::max(last_launch_, head_of(found.rows[0]).launch);
}

Status StateStore::raise_last_launch(std::uint64_t launch) {
  if (launch <= last_launch_) return {};
  TRIMTAB_TRY_STATUS(database_.transaction([&] { return write_identity(launch); }));
  last_launch_ = launch;
  return {};
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
  TRIMTAB_TRY(const auto over, database_.query_checked(job_rows(), "WHERE run = ? AND active = 0", {run}));
  if (!over.damaged.empty()) return bad_input("its row is damaged");
  if (over.rows.empty()) return true;
  TRIMTAB_TRY(const bool some, remove_rows(run, rows));
  if (some) return false;
  const std::uint64_t launch = std::max(last_launch_, head_of(over.rows[0]).launch);
  const auto remove_run = [&]() -> Status {
    TRIMTAB_TRY_STATUS(write_identity(launch));
    return database_.execute("DELETE FROM jobs WHERE run = ?", {run});
  };
  TRIMTAB_TRY_STATUS(database_.transaction(remove_run));
  lasting_stored_.erase(run);
  last_launch_ = launch;
  return true;
}

Result<bool> StateStore::remove_rows(std::int64_t run, std::int64_t rows) {
  static constexpr std::pair<const char*, const char*> kTablesAndKeys[] = {
      {"steps", "launch, step"}, {"events", "sequence"}, {"trials", "trial"},
      {"phases", "sequence"},    {"commands", "id"},     {"documents", "kind"}};
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

// One that is damaged is numbered anew.
Result<std::int64_t> StateStore::number_command(const CommandOwner& command) {
  const auto& [run, tag, node] = command;
  TRIMTAB_TRY(const auto found, database_.query_checked(command_rows(), "WHERE run = ? AND tag = ?", {run, tag}));
  if (!found.rows.empty()) return as_integer(found.rows[0][0]);
  if (!found.damaged.empty()) {
    TRIMTAB_TRY_STATUS(database_.execute("DELETE FROM commands WHERE run = ? AND tag = ?", {run, tag}));
  }
  TRIMTAB_TRY(const auto rows,
              database_.execute_returning("INSERT INTO commands (run, tag, node) VALUES (?, ?, ?) RETURNING id",
                                          {run, tag, node}));
  const std::int64_t id = as_integer(rows.at(0)[0]);
  TRIMTAB_TRY_STATUS(database_.execute("UPDATE commands SET checksum = ? WHERE id = ?",
                                       {row_checksum({id, run, tag, node, std::int64_t{0}}), id}));
  return id;
}

Status StateStore::number_commands(const std::vector<CommandOwner>& commands) {
  return database_.transaction([&]() -> Status {
    for (const CommandOwner& command : commands) TRIMTAB_TRY_STATUS(number_command(command));
    return {};
  });
}

Result<std::uint64_t> StateStore::command_id(std::int64_t run, const std::string& tag, const std::string& node) {
  TRIMTAB_TRY(const auto found, database_.query_checked(command_rows(), "WHERE run = ? AND tag = ?", {run, tag}));
  if (!found.rows.empty()) return static_cast<std::uint64_t>(as_integer(found.rows[0][0]));
  std::int64_t id = 0;
  const auto add = [&]() -> Status {
    TRIMTAB_TRY(id, number_command({run, tag, node}));
    return {};
  };
  TRIMTAB_TRY_STATUS(database_.transaction(add));
  return static_cast<std::uint64_t>(id);
}

Result<std::optional<CommandOwner>> StateStore::command_owner(std::uint64_t id) const {
  TRIMTAB_TRY(const auto found, database_.query_checked(command_rows(), "WHERE id = ?", {integer(id)}));
  if (found.rows.empty()) return std::optional<CommandOwner>{};
  const Row& row = found.rows[0];
  return std::optional<CommandOwner>({as_integer(row[1]), as_text(row[2]), as_text(row[3])});
}

Status StateStore::command_done(std::uint64_t id) {
  TRIMTAB_TRY(auto found, database_.query_checked(command_rows(), "WHERE id = ?", {integer(id)}));
  if (found.rows.empty()) return {};
  found.rows[0].back() = std::int64_t{1};
  TRIMTAB_TRY_STATUS(database_.execute("UPDATE commands SET done = 1, checksum = ? WHERE id = ?",
                                       {row_checksum(found.rows[0]), integer(id)}));
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
  TRIMTAB_TRY(
      const auto found,
      database_.query_checked(event_rows(), "WHERE run = ? AND sequence > ? AND sequence <= ?", {run, after, last}));
  std::vector<StoredEvent> events;
  std::int64_t same = 0;
  for (const Row& row : found.rows) {
    StoredEvent& one = events.emplace_back();
    take(row, same, one.sequence, one.at_ns, one.note.kind, one.note.text, one.note.data_json);
  }
  for (const Row& row : found.damaged) events.push_back({number_in(row, 1), 0, {kDamaged, kDamagedText}});
  std::ranges::sort(events, {}, &StoredEvent::sequence);
  return events;
}

Status StateStore::add_audit(const AuditEntry& entry, std::int64_t now_ns) {
  return database_.transaction([&] { return write_audit(entry, now_ns); });
}

Status StateStore::write_audit(const AuditEntry& entry, std::int64_t now_ns) {
  Row row{now_ns, entry.who, entry.what, entry.job, entry.run, entry.why, entry.tenant};
  TRIMTAB_TRY(const auto added,
              database_.execute_returning("INSERT INTO audit (at_ns, who, what, job, run, why, tenant) VALUES (?, ?, "
                                          "?, ?, ?, ?, ?) RETURNING entry",
                                          row));
  row.insert(row.begin(), added.at(0)[0]);
  return database_.execute("UPDATE audit SET checksum = ? WHERE entry = ?", {row_checksum(row), row[0]});
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
    return write_audit({kCoordinatorActor, what, "", 0, "older than audit_retention"}, now_ns);
  };
  TRIMTAB_TRY_STATUS(database_.transaction(forget));
  return removed;
}

Result<std::vector<StoredAudit>> StateStore::audit(const std::string& job, std::int64_t after, std::int64_t limit,
                                                   const std::optional<AuditReader>& reader) const {
  std::string rest = "WHERE (?1 = '' OR job = ?1) AND entry > ?2";
  Row arguments{job, after, limit};
  if (reader) {
    rest += " AND (tenant = ?4 OR (tenant = '' AND run = ?5))";
    arguments.emplace_back(reader->tenant);
    arguments.emplace_back(reader->run);
  }
  TRIMTAB_TRY(const auto found, database_.query_checked(audit_rows(), rest + " ORDER BY entry LIMIT ?3", arguments));
  std::vector<StoredAudit> entries;
  for (const Row& row : found.rows) {
    StoredAudit& one = entries.emplace_back();
    AuditEntry& said = one.audit;
    take(row, one.entry, one.at_ns, said.who, said.what, said.job, said.run, said.why, said.tenant);
  }
  for (const Row& row : found.damaged) {
    entries.push_back({number_in(row, 0), 0, {kCoordinatorActor, kDamagedEntry, job, 0, "its checksum is wrong"}});
  }
  std::ranges::sort(entries, {}, &StoredAudit::entry);
  return entries;
}

Result<std::vector<MeasuredStep>> StateStore::steps(std::int64_t run) const {
  TRIMTAB_TRY(
      const auto found,
      database_.query_checked(step_rows(), "WHERE run = ? ORDER BY launch DESC, step DESC LIMIT ?", {run, kStepsKept}));
  std::vector<MeasuredStep> steps(found.rows.size());
  std::int64_t same = 0;
  for (std::size_t i = 0; i < found.rows.size(); ++i) {
    MeasuredStep& one = steps[found.rows.size() - 1 - i];
    take(found.rows[i], same, one.launch, one.step, one.epoch, one.trial, one.block, one.warmup, one.wall_ms, one.loss);
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
  TRIMTAB_TRY(const auto found,
              database_.query_checked(trial_rows(), "WHERE run = ? AND plan = '' ORDER BY trial DESC LIMIT ?",
                                      {run, kEarlierTrialsTold}));
  std::vector<EarlierTrial> trials;
  std::int64_t same = 0;
  std::string plan;
  for (const Row& row : found.rows) {
    EarlierTrial& one = trials.emplace_back();
    take(row, same, one.id, one.state, one.reason, one.plan_hash, plan, one.predicted_ms, one.measured_ms);
  }
  for (const Row& row : found.damaged) {
    trials.push_back({static_cast<std::int32_t>(number_in(row, 1)), kDamaged, kDamagedText, "", 0, 0});
  }
  std::ranges::sort(trials, {}, &EarlierTrial::id);
  return trials;
}

}  // namespace trimtab::coordinator
