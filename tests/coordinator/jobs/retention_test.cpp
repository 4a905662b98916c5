#include "jobs/retention.hpp"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "../fake_agent.hpp"
#include "agents/membership.hpp"
#include "base/clock.hpp"
#include "jobs/search_worker.hpp"
#include "net/event_loop.hpp"
#include "services.hpp"
#include "state_store.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kMany = 10'000;

// How long runs and entries of the audit log are kept.
struct Limits {
  Nanoseconds jobs{0};
  Nanoseconds audit{0};
};

// A coordinator's jobs without its port, on a clock that the test moves.
struct Place {
  explicit Place(const std::string& name, Limits limits) : store(StateStore::open(name).value()) {
    spdlog::set_level(spdlog::level::off);
    services.settings.job_retention = limits.jobs;
    services.settings.audit_retention = limits.audit;
    retention.emplace(services.for_jobs, jobs);
  }
  std::int64_t run_of(const std::string& name, Phase phase, std::uint64_t launch, std::int64_t steps) {
    TuningState state;
    state.job.name = name;
    const std::int64_t run = store.add_job(state, clock.wall().count()).value();
    state.phase = phase;
    state.launch = launch;
    Transition transition;
    transition.state_changed = true;
    for (std::int64_t step = 1; step <= steps; ++step)
      transition.steps.push_back({launch, step, 1, 0, 0, false, 2.0, 0});
    transition.notes = {{"phase", std::string(to_string(phase)), "{}"}, {"plan", "one", "{}"}};
    Trial trial;
    trial.id = 1;
    trial.plan = {"{}", ""};
    transition.trials.push_back(trial);
    REQUIRE(store.save(run, state, transition, clock.wall().count()).ok());
    REQUIRE(store.command_id(run, "launch/1", "n0").ok());
    return run;
  }
  void settle() {
    for (int looks = 0; looks < 30; ++looks) {
      clock.advance(Retention::kPeriod);
      retention->tick();
    }
  }

  ManualClock clock;
  net::EventLoop loop;
  StateStore store;
  TemporaryDirectory directory;
  CostDatabase costs = CostDatabase::open(directory.path() + "/costs.db", OpenMode::kCreate).value();
  SearchWorker worker{loop, clock};
  Membership members{clock};
  Services services{clock, store, costs, worker, members, {}, directory.path(), {}, {}};
  JobTable jobs{services.for_jobs};
  std::optional<Retention> retention;
};

}  // namespace

TEST_CASE("a run that is over is forgotten after its time, in slices; what runs, and what is younger, stays") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  Place place(database.name("state"), {1h, Nanoseconds(0)});
  constexpr std::int64_t kSteps = 3 * Retention::kRunRows + 7;
  const std::int64_t old = place.run_of("old", Phase::kFinished, 7, kSteps);
  const std::int64_t runs = place.run_of("runs", Phase::kMeasuring, 3, 10);
  place.clock.advance(59min);
  const std::int64_t young = place.run_of("young", Phase::kFinished, 2, 10);
  place.retention->tick();
  CHECK(place.store.steps(old).value().size() == kSteps);
  place.clock.advance(2min);
  place.retention->tick();
  CHECK(place.store.steps(old).value().size() == kSteps - Retention::kRunRows);
  place.settle();
  CHECK(place.store.steps(old).value().empty());
  CHECK(place.store.events(old, 0, kMany).value().empty());
  CHECK(place.store.runs_over(INT64_MAX, 10).value() == std::vector{young});
  CHECK(place.store.steps(runs).value().size() == 10);
  CHECK(place.store.steps(young).value().size() == 10);
  CHECK(place.services.counters.runs_forgotten == 1);
  CHECK(place.store.last_launch("old").value() == 7);
  CHECK(place.store.last_launch("runs").value() == 7);
  CHECK(place.store.command_id(runs, "launch/1", "n0").value() !=
        place.store.command_id(old, "launch/1", "n0").value());
}

TEST_CASE("nothing is forgotten where it is kept for ever") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  Place place(database.name("state"), {});
  const std::int64_t old = place.run_of("old", Phase::kFinished, 1, 10);
  REQUIRE(place.store.add_audit({"ana", "freeze the job", "old", old, ""}, 1).ok());
  place.clock.advance(24h * 36500);
  place.settle();
  CHECK(place.store.steps(old).value().size() == 10);
  CHECK(place.store.audit("", 0, kMany).value().size() == 1);
}

TEST_CASE("a wall clock that jumps forgets nothing, neither when it jumps nor when it is set right again") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  constexpr Nanoseconds kKept = 24h * 90;
  Place place(database.name("state"), {kKept, kKept});
  const std::int64_t run = place.run_of("old", Phase::kFinished, 1, 10);
  REQUIRE(place.store.add_audit({"ana", "freeze the job", "old", run, ""}, place.clock.wall().count()).ok());
  const auto kept = [&] {
    return place.store.steps(run).value().size() == 10 && place.store.audit("", 0, kMany).value().size() == 1;
  };
  // Wrong from the start, then set right, then wrong once more.
  place.clock.jump_wall(24h * 3650);
  place.settle();
  CHECK(kept());
  place.clock.advance(23h);
  place.settle();
  CHECK(kept());
  place.clock.jump_wall(-24h * 3650);
  place.settle();
  place.clock.advance(48h);
  place.settle();
  CHECK(kept());
  place.clock.jump_wall(24h * 3650);
  place.settle();
  CHECK(kept());
  // One that stays so is believed.
  place.clock.advance(24h);
  place.settle();
  CHECK(place.store.steps(run).value().empty());
  CHECK(place.services.counters.audit_forgotten == 1);
}

TEST_CASE("that entries of the audit log went does not itself fill it") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  Place place(database.name("state"), {Nanoseconds(0), 1h});
  for (int seconds = 0; seconds < 6 * 3600; seconds += 10) {
    if (seconds < 2 * 3600) {
      REQUIRE(place.store.add_audit({"ana", "freeze the job", "a", 1, ""}, place.clock.wall().count()).ok());
    }
    place.clock.advance(10s);
    place.retention->tick();
  }
  CHECK(place.store.audit("", 0, kMany).value().size() <= Retention::kAuditRemovals + 1);
}

TEST_CASE("entries of the audit log go after their time, and that they did is one") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  Place place(database.name("state"), {Nanoseconds(0), 1h});
  constexpr std::int64_t kOld = Retention::kAuditRows + 5;
  for (std::int64_t i = 0; i < kOld; ++i) {
    REQUIRE(place.store.add_audit({"ana", "freeze the job", "a", 1, ""}, place.clock.wall().count()).ok());
  }
  place.clock.advance(2h);
  REQUIRE(place.store.add_audit({"ana", "thaw the job", "a", 1, ""}, place.clock.wall().count()).ok());
  place.retention->tick();
  CHECK(place.store.audit("", 0, kMany).value().size() == 5 + 1 + 1);
  place.settle();
  const auto left = place.store.audit("", 0, kMany).value();
  REQUIRE(left.size() == 3);
  CHECK(left[0].audit.what == "thaw the job");
  CHECK(left[1].audit.what == "remove 2000 entries of the audit log");
  CHECK(left[2].audit.what == "remove 5 entries of the audit log");
  CHECK(left[2].audit.who == kCoordinatorActor);
  CHECK(place.services.counters.audit_forgotten == kOld);
}

TEST_CASE("costs of origins that send no more are folded, also where the rest is kept for ever and the clock jumps") {
  const test::DatabasePlace database(test::Backend::kSqlite);
  Place place(database.name("state"), {});
  Cost cost;
  cost.key.kind = CostKind::kRange;
  cost.key.subject = "a";
  cost.statistics.add(7);
  for (const char* origin : {"a", "b", "c"}) {
    for (std::uint64_t number = 1; number <= 3; ++number) {
      REQUIRE(place.costs.add_batch({origin, number}, Fingerprint(), "passive", {cost}).value());
    }
  }
  place.settle();
  CHECK(place.costs.unfolded_origins(0, kMany).value().size() == 3);
  place.clock.jump_wall(24h * 3650);
  place.clock.advance(IdleOrigins::kIdle);
  place.settle();
  CHECK(place.costs.unfolded_origins(0, kMany).value().empty());
  CHECK(place.costs.rows().value().at(0).cost.statistics.count() == 9);
}

TEST_CASE("a cost database that cannot be written keeps no run from being forgotten") {
  const test::DatabasePlace database(test::Backend::kSqlite);
  Place place(database.name("state"), {1h, Nanoseconds(0)});
  REQUIRE(place.costs.add_batch({"a", 1}, Fingerprint(), "passive", {}).value());
  place.costs = CostDatabase::open(place.costs.name(), OpenMode::kReadOnly).value();
  place.settle();
  const std::int64_t run = place.run_of("old", Phase::kFinished, 1, 10);
  place.clock.advance(2h);
  place.settle();
  CHECK(place.services.counters.retention_failures > 0);
  CHECK(place.services.counters.runs_forgotten == 1);
  CHECK(place.store.steps(run).value().empty());
}
