// Answers that grow with what there is: bounded, in pages, and made off the loop.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../../net/loopback.hpp"
#include "../agents_world.hpp"
#include "api/answer_worker.hpp"
#include "api/api.hpp"
#include "jobs/retention.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

std::int64_t add_run(StateStore& store, const std::string& name, std::int64_t steps) {
  TuningState state;
  state.job.name = name;
  state.initial = state.incumbent = PlanText("{}", "hash");
  state.phase = Phase::kFinished;
  const std::int64_t run = store.add_job(state, 1).value();
  Transition transition;
  transition.state_changed = true;
  for (std::int64_t step = 1; step <= steps; ++step) transition.steps.push_back({1, step, 1, 0, 0, false, 2.0, 0});
  REQUIRE(store.save(run, state, transition, 1).ok());
  return run;
}

struct Answering : World {
  Access everybody{false, nullptr};
  Api api{services, jobs, everybody, 100'000};

  net::HttpResponse ask(const std::string& path, const std::map<std::string, std::string>& query = {}) {
    return api.handle({"GET", path, query, ""});
  }
  json document(const std::string& path, const std::map<std::string, std::string>& query = {}) {
    const net::HttpResponse answer = ask(path, query);
    CHECK(answer.status == 200);
    return json::parse(answer.body);
  }
};

}  // namespace

TEST_CASE("steps of a run are thinned as they age, the older the sparser, and the newest stay") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  auto store = StateStore::open(database.name("state")).value();
  constexpr std::int64_t kAll = 3 * kStepsKept + 5;
  const std::int64_t run = add_run(store, "long", kAll);
  CHECK(std::ssize(store.steps(run).value()) == kStepsKept);  // also before anything is thinned
  int slices = 0;
  while (store.thin_steps(run).value()) REQUIRE(++slices < 20);
  const auto steps = store.steps(run).value();
  CHECK(std::ssize(steps) <= kStepsKept);
  CHECK(std::ranges::is_sorted(steps, {}, &MeasuredStep::step));
  const auto whole = steps.end() - kStepsWhole;
  CHECK(whole->step == kAll - kStepsWhole + 1);
  const std::int64_t stride = steps[1].step - steps[0].step;
  CHECK(steps[0].step == stride);
  CHECK(stride >= 8);
  for (auto one = steps.begin(); one + 2 < steps.end(); ++one) {
    REQUIRE((one + 1)->step - one->step >= (one + 2)->step - (one + 1)->step);
  }
  // What comes later is thinned likewise, and the same ones stay.
  Transition later;
  for (std::int64_t step = kAll + 1; step <= kAll + kStepsKept; ++step) later.steps.push_back({1, step, 1});
  REQUIRE(store.save(run, TuningState(), later, 2).ok());
  while (store.thin_steps(run).value()) REQUIRE(++slices < 40);
  CHECK(std::ssize(store.steps(run).value()) <= kStepsKept);
  CHECK(store.steps(run).value().front().step % stride == 0);
}

TEST_CASE("steps whose numbers cannot be thinned are bounded all the same") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  auto store = StateStore::open(database.name("state")).value();
  TuningState state;
  state.job.name = "odd";
  const std::int64_t run = store.add_job(state, 1).value();
  Transition transition;
  for (std::uint64_t launch = 1; launch <= kStepsKept + 100; ++launch) transition.steps.push_back({launch, 0, 1});
  REQUIRE(store.save(run, state, transition, 1).ok());
  int slices = 0;
  while (store.thin_steps(run).value()) REQUIRE(++slices < 20);
  CHECK(std::ssize(store.steps(run).value()) == kStepsWhole);
}

TEST_CASE("the daemon thins steps in slices, of jobs that are over too") {
  Answering one;
  const std::int64_t run = add_run(one.store, "long", 2 * kStepsKept);
  REQUIRE(one.jobs.restore().ok());
  Retention retention(one.services.for_jobs, one.jobs);
  for (int i = 0; i < 20; ++i) {
    retention.tick();
    one.clock.advance(200ms);
  }
  CHECK(std::ssize(one.document("/v1/jobs/long/report").at("steps")) <= kStepsKept);
  CHECK_FALSE(one.store.thin_steps(run).value());
}

TEST_CASE("a report has bounded steps, whatever is stored") {
  Answering one;
  add_run(one.store, "long", 2 * kStepsKept);
  REQUIRE(one.jobs.restore().ok());
  const json report = one.document("/v1/jobs/long/report");
  CHECK(std::ssize(report.at("steps")) == kStepsKept);
  CHECK(report.at("steps").back().at("step") == 2 * kStepsKept);
}

TEST_CASE("costs come in pages, each key once") {
  Answering one;
  std::vector<Cost> costs;
  for (int i = 0; i < 2500; ++i) {
    Cost& cost = costs.emplace_back();
    cost.key.kind = CostKind::kOperatorForward;
    cost.key.subject = "operator-" + std::to_string(i);
    cost.key.dtype = "float32";
    cost.key.samples = 1;
    cost.statistics.add(1000 + i);
  }
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = "fake";
  REQUIRE(one.costs.add_batch({"o1", 1}, fingerprint, to_text(CostSource{}), costs).ok());
  std::map<std::string, std::string> query = {{"fingerprint", hash(fingerprint)}};
  std::set<std::string> subjects;
  int pages = 0;
  for (json page = one.document("/v1/costs", query);; page = one.document("/v1/costs", query)) {
    ++pages;
    CHECK(page.at("costs").size() <= 1000);
    for (const json& cost : page.at("costs")) CHECK(subjects.insert(cost.at("key").at("subject")).second);
    if (!page.contains("next")) break;
    query["after"] = std::to_string(page.at("next").get<std::int64_t>());
  }
  CHECK(pages == 3);
  CHECK(subjects.size() == 2500);
  CHECK(one.ask("/v1/costs", {{"fingerprint", hash(fingerprint)}, {"after", "x"}}).status == 400);
}

TEST_CASE("fingerprints come in pages") {
  Answering one;
  for (int i = 0; i < 130; ++i) {
    Fingerprint fingerprint;
    fingerprint.device["cpu"] = std::to_string(i);
    REQUIRE(one.costs.add_batch({"o" + std::to_string(i), 1}, fingerprint, to_text(CostSource{}), {Cost{}}).ok());
  }
  const json first = one.document("/v1/costs");
  REQUIRE(first.at("fingerprints").size() == 100);
  const json second = one.document("/v1/costs", {{"after", first.at("next").get<std::string>()}});
  CHECK(second.at("fingerprints").size() == 30);
  CHECK_FALSE(second.contains("next"));
}

TEST_CASE("a page of events has bounded texts, and goes on where it ended") {
  const test::DatabasePlace database(GENERATE(from_range(test::backends())));
  auto store = StateStore::open(database.name("state")).value();
  const std::int64_t run = add_run(store, "chatty", 0);
  Transition transition;
  for (int i = 0; i < 10; ++i) transition.notes.push_back({"warning", std::string(kEventBytes / 3, 'x')});
  transition.notes.push_back({"warning", std::string(2 * kEventBytes, 'x')});
  REQUIRE(store.save(run, TuningState(), transition, 1).ok());
  std::int64_t after = 0;
  std::size_t seen = 0;
  for (auto page = store.events(run, after, 1000).value(); !page.empty();
       page = store.events(run, after, 1000).value()) {
    CHECK(page.size() <= 3);
    seen += page.size();
    after = page.back().sequence;
  }
  CHECK(seen == 11);
}

TEST_CASE("long answers are made off the loop, one caller's after another's, and few of a caller wait") {
  net::EventLoop loop;
  AnswerWorker worker(loop);
  std::vector<std::string> made;
  const auto ask = [&](const std::string& caller, const std::string& what) {
    const auto prepare = [what]() -> AnswerWorker::Making {
      return [what] { return net::HttpResponse{200, "text/plain", what}; };
    };
    worker.enqueue(caller, prepare, [&](const net::HttpResponse& answer) { made.push_back(answer.body); });
  };
  ask("ana", "a1");
  for (const char* one : {"a2", "a3", "a4", "a5"}) ask("ana", one);
  CHECK_FALSE(worker.has_room("ana"));
  CHECK(worker.has_room("bob"));
  ask("bob", "b1");
  CHECK(worker.waiting() == 6);
  REQUIRE(net::run_until(loop, [&] { return made.size() == 6; }));
  CHECK(made == std::vector<std::string>{"a1", "b1", "a2", "a3", "a4", "a5"});
  CHECK(worker.has_room("ana"));
}

TEST_CASE("an answer whose worker goes is never made") {
  net::EventLoop loop;
  int made = 0;
  {
    AnswerWorker worker(loop);
    for (int i = 0; i < 3; ++i) {
      worker.enqueue(
          "ana", [] { return [] { return net::HttpResponse(); }; }, [&](const net::HttpResponse&) { ++made; });
    }
  }
  loop.post([&] { loop.stop(); });
  loop.run();
  CHECK(made == 0);
}

TEST_CASE("who asks for long answers faster than they are made is told so, and others are not") {
  Answering one;
  AnswerWorker worker(one.loop);
  one.services.answers = &worker;
  std::vector<net::HttpResponse> answers;
  int told = 0;
  for (int i = 0; i < 10; ++i) {
    net::HttpResponse answer = one.ask("/v1/costs");
    if (answer.later) {
      answer.later([&](net::HttpResponse made) { answers.push_back(std::move(made)); });
    } else {
      CHECK(answer.status == 429);
      ++told;
    }
  }
  CHECK(told > 0);
  CHECK(one.ask("/v1/status").status == 200);
  REQUIRE(net::run_until(one.loop, [&] { return std::ssize(answers) == 10 - told; }));
  for (const auto& answer : answers) CHECK(answer.status == 200);
  one.services.answers = nullptr;
}
