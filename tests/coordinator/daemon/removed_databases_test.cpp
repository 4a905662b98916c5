// The daemon over loopback, whose databases are removed while it runs.

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../daemon_client.hpp"
#include "../fake_agent.hpp"
#include "base/clock.hpp"
#include "coordinator/daemon.hpp"
#include "schema/cost.hpp"
#include "schema/job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Cluster {
  TemporaryDirectory directory;
  const std::string state = directory.path() + "/state";
  SystemClock clock;
  net::EventLoop loop;
  std::unique_ptr<Daemon> daemon;

  Cluster() { start(); }

  void start() {
    spdlog::set_level(spdlog::level::off);
    Settings settings;
    settings.port = 0;
    settings.state_directory = state;
    settings.max_request_rate = 100'000;
    daemon = Daemon::start(loop, clock, settings).value();
  }
  net::HttpReply http(const std::string& method, const std::string& target, const std::string& body = "") {
    const auto reply = reply_of(loop, {"127.0.0.1", daemon->port()}, method, target, body);
    REQUIRE(reply.ok());
    return *reply;
  }
  json status() { return json::parse(http("GET", "/v1/status").body); }
  // Until a tick has looked.
  bool says(const std::string& words) {
    for (int i = 0; i < 200; ++i) {
      if (http("GET", "/metrics").body.find(words) != std::string::npos) return true;
    }
    return false;
  }
};

std::string submission() {
  Job job;
  job.name = "small";
  job.world_size = 2;
  job.steps = 10;
  job.working_directory = "/";
  job.describe = job.benchmark = job.train = {"true"};
  return json{{"job", json::parse(to_json(job))}, {"tune", true}}.dump();
}

std::string key() {
  CostKey one;
  one.kind = CostKind::kOperatorForward;
  one.subject = "linear";
  one.samples = 1;
  return to_json(one);
}

}  // namespace

TEST_CASE("jobs and costs are not acknowledged while the state directory of a running coordinator is gone") {
  Cluster cluster;
  FakeAgent agent(cluster.loop, cluster.daemon->port(), "n0", "a0");
  agent.start();
  REQUIRE(run_until(cluster.loop, [&] { return agent.welcomes == 1; }));
  agent.send_batch(1, key(), 10);
  REQUIRE(run_until(cluster.loop, [&] { return agent.acknowledged.contains(1); }));

  fs::rename(cluster.state, cluster.state + "-removed");
  const net::HttpReply refused = cluster.http("POST", "/v1/jobs", submission());
  CHECK(refused.status == 503);
  CHECK(refused.body.find("its directory was removed. Make it again") != std::string::npos);
  agent.send_batch(2, key(), 20);
  CHECK(cluster.says("trimtab_cost_batches_total{outcome=\"failed\"} 1"));
  CHECK_FALSE(agent.acknowledged.contains(2));
  CHECK(cluster.says("trimtab_database_out_of_place{database=\"state\"} 1"));
  CHECK(cluster.says("trimtab_database_out_of_place{database=\"costs\"} 1"));
  CHECK(cluster.status().at("storage_failure").get<std::string>().find("nothing is stored") != std::string::npos);

  fs::remove_all(cluster.state + "-removed");
  fs::create_directory(cluster.state);
  CHECK(cluster.says("trimtab_database_out_of_place{database=\"costs\"} 0"));
  CHECK_FALSE(cluster.status().contains("storage_failure"));
  CHECK(cluster.http("POST", "/v1/jobs", submission()).status == 201);
  agent.send_batch(2, key(), 20);  // as the agent does after half a minute
  REQUIRE(run_until(cluster.loop, [&] { return agent.acknowledged.contains(2); }));
  agent.stop();

  cluster.daemon.reset();
  cluster.start();
  CHECK(cluster.http("GET", "/v1/jobs/small").status == 200);
  const json fingerprints = json::parse(cluster.http("GET", "/v1/costs").body);
  REQUIRE(fingerprints.dump().find("hash") != std::string::npos);
}

TEST_CASE("databases that are removed under a running coordinator are there after a clean restart") {
  Cluster cluster;
  REQUIRE(cluster.http("POST", "/v1/jobs", submission()).status == 201);
  for (const auto& entry : fs::directory_iterator(cluster.state)) {
    if (entry.is_regular_file()) fs::remove(entry.path());
  }
  CHECK(cluster.says("trimtab_database_written_back_total{database=\"state\"} 1"));
  cluster.daemon.reset();
  cluster.start();
  CHECK(cluster.http("GET", "/v1/jobs/small").status == 200);
}
