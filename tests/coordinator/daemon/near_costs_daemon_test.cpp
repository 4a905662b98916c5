// A job on hardware whose driver alone is new, over the daemon's own way: the agent's benchmark is asked for probes,
// and the database has the measurements alone.

#include <spdlog/spdlog.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "../daemon_client.hpp"
#include "../fake_agent.hpp"
#include "../near_world.hpp"
#include "base/clock.hpp"
#include "schema/cost_database.hpp"
#include "tuner/near_costs.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

struct Bumped {
  TemporaryDirectory directory;
  SystemClock clock;
  net::EventLoop loop;
  std::unique_ptr<Daemon> daemon;
  std::set<std::string> asked;  // requests of benchmarks

  Bumped() {
    spdlog::set_level(spdlog::level::off);
    REQUIRE(database()
                .add_batch({"o", 1}, test::near_fingerprint("550.1"), to_text(CostSource{}),
                           test::near_costs(test::near_needed()))
                .ok());
    Settings settings;
    settings.port = 0;
    settings.state_directory = directory.path();
    settings.search_evaluations = 200;
    daemon = Daemon::start(loop, clock, settings).value();
  }
  [[nodiscard]] CostDatabase database() const {
    return CostDatabase::open(directory.path() + "/costs.db", OpenMode::kCreate).value();
  }
  json http(const std::string& method, const std::string& target, const std::string& body = "") {
    const auto reply = reply_of(loop, {"127.0.0.1", daemon->port()}, method, target, body);
    REQUIRE(reply.ok());
    return json::parse(reply->body, nullptr, false);
  }
  // With an agent that measures what it is told to. The report after the first search.
  json searched(const Job& job, const std::vector<CostKey>& measures) {
    FakeAgent agent(loop, daemon->port(), "n0", "i0");
    agent.model_json = to_json(test::near_model());
    std::uint64_t number = 0;
    agent.on_benchmark = [&](const wire::Benchmark& benchmark) {
      asked.insert(benchmark.requests_json());
      for (const CostKey& key : measures) {
        agent.send_batch(++number, to_json(key), static_cast<int>(test::near_value(key)), job.name);
      }
    };
    agent.start();
    REQUIRE(run_until(loop, [&] { return agent.welcomes == 1; }));
    (void)http("POST", "/v1/jobs", json{{"job", json::parse(to_json(job))}, {"tune", true}}.dump());
    json report = json::object();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < until && !report.contains("profiled")) {
      int turns = 0;
      (void)run_until(loop, [&] { return ++turns == 20; });
      report = http("GET", "/v1/jobs/" + job.name + "/report");
      if (!report.is_object()) report = json::object();
    }
    return report;
  }
};

Job tuned_job() {
  Job job;
  job.name = "small";
  job.mode = JobMode::kAuto;
  job.world_size = 2;
  job.steps = 4000;
  job.working_directory = "/";
  job.describe = {"describe"};
  job.benchmark = {"benchmark"};
  job.train = {"train"};
  return job;
}

}  // namespace

TEST_CASE("another driver's costs are taken over where probes confirm them, told, and stored nowhere") {
  Bumped one;
  const tuner::NearHardware known{"", 0.1, test::near_costs(test::near_needed())};
  const auto probes = tuner::near_probes(test::near_model(), test::near_needed(), known);
  const json report = one.searched(tuned_job(), probes);
  INFO(one.http("GET", "/v1/jobs/small/events").dump());
  REQUIRE(report.contains("profiled"));
  CHECK(one.asked.size() == 1);
  CHECK(report["profiled"]["costs_measured"] == probes.size());
  CHECK(report["profiled"]["costs_taken_over"] == test::near_needed().size() - probes.size());
  CHECK(report["profiled"]["costs_missing"] == 0);
  CHECK(report["taken_over"]["from"] == hash(test::near_fingerprint("550.1")));
  CHECK(report["taken_over"]["differences"] == "driver none instead of 550.1");
  CHECK(report["taken_over"]["findings"][0]["verdict"] == "confirmed");
  const CostDatabase database = one.database();
  CHECK(database.costs(hash(test::near_fingerprint("")))->size() == probes.size());
  CHECK(run_until(one.loop,
                  [&] { return database.fact(hash(test::near_fingerprint("")), kTakenOverFact)->has_value(); }));
}

TEST_CASE("near_costs = false measures everything") {
  Bumped one;
  Job job = tuned_job();
  job.near_costs = false;
  const json report = one.searched(job, test::near_needed());
  REQUIRE(report.contains("profiled"));
  CHECK(report["profiled"]["costs_measured"] == test::near_needed().size());
  CHECK_FALSE(report.contains("taken_over"));
}
