// A coordinator's state of which a disk has flipped a bit, or whose file was removed: no wrong value is told or acted
// on, what is damaged is named and hides nothing else, and the coordinator starts.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../../damaged_file.hpp"
#include "../agents_world.hpp"
#include "api/api.hpp"
#include "state_tables.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace trimtab::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMany = 10'000;
const std::vector<std::string> kNames = {"one", "two", "three", "four"};  // the last two go on

// A plan that names its job.
std::string plan_of(const std::string& name) {
  return "{\"plan\":\"of " + name + "\"}";
}

Trial trial_of(const std::string& name, std::int32_t id, bool forgotten) {
  Trial trial;
  trial.id = id;
  trial.plan = {forgotten ? "" : plan_of(name), "hash-" + name + std::to_string(id)};
  trial.state = TrialState::kRejected;
  trial.predicted.mean_ms = 100 + id;
  trial.measured.mean_ms = 90 + id;
  return trial;
}

std::int64_t add(StateStore& store, const std::string& name, bool goes_on) {
  TuningState state;
  state.job.name = name;
  state.job.world_size = 2;
  state.job.steps = 10;
  state.job.describe = state.job.benchmark = state.job.train = {"command of " + name};
  state.tenant = "tenant-" + name;
  const std::int64_t run = store.add_job(state, 1).value();
  state.launch = 7;
  state.initial = state.incumbent = {plan_of(name), "hash of " + name};
  state.phase = goes_on ? Phase::kWaiting : Phase::kFinished;
  state.trials.push_back(trial_of(name, 9, false));
  Transition transition;
  transition.state_changed = true;
  for (std::int32_t id = 1; id <= 8; ++id) transition.trials.push_back(trial_of(name, id, true));
  for (int i = 0; i < 30; ++i) transition.notes.push_back({"plan", "note " + std::to_string(i) + " of " + name, "{}"});
  for (int i = 0; i < 10; ++i)
    transition.audit.push_back({"ana", "order " + std::to_string(i) + " of " + name, name, run, ""});
  REQUIRE(store.save(run, state, transition, 2).ok());
  transition = {};
  for (std::int64_t step = 1; step <= 40; ++step) {
    transition.steps.push_back({7, step, 1, 0, 0, false, 2.5 * static_cast<double>(step), -0.0});
  }
  REQUIRE(store.save(run, state, transition, 3).ok());
  REQUIRE(store.save_timelines(run, "{\"timelines\":\"" + name + "\"}").ok());
  REQUIRE(store.save_card(run, "{\"card\":\"" + name + "\"}").ok());
  for (int i = 0; i < 5; ++i) REQUIRE(store.command_id(run, "tag" + std::to_string(i), "node-" + name).ok());
  return run;
}

template <typename Value>
Value taken(Result<Value> result) {
  return std::move(result).value();
}

struct Whole {
  std::string bytes;
  std::string identity;
  std::set<std::string> lines;
};

// Everything that is told of it, a line each, but for what says that it is damaged.
std::set<std::string> lines_of(const StateStore& store) {
  std::set<std::string> lines;
  const auto put = [&](const auto&... words) { lines.insert((std::string() + ... + (std::string(words) + "|"))); };
  const auto text = [](auto number) { return std::to_string(number); };
  for (const StoredRun& run : taken(store.latest_runs())) {
    const auto stored = store.job(run.run);
    if (!stored.ok()) continue;
    if (!stored->is_lost) put("state", text(run.run), run.name, to_json(stored->state));
    if (stored->documents.timelines_json != "{}") put("timelines", text(run.run), stored->documents.timelines_json);
    if (!stored->documents.card_json.empty()) put("card", text(run.run), stored->documents.card_json);
    for (const StoredEvent& one : taken(store.events(run.run, 0, kMany))) {
      if (one.note.kind != state_tables::kDamaged)
        put("event", text(run.run), text(one.sequence), text(one.at_ns), one.note.kind, one.note.text);
    }
    for (const EarlierTrial& one : taken(store.earlier_trials(run.run))) {
      if (one.state != state_tables::kDamaged)
        put("trial", text(run.run), text(one.id), one.state, one.reason, one.plan_hash, text(one.measured_ms));
    }
    for (const MeasuredStep& one : taken(store.steps(run.run))) {
      put("step", text(run.run), text(one.launch), text(one.step), text(one.wall_ms), text(one.loss));
    }
  }
  for (const StoredAudit& one : taken(store.audit("", 0, kMany))) {
    if (one.audit.who != kCoordinatorActor)
      put("audit", text(one.entry), text(one.at_ns), one.audit.what, one.audit.job);
  }
  for (std::uint64_t id = 1; id <= 5 * kNames.size(); ++id) {
    const auto owner = store.command_owner(id).value();
    if (owner) put("command", text(id), text(owner->run), owner->tag, owner->node);
  }
  return lines;
}

Whole whole_state(const std::string& path) {
  Whole whole;
  {
    StateStore store = StateStore::open(path).value();
    for (const std::string& name : kNames) add(store, name, name == kNames[2] || name == kNames[3]);
    whole.identity = store.identity();
    whole.lines = lines_of(store);
  }
  REQUIRE_FALSE(fs::exists(path + "-wal"));
  whole.bytes = content_of_file(path);
  return whole;
}

// Nothing that was never stored; returns what is missing.
std::set<std::string> missing_of(const StateStore& store, const Whole& whole) {
  const std::set<std::string> lines = lines_of(store);
  std::set<std::string> missing;
  std::ranges::set_difference(whole.lines, lines, std::inserter(missing, missing.begin()));
  std::vector<std::string> wrong;
  std::ranges::set_difference(lines, whole.lines, std::back_inserter(wrong));
  CHECK(wrong == std::vector<std::string>());
  return missing;
}

// A coordinator of this state. What it has of a job is right, or the job is over and says why.
void check_start(const std::string& directory, const Whole& whole) {
  World world(directory);
  REQUIRE(world.jobs.restore().ok());
  CHECK(world.store.identity() == whole.identity);
  CHECK(world.jobs.jobs().size() == kNames.size());
  for (const auto& [name, job] : world.jobs.jobs()) {
    CHECK(job->state().tenant == "tenant-" + name);
    CHECK(world.store.last_launch(name).value() >= 7);
    if (job->state().failure.empty()) continue;
    CHECK_FALSE(job->active());
    CHECK(job->state().incumbent.json.empty());
  }
  // Numbers that were given are not given again.
  CHECK(world.store.command_id(99, "new", "n0").value() > 5 * kNames.size());
  TuningState state;
  state.job.name = "five";
  CHECK(world.store.add_job(state, 9).value() > static_cast<std::int64_t>(kNames.size()));
}

std::string path_in(const TemporaryDirectory& directory) {
  return directory.path() + "/state.db";
}

// Returns its identity, which is damaged in one of its two places.
std::string check_damage_while_open(const std::string& name) {
  StateStore store = StateStore::open(name).value();
  const std::int64_t run = add(store, "one", false);
  const std::int64_t other = add(store, "two", false);
  {
    Database raw = Database::open(name, DatabaseMode::kReadWrite, state_migrations()).value();
    for (const char* change :
         {"UPDATE trials SET measured_ms = 1 WHERE run = 1 AND trial = 2",
          "UPDATE events SET text = 'x' WHERE run = 1 AND sequence = 3",
          "UPDATE audit SET checksum = 5 WHERE entry = 1",
          "UPDATE documents SET json = '{}' WHERE run = 1 AND kind = 'state'",
          "UPDATE commands SET node = 'other' WHERE id = 1", "UPDATE identity SET coordinator = 'other'"}) {
      REQUIRE(raw.execute(change).ok());
    }
  }
  CHECK(store.earlier_trials(run)->at(1).state == "damaged");
  CHECK(store.events(run, 0, kMany)->at(2).note.kind == "damaged");
  CHECK_THAT(store.audit("", 0, kMany)->at(0).audit.what, Catch::Contains("damaged"));
  CHECK(store.job(run)->is_lost);
  CHECK_FALSE(store.job(other)->is_lost);
  CHECK_FALSE(store.command_owner(1)->has_value());
  CHECK(store.command_id(run, "tag0", "node-one").value() > 10);
  CHECK(store.look_after().unreadable > 3);
  return store.identity();
}

}  // namespace

TEST_CASE("of a coordinator's state with a flipped bit nothing wrong is told, and the coordinator starts") {
  const TemporaryDirectory directory;
  const std::string path = path_in(directory);
  const Whole whole = whole_state(path);
  REQUIRE(whole.lines.size() > 350);
  Random random(20261130);
  int damaged = 0;
  int harmless = 0;
  for (int flip = 0; flip < 120; ++flip) {
    std::string bytes = whole.bytes;
    const BitFlip where = flip_bit(bytes, random);
    CAPTURE(flip, where.place, where.bit);
    put_database(path, bytes);
    {
      auto store = StateStore::open(path);
      if (!store.ok()) {
        // What says of which version it is can only be refused.
        INFO(store.error().message);
        CHECK(where.place < kDatabaseHeader);
        continue;
      }
      const std::uint64_t apart = store->look_after().set_apart;
      const std::set<std::string> missing = missing_of(*store, whole);
      CHECK(missing.size() <= 170);
      CHECK((missing.empty() || apart > 0));
      CHECK(fs::exists(path + ".damaged") == (apart > 0));
      CHECK(store->identity() == whole.identity);
      ++(apart > 0 ? damaged : harmless);
    }
    if (flip % 8 == 0) check_start(directory.path(), whole);
    CHECK_FALSE(fs::exists(path + ".damaged-2"));  // it is whole from now on
  }
  CHECK(damaged > 20);
  CHECK(harmless > 0);
}

TEST_CASE("a job whose stored state is damaged is not run on, says why, and hides no other") {
  const TemporaryDirectory directory;
  const std::string path = path_in(directory);
  std::string bytes = whole_state(path).bytes;
  change_words(bytes, "plan\\\":\\\"of three");
  put_database(path, bytes);
  World world(directory.path());
  REQUIRE(world.jobs.restore().ok());
  JobRun& lost = *world.jobs.find("three");
  CHECK(lost.state().phase == Phase::kFailed);
  CHECK_FALSE(lost.active());
  CHECK(world.jobs.find("four")->active());
  CHECK(world.jobs.find("one")->state().phase == Phase::kFinished);

  Access everybody(false, nullptr);
  Api api(world.services, world.jobs, everybody, 100'000);
  const auto ask = [&](const std::string& target, const std::map<std::string, std::string>& query = {}) {
    return json::parse(api.handle({"GET", target, query, ""}).body);
  };
  CHECK_THAT(ask("/v1/jobs/three").at("failure").get<std::string>(),
             Catch::Contains("is damaged") && Catch::Contains("Hand it in again") && Catch::Contains("set_apart"));
  CHECK_THAT(ask("/v1/audit", {{"job", "three"}}).dump(), Catch::Contains("give up the job"));
  // Handed in again it is launched under a number that no rank has.
  Job job;
  job.name = "three";
  job.world_size = 2;
  job.steps = 10;
  job.describe = job.benchmark = job.train = {"command"};
  REQUIRE(world.jobs.submit(job, true, "tenant-three").ok());
  CHECK(world.jobs.find("three")->state().launch >= 7);
}

TEST_CASE("a damaged trial, entry of the audit log and event are named where they would be shown") {
  const TemporaryDirectory directory;
  const std::string path = path_in(directory);
  std::string bytes = whole_state(path).bytes;
  change_words(bytes, "hash-one4");
  change_words(bytes, "order 3 of two");
  change_words(bytes, "note 5 of two");
  put_database(path, bytes);
  StateStore store = StateStore::open(path).value();
  CHECK(store.look_after().set_apart == 4);  // with what was found first
  const auto trials = store.earlier_trials(1).value();
  REQUIRE(trials.size() == 8);
  CHECK(trials[3].id == 4);
  CHECK(trials[3].state == "damaged");
  CHECK_THAT(trials[3].reason, Catch::Contains("cannot be read"));
  const auto audit = store.audit("", 0, kMany).value();
  REQUIRE(audit.size() == 41);
  CHECK(audit[13].entry == 14);
  CHECK_THAT(audit[13].audit.what, Catch::Contains("damaged and cannot be read"));
  CHECK_THAT(audit[40].audit.what, Catch::Contains("set apart what cannot be read"));
  const auto events = store.events(2, 0, kMany).value();
  REQUIRE(events.size() == 30);
  CHECK(events[5].note.kind == "damaged");
  CHECK(events[5].sequence == 6);
}

TEST_CASE("rows that are damaged while the coordinator runs are named, counted, and hide nothing") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  const std::string name = place.name("state");
  // The next one goes on under the same identity, which stands there twice.
  const std::string identity = check_damage_while_open(name);
  CHECK(StateStore::open(name)->identity() == identity);
}

TEST_CASE(
    "a state that is removed while it is open is written back, and a damaged one that is too large is checked once it "
    "shows") {
  const TemporaryDirectory directory;
  const std::string path = path_in(directory);
  const Whole whole = whole_state(path);
  {
    StateStore store = StateStore::open(path).value();
    for (const char* end : {"", "-wal", "-shm"}) fs::remove(path + end);
    CHECK(store.look_after().written_back == 1);
    CHECK(missing_of(store, whole).empty());
  }
  Migrations large = state_migrations();
  large.checked_up_to = 0;
  std::string bytes = whole.bytes;
  change_words(bytes, "hash-one4");
  put_database(path, bytes);
  {
    Database database = Database::open(path, DatabaseMode::kReadWrite, large).value();
    CHECK_FALSE(fs::exists(path + ".suspect"));
    const auto found = database.query_checked(state_tables::trial_rows());
    CHECK(found->damaged.size() == 1);
    CHECK(fs::exists(path + ".suspect"));
    CHECK(database.look_after().set_apart == 0);
  }
  Database database = Database::open(path, DatabaseMode::kReadWrite, large).value();
  CHECK(database.look_after().set_apart == 2);
  CHECK(database.look_after().unreadable == 0);
  CHECK(fs::exists(path + ".damaged"));
}

TEST_CASE("a coordinator's state of the version before gets checksums, and its jobs stay") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  const std::string name = place.name("state");
  Migrations before = state_migrations();
  before.steps.pop_back();
  before.server_steps.pop_back();
  before.checked.clear();
  TuningState state;
  state.job.name = "gpt";
  state.job.world_size = 2;
  state.tenant = "ana";
  state.launch = 5;
  state.phase = Phase::kFinished;
  {
    Database old = Database::open(name, DatabaseMode::kCreate, before).value();
    const std::string job =
        "INSERT INTO jobs (name, phase, active, state, timelines, created_ns, changed_ns, card) VALUES ";
    REQUIRE(old.execute(job + "('gpt', 'finished', 0, ?, '{\"a\":1}', 1, 2, '{}')", {to_json(state)}).ok());
    REQUIRE(old.execute(job + "('other', 'waiting', 1, 'of another release', '{}', 1, 2, '')").ok());
    for (const char* row :
         {"INSERT INTO phases VALUES (1, 1, 'waiting', 1)",
          "INSERT INTO trials VALUES (1, 1, 'adopted', '', 'h', '', 2, 1.5, 3)",
          "INSERT INTO steps VALUES (1, 5, 1, 1, 0, 0, 0, 2, 0.5)",
          "INSERT INTO commands (run, tag, node) VALUES (1, 't', 'n0')",
          "INSERT INTO events VALUES (1, 1, 4, 'plan', 'words', '{}')",
          "INSERT INTO audit (at_ns, who, what, job, run, why) VALUES (5, 'ana', 'submit', 'gpt', 1, '')"}) {
      INFO(row);
      REQUIRE(old.execute(row).ok());
    }
  }
  StateStore store = StateStore::open(name).value();
  CHECK(store.latest_runs()->size() == 2);
  const StoredJob stored = store.job(1).value();
  CHECK_FALSE(stored.is_lost);
  CHECK(to_json(stored.state) == to_json(state));
  CHECK(stored.documents.timelines_json == "{\"a\":1}");
  CHECK(stored.documents.card_json == "{}");
  CHECK_FALSE(store.job(2).ok());  // as before
  CHECK(store.last_launch("gpt").value() == 5);
  CHECK(store.steps(1)->size() == 1);
  CHECK(store.earlier_trials(1)->at(0).measured_ms == 1.5);
  CHECK(store.command_id(1, "t", "n0").value() == 1);
  CHECK(store.events(1, 0, 9)->at(0).note.text == "words");
  CHECK(store.audit("", 0, 9)->at(0).audit.what == "submit");
  CHECK(store.look_after().set_apart == 0);
  CHECK(store.look_after().unreadable == 0);
  REQUIRE(store.forget_run(1, kMany).ok());
}

TEST_CASE(
    "what a job was handed in with is stored once, its model when it is known, and neither with later transitions") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  const std::string name = place.name("state.db");
  StateStore store = StateStore::open(name).value();
  TuningState state;
  state.job.name = "gpt";
  state.job.world_size = 2;
  state.job.initial_plan_json = std::string(1 << 20, 'p');
  const std::int64_t run = store.add_job(state, 1).value();
  Transition transition;
  transition.state_changed = true;
  const auto save = [&] { REQUIRE(store.save(run, state, transition, 2).ok()); };
  const auto as_saved = [&] { return to_json(store.job(run)->state) == to_json(state); };
  CHECK(as_saved());
  state.model_json = "\xff" + std::string(1 << 20, '"');
  save();
  CHECK(as_saved());
  state.frozen = true;
  save();
  CHECK(as_saved());
  Database raw = Database::open(name, DatabaseMode::kReadWrite, state_migrations()).value();
  const auto bytes = [&](const std::string& kind) {
    return as_integer(raw.query("SELECT LENGTH(json) FROM documents WHERE kind = '" + kind + "'").value().at(0)[0]);
  };
  CHECK(bytes("state") < 64 << 10);
  REQUIRE(raw.execute("UPDATE documents SET json = '{}' WHERE kind = 'lasting'").ok());
  state.frozen = false;
  save();
  CHECK(bytes("lasting") == 2);
  CHECK(store.job(run)->is_lost);  // and that is seen
}
