#include "tuning/trial/trial_records.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>

#include "../fake_agent.hpp"
#include "../fake_world.hpp"
#include "report.hpp"
#include "state_store.hpp"
#include "tested_backends.hpp"
#include "usual_worlds.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr std::int32_t kTrials = 10'000;
const std::string kPlanJson(2000, ' ');

Trial trial(std::int32_t id, TrialState state, FailureReason reason = FailureReason::kNone) {
  Trial one;
  one.id = id;
  one.plan = {kPlanJson, "plan" + std::to_string(id)};
  one.state = state;
  one.reason = reason;
  one.changes_ms = 1;
  if (state != TrialState::kFailed) one.measured = {1000.0 + id % 97, 990, 1100, 5};
  return one;
}

TrialState fate(std::int32_t id) {
  if (id % 10 == 0) return TrialState::kAdopted;
  return id % 3 == 0 ? TrialState::kFailed : TrialState::kRejected;
}

// As a trial's end leaves the state.
void end_trial(TuningState& state, std::int32_t id) {
  state.trials.back() = trial(id, fate(id), id % 3 == 0 ? FailureReason::kOutOfMemory : FailureReason::kNone);
  const Trial& ended = state.trials.back();
  state.observations.push_back({ended.plan, 1000, 1, {}, {}, 0, {}});
  state.passed_over.push_back({{kPlanJson, "passed" + std::to_string(id)}, 1, "why"});
  state.convergence.push_back({static_cast<double>(id), 1, id, 1, 1});
  if (ended.state == TrialState::kFailed) state.failed_hashes.push_back(ended.plan.hash);
  if (ended.state != TrialState::kAdopted) return;
  state.replaced.push_back({state.incumbent, {}, {}});
  if (state.replaced.size() > 8) state.replaced.erase(state.replaced.begin());
  state.incumbent = ended.plan;
}

TuningState state_of_a_job() {
  TuningState state;
  state.job = fake_job();
  state.initial = state.incumbent = {kPlanJson, "initial"};
  state.observations.push_back({state.initial, 1000, 1, {}, {}, 0, {}});
  return state;
}

bool keeps(const TuningState& state, std::int32_t id) {
  return std::any_of(state.trials.begin(), state.trials.end(), [&](const Trial& one) { return one.id == id; });
}

}  // namespace

TEST_CASE("what a job keeps of 10,000 trials is bounded, and what may be asked for is there") {
  TuningState state = state_of_a_job();
  std::size_t most_bytes = 0;
  for (std::int32_t id = 1; id <= kTrials; ++id) {
    state.trials.push_back(trial(id, TrialState::kProposed));
    for (const Trial& forgotten : forget_old_trials(state)) REQUIRE(forgotten.plan.json.empty());
    if (id == 77) state.trials.back().measured.mean_ms = 1;
    const bool best = id == 4001;
    end_trial(state, id);
    if (best) state.trials.back().measured = {1, 1, 1, 5};
    if (id % 500 == 0) most_bytes = std::max(most_bytes, to_json(state).size());
  }
  CHECK(state.trials_begun() == kTrials);
  CHECK(state.trials.size() <= kTrialsKept + 1 + 9 + kOutOfMemoryKept);
  CHECK(state.forgotten.count() + std::ssize(state.trials) == kTrials);
  CHECK(state.overhead_ms() == Approx(kTrials));
  CHECK(state.observations.size() <= kObservationsKept + 3);
  CHECK(state.observations.front().plan.hash == "initial");
  CHECK(state.passed_over.size() <= kPassedOverKept + 1);
  CHECK(state.convergence.size() <= kConvergenceKept + 1);
  CHECK(state.convergence.back().trial == kTrials);
  CHECK(state.failed_hashes.size() <= kFailedHashesKept + 1);
  // Plans of 2 kB, and 18 bytes for each of what was tried since the last drift.
  INFO(most_bytes << " bytes at most");
  CHECK(most_bytes < 1'500'000);
  SECTION("the adopted plans to go back to, the best one, those that ran out of memory, the latest") {
    for (std::int32_t id = kTrials; id > kTrials - 90; id -= 10) CHECK(keeps(state, id));
    CHECK(keeps(state, 4001));
    CHECK_FALSE(keeps(state, 4002));
    for (std::int32_t id = kTrials; id > kTrials - 32; --id) CHECK(keeps(state, id));
    const auto teaching = std::count_if(state.trials.begin(), state.trials.end(),
                                        [](const Trial& one) { return one.reason == FailureReason::kOutOfMemory; });
    CHECK(teaching >= static_cast<std::ptrdiff_t>(kOutOfMemoryKept));
  }
  SECTION("a plan whose trial is forgotten is not tried again before the next drift") {
    CHECK(state.was_tried("plan4002"));
    CHECK_FALSE(state.was_tried("plan10001"));
  }
  SECTION("a restart gives the same back") {
    const std::string text = to_json(state);
    const auto back = parse_tuning_state(text);
    REQUIRE(back.ok());
    CHECK(to_json(*back) == text);
    CHECK(back->trials_begun() == kTrials);
    CHECK(back->was_tried("plan4002"));
  }
}

TEST_CASE("the database has a row of each of up to 10,000 trials, and the plans of few, over restarts") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  const std::string name = place.name("state");
  const std::int32_t trials = tuner::test::all_worlds() ? kTrials : 6'000;  // more than there are events kept
  TuningState state = state_of_a_job();
  std::int64_t run = 0;
  for (std::int32_t begin = 1; begin <= trials; begin += trials / 4) {
    auto store = StateStore::open(name);
    REQUIRE(store.ok());
    if (run == 0) run = store->add_job(state, 1).value();
    auto stored = store->job(run);
    REQUIRE(stored.ok());
    state = std::move(stored->state);
    REQUIRE(state.trials_begun() == begin - 1);
    Transition transition;
    for (std::int32_t id = begin; id < begin + trials / 4; ++id) {
      state.trials.push_back(trial(id, TrialState::kProposed));
      for (const Trial& forgotten : forget_old_trials(state)) transition.trials.push_back(forgotten);
      end_trial(state, id);
      transition.trials.push_back(state.trials.back());
      transition.steps.push_back({1, id, 1, id, 0, false, 10, 2});
      transition.notes.push_back({"trial", "trial " + std::to_string(id), kPlanJson});
      if (id % 50 != 0) continue;  // A transaction for each would take minutes on a slow disk.
      transition.state_changed = true;
      REQUIRE(store->save(run, state, std::exchange(transition, {}), id).ok());
    }
  }
  auto store = StateStore::open(name);
  REQUIRE(store.ok());
  const auto earlier = store->earlier_trials(run);
  REQUIRE(earlier.ok());
  CHECK(std::ssize(*earlier) + std::ssize(state.trials) == trials);
  CHECK(earlier->front().id == 1);
  CHECK(earlier->front().plan_hash == "plan1");
  CHECK(earlier->front().state == "rejected");
  CHECK(earlier->front().measured_ms == Approx(1001));
  const auto steps = store->steps(run);
  REQUIRE(steps.ok());
  CHECK(steps->size() <= kTrialsKept + kOutOfMemoryKept + 10);
  std::int64_t events = 0;
  StoredEvent last;
  for (auto page = store->events(run, 0, 100'000).value(); !page.empty();
       page = store->events(run, last.sequence, 100'000).value()) {
    events += std::ssize(page);
    last = page.back();
  }
  CHECK(events <= kEventsKept);
  CHECK(last.note.text == "trial " + std::to_string(trials));
  if (place.backend() == test::Backend::kSqlite) CHECK(std::filesystem::file_size(name) < 40U << 20);
}

TEST_CASE("command ids that were done long ago are forgotten, and none is given twice") {
  const test::DatabasePlace place(GENERATE(from_range(test::backends())));
  auto store = StateStore::open(place.name("state"));
  REQUIRE(store.ok());
  const std::uint64_t open = store->command_id(1, "open", "n0").value();
  std::uint64_t last = 0;
  for (int i = 0; i < 12; ++i) {
    last = store->command_id(1, "launch/" + std::to_string(i) + "/n0", "n0").value();
    REQUIRE(store->command_done(last).ok());
  }
  REQUIRE(store->forget_done_commands(last).ok());
  CHECK_FALSE(store->command_owner(open + 1)->has_value());
  CHECK_FALSE(store->command_owner(last)->has_value());
  CHECK(store->command_id(1, "open", "n0").value() == open);
  CHECK(store->command_id(1, "launch/0/n0", "n0").value() > last);
}

TEST_CASE("a job with more trials than it keeps goes on, over restarts of the coordinator, and adopts the best") {
  std::vector<FakePlan> plans = {{"initial", 100, 110}};
  for (int i = 0; i < 70; ++i) plans.push_back({"plan" + std::to_string(i), 99.9 - i * 0.1, 60.0 + i * 0.1});
  plans.push_back({"best", 50, 79});
  Job job = fake_job();
  job.steps = 100'000;
  job.trials.max_trials = 1000;
  FakeWorld one(job, plans, 5, 0.01);
  one.begin();
  for (const std::int32_t until : {20, 45, 60}) {
    REQUIRE(one.run([&] { return one.state().trials_begun() >= until; }, 400'000));
    one.restart_coordinator(true);
  }
  const bool ended = one.run([] { return false; }, 400'000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().trials_begun() >= 71);
  CHECK(one.state().forgotten.count() > 0);
  std::set<std::string> hashes(one.state().forgotten.tried.begin(), one.state().forgotten.tried.end());
  CHECK(hashes.size() + 3 >= one.state().forgotten.tried.size());  // those that a restart interrupted come twice
}
