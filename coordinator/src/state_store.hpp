#pragma once

// The coordinator's state on disk or on a server (sql/): jobs, phases, trials, measured steps, command ids, events, the
// audit log. A transition of a job is one transaction. Rows without their checksum are left out; where they would be
// shown it is said that they are damaged. Not thread-safe: the event loop's.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schema/database.hpp"
#include "tuning/action.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// The audit log: who did what to which job, when and why. Written before the action is carried out, changed by nobody,
// removed by the coordinator alone, after audit_retention (sql/0002_audit.sql, 0003_retention.sql). What people are
// called is what their tokens say; where none are asked for, what they say of themselves.
inline constexpr const char* kCoordinatorActor = "coordinator";

struct AuditEntry {
  std::string who;
  std::string what;
  std::string job;
  std::int64_t run = 0;
  std::string why;
  std::string tenant = {};  // whose job it is
};

// Whose entries of a job's name are wanted. A name may have been another's before.
struct AuditReader {
  std::string tenant;
  std::int64_t run = 0;  // of this tenant: its entries are from before entries said whose they are
};

struct StoredAudit {
  std::int64_t entry = 0;
  std::int64_t at_ns = 0;
  AuditEntry audit;
};

// Of a run, beside its state.
struct StoredDocuments {
  std::string timelines_json = "{}";
  std::string card_json = {};  // empty: none yet
};

struct StoredJob {
  std::int64_t run = 0;
  TuningState state;
  StoredDocuments documents;
  // Its state is damaged: this one says no more than whose it is, and why it is over.
  bool is_lost = false;
};

// One of the runs that latest_runs() lists, before anything of it is read.
struct StoredRun {
  std::int64_t run = 0;
  std::string name;
  bool active = false;
};

struct StoredEvent {
  std::int64_t sequence = 0;
  std::int64_t at_ns = 0;
  Note note;
};

struct CommandOwner {
  std::int64_t run = 0;
  std::string tag;
  std::string node;  // that it was given to
};

// How much of a run's history is kept while it goes on.
inline constexpr std::int64_t kEventsKept = 5000;
inline constexpr std::int64_t kPhasesKept = 1000;
inline constexpr std::uint64_t kCommandsKept =
    10'000;  // the latest, of all runs; older ones that are not done stay too

// A run's measured steps are thinned as they age: beyond kStepsKept the newest kStepsWhole stay as they are, and of the
// older ones those whose number is a multiple of a power of two, the least that leaves half of the rest at most. What
// trials have measured of them is in the trials. A report tells of no more.
inline constexpr std::int64_t kStepsKept = 16'384;
inline constexpr std::int64_t kStepsWhole = 8'192;
inline constexpr std::int64_t kStepsThinnedAtOnce = 16'384;
// Of the trials whose plans are forgotten, a report tells of the latest.
inline constexpr std::int64_t kEarlierTrialsTold = 10'000;
// Of the texts of one page of events.
inline constexpr std::int64_t kEventBytes = std::int64_t{4} << 20;

// What one handled event leaves to be stored.
struct Transition {
  bool state_changed = false;
  std::vector<Note> notes;
  std::vector<MeasuredStep> steps;
  std::vector<Trial> trials;  // besides the latest; without a plan: forgotten, and so are its steps
  std::vector<AuditEntry> audit;
  [[nodiscard]] bool empty() const {
    return !state_changed && notes.empty() && steps.empty() && trials.empty() && audit.empty();
  }
};

// What makes its tables; to open it without a StateStore's rules.
[[nodiscard]] Migrations state_migrations();

class StateStore {
 public:
  // Refuses a state that another coordinator has open. `name`: a path or a server's (schema/database.hpp).
  [[nodiscard]] static Result<StateStore> open(const std::string& name);
  // Beside the one that owns it, for another thread: reads only.
  [[nodiscard]] static Result<StateStore> open_to_read(const std::string& name);

  // Made with the database; agents keep the command ids of two states apart by it.
  [[nodiscard]] const std::string& identity() const { return identity_; }
  [[nodiscard]] const std::string& name() const { return database_.name(); }
  [[nodiscard]] const std::string& backup() const { return database_.backup(); }  // as Database::backup()

  [[nodiscard]] DatabaseHealth look_after() { return database_.look_after(); }  // as Database::look_after()

  [[nodiscard]] Result<std::int64_t> add_job(const TuningState& state, std::int64_t now_ns);
  [[nodiscard]] Status save(std::int64_t run, const TuningState& state, const Transition& transition,
                            std::int64_t now_ns);
  [[nodiscard]] Status save_timelines(std::int64_t run, const std::string& json);
  [[nodiscard]] Status save_card(std::int64_t run, const std::string& json);

  // Names of nodes by the token that has them, in order of first use (agents/node_names.hpp). Those of a damaged row
  // are nobody's.
  [[nodiscard]] Result<std::map<std::string, std::vector<std::string>>> node_names() const;
  [[nodiscard]] Status save_node_names(const std::string& owner, const std::vector<std::string>& nodes);

  // Each name's latest run, in order.
  [[nodiscard]] Result<std::vector<StoredRun>> latest_runs() const;
  // All that is stored of it. Bad input where it cannot be read, or there is none.
  [[nodiscard]] Result<StoredJob> job(std::int64_t run) const;
  // Of all runs of this name: launches go on counting, so that ranks of an earlier run are told apart.
  [[nodiscard]] Result<std::uint64_t> last_launch(const std::string& name) const;
  // Of runs that are forgotten, and what raise_last_launch() was told.
  [[nodiscard]] std::uint64_t last_launch() const { return last_launch_; }

  // No launch has this number, or a lower one, from now on but of runs that go on.
  [[nodiscard]] Status raise_last_launch(std::uint64_t launch);

  // The runs that were over before `before_ns`, the oldest first.
  [[nodiscard]] Result<std::vector<std::int64_t>> runs_over(std::int64_t before_ns, std::int64_t limit) const;
  // Removes up to so many rows of a run that is over, and last the run itself: true when nothing is left. Fails with
  // kBadInput where the run's row is damaged, because nobody knows its launches then.
  [[nodiscard]] Result<bool> forget_run(std::int64_t run, std::int64_t rows);

  // Gives ids to those of a run that have none yet, in one transaction.
  [[nodiscard]] Status number_commands(const std::vector<CommandOwner>& commands);
  // The same id for the same (run, tag), unless its row was damaged.
  [[nodiscard]] Result<std::uint64_t> command_id(std::int64_t run, const std::string& tag, const std::string& node);
  [[nodiscard]] Result<std::optional<CommandOwner>> command_owner(std::uint64_t id) const;
  [[nodiscard]] Status command_done(std::uint64_t id);
  // Ids from the first to this one; none of them is given again.
  [[nodiscard]] Status forget_done_commands(std::uint64_t up_to);

  // Fewer than `limit` where their texts are more than kEventBytes, but one at least where there is one.
  [[nodiscard]] Result<std::vector<StoredEvent>> events(std::int64_t run, std::int64_t after, std::int64_t limit) const;
  [[nodiscard]] Status add_audit(const AuditEntry& entry, std::int64_t now_ns);
  // Of one job, or of all (""), as `reader` may see them; nobody: all.
  [[nodiscard]] Result<std::vector<StoredAudit>> audit(const std::string& job, std::int64_t after, std::int64_t limit,
                                                       const std::optional<AuditReader>& reader = std::nullopt) const;
  // Removes up to so many of the oldest entries from before `before_ns`, and adds one that says so. Returns how many.
  [[nodiscard]] Result<std::uint64_t> forget_audit(std::int64_t before_ns, std::int64_t count, std::int64_t now_ns);
  // The newest kStepsKept, in order.
  [[nodiscard]] Result<std::vector<MeasuredStep>> steps(std::int64_t run) const;
  // By the rule of kStepsKept, a slice of a bounded size; true when there is more to do.
  [[nodiscard]] Result<bool> thin_steps(std::int64_t run);
  // The latest kEarlierTrialsTold of those whose plans are forgotten, in order.
  [[nodiscard]] Result<std::vector<EarlierTrial>> earlier_trials(std::int64_t run) const;

 private:
  [[nodiscard]] static Result<StateStore> try_open(const std::string& name);
  StateStore(Database database, std::string identity)
      : database_(std::move(database)), identity_(std::move(identity)) {}
  [[nodiscard]] Status write(std::int64_t run, const TuningState& state, const Transition& transition,
                             std::int64_t now_ns);
  [[nodiscard]] Result<std::int64_t> stride_of_steps(const Row& older) const;
  // False when there are none.
  [[nodiscard]] Result<bool> remove_rows(std::int64_t run, std::int64_t rows);
  [[nodiscard]] Status read_identity();
  // What follows is part of a transaction.
  [[nodiscard]] Result<std::int64_t> number_command(const CommandOwner& command);
  [[nodiscard]] Status write_identity(std::uint64_t last_launch);
  [[nodiscard]] Status write_state(std::int64_t run, const TuningState& state, std::int64_t now_ns);
  [[nodiscard]] Status write_document(std::int64_t run, const std::string& kind, const std::string& json);
  [[nodiscard]] Status write_notes(std::int64_t run, const std::vector<Note>& notes, std::int64_t now_ns);
  [[nodiscard]] Status append(const CheckedTable& table, std::int64_t run, const Rows& values, std::int64_t kept);
  [[nodiscard]] Status write_audit(const AuditEntry& entry, std::int64_t now_ns);
  [[nodiscard]] Status write_steps(std::int64_t run, const std::vector<MeasuredStep>& steps);
  [[nodiscard]] Status write_trials(std::int64_t run, const TuningState& state, const Transition& transition,
                                    std::int64_t now_ns);
  [[nodiscard]] Status write_trial(std::int64_t run, const Trial& trial, std::int64_t now_ns);

  Database database_;
  std::string identity_;
  std::uint64_t last_launch_ = 0;
  std::map<std::int64_t, bool> lasting_stored_;  // runs whose lasting_json() this object has stored: with a model?
};

}  // namespace trimtab::coordinator
