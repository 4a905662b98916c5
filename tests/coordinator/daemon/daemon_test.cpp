// The daemon over loopback: HTTP, and agents that speak protobuf over a real WebSocket.

#include "coordinator/daemon.hpp"

#include <spdlog/spdlog.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include <sys/stat.h>
#include <unistd.h>

#include "../../small_disk.hpp"
#include "../daemon_client.hpp"
#include "../fake_agent.hpp"
#include "base/clock.hpp"
#include "schema/cost.hpp"
#include "schema/cost_database.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "tested_backends.hpp"
#include "tuner/needed_costs.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

struct Fixture {
  TemporaryDirectory directory;
  test::DatabasePlace databases;
  std::optional<test::SmallDisk> disk;  // goes after the daemon
  SystemClock clock;
  net::EventLoop loop;
  std::unique_ptr<Daemon> daemon;
  std::uint32_t max_message_rate = 10'000;

  explicit Fixture(test::Backend backend, bool on_small_disk = false) : databases(backend) {
    spdlog::set_level(spdlog::level::off);
    if (on_small_disk) disk.emplace(directory.path(), 4);
    start();
  }
  // In the daemon's directory, or on the server.
  void place_databases(Settings& settings) const {
    settings.state_directory = directory.path();
    if (databases.backend() == test::Backend::kSqlite) return;
    settings.cost_database = databases.name("costs");
    settings.state_database = databases.name("state");
  }
  void start(Bytes costs_limit = Budgets().costs) {
    Settings settings;
    settings.port = 0;
    place_databases(settings);
    settings.search_evaluations = 2000;
    settings.max_message_rate = max_message_rate;
    settings.budgets.costs = costs_limit;
    settings.max_request_rate = 100'000;  // it asks as fast as it can
    auto started = Daemon::start(loop, clock, settings);
    REQUIRE(started.ok());
    daemon = std::move(started).value();
  }
  // The loop turns while a client on another thread asks.
  net::HttpReply http(const std::string& method, const std::string& target, const std::string& body = "") {
    const auto reply = reply_of(loop, {"127.0.0.1", daemon->port()}, method, target, body);
    return reply.ok() ? *reply : net::HttpReply{};
  }
  // Asks again and again, the loop turning in between; false after 20 s.
  bool until(const std::function<bool()>& done) {
    const Nanoseconds begin = clock.monotonic();
    while (!done()) {
      if (clock.monotonic() - begin > std::chrono::seconds(20)) return false;
      int looks = 0;
      (void)run_until(loop, [&] { return ++looks == 5; });
    }
    return true;
  }
  json get(const std::string& target) {
    const net::HttpReply reply = http("GET", target);
    INFO(target << ": " << reply.body);
    REQUIRE(reply.status == 200);
    return json::parse(reply.body);
  }
};

Model small_model() {
  Model model;
  model.name = "small";
  model.global_batch = 4;
  for (int i = 0; i < 4; ++i) {
    Operator one;
    one.name = "op" + std::to_string(i);
    one.kind = "linear";
    one.layer = i;
    one.cost_key = "linear-8";
    one.parameter_bytes = 1000;
    one.activation_bytes = 4000;
    one.output_bytes = 1000;
    one.forward_flops = 1000;
    model.operators.push_back(one);
  }
  return model;
}

Job small_job(JobMode mode = JobMode::kAuto) {
  Job job;
  job.name = "small";
  job.mode = mode;
  job.world_size = 2;
  job.steps = 4000;  // the fake ranks make a thousand a second
  job.working_directory = "/";
  job.describe = {"describe"};
  job.benchmark = {"benchmark"};
  job.train = {"train"};
  job.trials.stop_after = true;
  job.trials.max_trials = 2;
  return job;
}

std::string submission(const Job& job, bool tune = true) {
  return json{{"job", json::parse(to_json(job))}, {"tune", tune}}.dump();
}

std::int64_t fake_value(const CostKey& key) {
  switch (key.kind) {
    case CostKind::kOperatorForward:
      return 1'000'000 * key.samples;
    case CostKind::kOperatorBackward:
      return 2'000'000 * key.samples;
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return 1'000'000;
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
    case CostKind::kProcessBytes:
      return 1000;
    default:
      return 50'000;
  }
}

// An agent whose benchmarks measure everything that the small model needs.
void measure_everything(FakeAgent& agent) {
  agent.model_json = to_json(small_model());
  agent.on_benchmark = [&agent](const wire::Benchmark&) {
    Cluster cluster;
    cluster.nodes.push_back({"n0", "f", 2, 1 << 30, 0});
    cluster.links.push_back({"intra_node", std::nullopt, 0, 0});
    std::uint64_t number = 100;
    for (const CostKey& key : tuner::needed_costs(small_model(), cluster, Knobs{}, {})) {
      agent.send_batch(number++, to_json(key), static_cast<int>(fake_value(key)), "small");
    }
  };
}

std::string cost_key(int samples) {
  CostKey key;
  key.kind = CostKind::kOperatorForward;
  key.subject = "a";
  key.dtype = "float32";
  key.samples = samples;
  return to_json(key);
}

}  // namespace

TEST_CASE("an agent joins, and is listed with its devices") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.start();
  REQUIRE(run_until(one.loop, [&] { return agent.welcomes == 1; }));
  const json nodes = one.get("/v1/nodes")["nodes"];
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0]["name"] == "n0");
  CHECK(nodes[0]["devices"] == 2);
  CHECK(nodes[0]["state"] == "connected");
  agent.stop();
  REQUIRE(one.until([&] { return one.get("/v1/nodes")["nodes"][0]["state"] == "disconnected"; }));
}

TEST_CASE("an agent of another protocol version is refused, both versions are named, and what to do") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.protocol_version = 77;
  agent.start();
  REQUIRE(run_until(one.loop, [&] { return !agent.refusals.empty(); }));
  CHECK(agent.refusals[0].find("speaks protocol version 1") != std::string::npos);
  CHECK(agent.refusals[0].find("speaks version 77") != std::string::npos);
  CHECK(agent.refusals[0].find("Bring this coordinator to a release that speaks version 77, such as 9.9") !=
        std::string::npos);
  REQUIRE(run_until(one.loop, [&] { return agent.closes > 0; }));
  CHECK(one.get("/v1/nodes")["nodes"].empty());
}

TEST_CASE("who does not say hello first, or does not speak the protocol, is refused") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.hello_on_open = false;
  agent.start();
  bool sent = false;
  REQUIRE(run_until(one.loop, [&] {
    wire::FromAgent from;
    from.mutable_heartbeat();
    sent = sent || agent.send(from);
    return !agent.refusals.empty();
  }));
  CHECK(agent.refusals[0] == "the first message must be a hello");
}

TEST_CASE("a batch that comes twice counts once, and is acknowledged each time") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.start();
  REQUIRE(run_until(one.loop, [&] { return agent.welcomes == 1; }));
  agent.send_batch(1, cost_key(1), 100);
  REQUIRE(run_until(one.loop, [&] { return agent.acknowledged.contains(1); }));
  agent.acknowledged.clear();
  agent.send_batch(1, cost_key(1), 100);
  REQUIRE(run_until(one.loop, [&] { return agent.acknowledged.contains(1); }));
  const std::string fingerprint = one.get("/v1/costs")["fingerprints"][0]["hash"];
  const json costs = one.get("/v1/costs?fingerprint=" + fingerprint)["costs"];
  REQUIRE(costs.size() == 1);
  CHECK(costs[0]["count"] == 2);
  CHECK(one.http("GET", "/metrics").body.find("trimtab_cost_batches_total{outcome=\"repeated\"} 1") !=
        std::string::npos);
}

TEST_CASE("a cost database that is over its limit from the start takes no costs") {
  Fixture one(test::Backend::kSqlite);
  one.daemon.reset();
  const std::string costs = one.directory.path() + "/costs.db";
  REQUIRE(CostDatabase::open(costs, OpenMode::kReadWrite)->put_fact("", "large", std::string(2 << 20, 'x')).ok());
  one.start(Bytes{1} << 20);
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.start();
  REQUIRE(run_until(one.loop, [&] { return agent.welcomes == 1; }));
  agent.send_batch(1, cost_key(1), 100);
  REQUIRE(one.until(
      [&] { return one.http("GET", "/metrics").body.find("{outcome=\"failed\"} 1\n") != std::string::npos; }));
  CHECK(agent.acknowledged.empty());
}

TEST_CASE("an entry that cannot be read is left out and the rest of its batch is kept") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.start();
  REQUIRE(run_until(one.loop, [&] { return agent.welcomes == 1; }));
  agent.send_batch(5, R"({"kind":"no such kind"})", 1);
  REQUIRE(run_until(one.loop, [&] { return agent.acknowledged.contains(5); }));
  CHECK(one.http("GET", "/metrics").body.find("trimtab_cost_entries_total{outcome=\"refused\"} 1") !=
        std::string::npos);
}

TEST_CASE("a batch that can never be stored is answered with the reason, so that the agent need not send it for ever") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  agent.start();
  REQUIRE(run_until(one.loop, [&] { return agent.welcomes == 1; }));
  wire::FromAgent from;
  from.mutable_cost_batch()->set_batch(3);
  from.mutable_cost_batch()->set_fingerprint_json("nonsense");
  agent.send(from);
  REQUIRE(run_until(one.loop, [&] { return agent.refused_batches.contains(3); }));
  from.mutable_cost_batch()->set_batch(UINT64_MAX);
  from.mutable_cost_batch()->set_fingerprint_json(fingerprint_json());
  agent.send(from);
  REQUIRE(run_until(one.loop, [&] { return agent.refused_batches.contains(UINT64_MAX); }));
  CHECK_THAT(agent.refused_batches[UINT64_MAX], Catch::Contains("below 2^63"));
  CHECK(agent.closes == 0);
  CHECK_THAT(one.http("GET", "/metrics").body, Catch::Contains("trimtab_cost_batches_total{outcome=\"refused\"} 2"));
}

TEST_CASE(
    "an agent that floods the coordinator is read at its rate, one with too large a frame is closed, both are "
    "counted") {
  Fixture one(GENERATE(from_range(test::backends())));
  one.daemon.reset();
  one.max_message_rate = 100;
  one.start();
  FakeAgent flood(one.loop, one.daemon->port(), "n0", "i0");
  FakeAgent large(one.loop, one.daemon->port(), "n1", "i1");
  flood.start();
  large.start();
  REQUIRE(run_until(one.loop, [&] { return flood.welcomes == 1 && large.welcomes == 1; }));
  wire::FromAgent beat;
  beat.mutable_heartbeat()->set_sent_ns(1);
  for (int i = 0; i < 250; ++i) flood.send(beat);
  flood.send_batch(1, cost_key(1), 100);
  wire::FromAgent from;
  from.mutable_command_progress()->set_what(std::string(9 << 20, 'x'));
  large.send(from);
  REQUIRE(run_until(one.loop, [&] { return large.closes == 1 && flood.acknowledged.contains(1); }));
  CHECK(flood.closes == 0);
  const std::string metrics = one.http("GET", "/metrics").body;
  CHECK_THAT(metrics, Catch::Contains("trimtab_refused_total{reason=\"too_large\"} 1"));
  CHECK_THAT(metrics, Catch::Contains("trimtab_frames_delayed_total"));
  CHECK_THAT(metrics, !Catch::Contains("trimtab_frames_delayed_total 0\n"));
}

TEST_CASE("requests that cannot be answered say why") {
  Fixture one(GENERATE(from_range(test::backends())));
  const auto error = [&](const std::string& method, const std::string& target, const std::string& body = "") {
    const net::HttpReply reply = one.http(method, target, body);
    REQUIRE(json::parse(reply.body).contains("error"));
    return reply.status;
  };
  CHECK(error("GET", "/v1/nothing") == 404);
  CHECK(error("GET", "/v1/jobs/none") == 404);
  CHECK(error("GET", "/v1/jobs/none/report") == 404);
  CHECK(error("POST", "/v1/jobs/none/stop") == 404);
  CHECK(error("DELETE", "/v1/jobs") == 405);
  CHECK(error("POST", "/v1/jobs", "not json") == 400);
  CHECK(error("POST", "/v1/jobs", R"({"job": {}})") == 400);
  CHECK(error("POST", "/v1/jobs", R"({"job": {"name": "x"}, "tune": 3})") == 400);
  Job restart = small_job();
  restart.delivery = Delivery::kRestart;
  const net::HttpReply reply = one.http("POST", "/v1/jobs", submission(restart));
  CHECK(reply.status == 400);
  CHECK(reply.body.find("delivery") != std::string::npos);
  restart.train.emplace_back("{checkpoint}");
  restart.checkpoint = "s3://bucket/run";
  restart.allow_restarts = true;
  const net::HttpReply object = one.http("POST", "/v1/jobs", submission(restart));
  CHECK(object.status == 400);
  CHECK_THAT(object.body, Catch::Contains("saves in s3://bucket/run, of which no trial can be given a copy"));
}

TEST_CASE("the page, the metrics and the status are served") {
  Fixture one(GENERATE(from_range(test::backends())));
  CHECK(one.http("GET", "/").body.rfind("<!doctype html>", 0) == 0);
  const std::string metrics = one.http("GET", "/metrics").body;
  for (const char* family : {"trimtab_nodes{state=\"lost\"} 0", "process_resident_memory_bytes", "trimtab_cost_keys 0",
                             "trimtab_loop_lag_seconds", "process_cpu_seconds_total"}) {
    CHECK(metrics.find(family) != std::string::npos);
  }
  CHECK(one.get("/v1/status")["release"] == TRIMTAB_RELEASE);
}

TEST_CASE("a job is described, profiled, searched, tuned and reported through a real socket") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  measure_everything(agent);
  // The initial plan is slow, every other one fast.
  std::string initial;
  agent.step_ms = [&initial](const std::string& plan) {
    if (initial.empty()) initial = plan;
    return plan == initial ? 50.0 : 20.0;
  };
  agent.start();
  const net::HttpReply posted = one.http("POST", "/v1/jobs", submission(small_job()));
  INFO(posted.body);
  REQUIRE(posted.status == 201);
  CHECK(json::parse(posted.body)["was_running"] == false);
  // The same once more finds the job that runs; another one is refused, and so is profiling alone.
  const net::HttpReply again = one.http("POST", "/v1/jobs", submission(small_job()));
  CHECK(again.status == 200);
  CHECK(json::parse(again.body)["was_running"] == true);
  CHECK(json::parse(again.body)["run"] == json::parse(posted.body)["run"]);
  Job other = small_job();
  other.steps = 401;
  const net::HttpReply refused = one.http("POST", "/v1/jobs", submission(other));
  CHECK(refused.status == 409);
  CHECK(refused.body.find("it differs in steps") != std::string::npos);
  CHECK(refused.body.find("/v1/jobs/small/stop") != std::string::npos);
  CHECK(one.http("POST", "/v1/profile", submission(small_job())).status == 409);
  json job;
  const bool ended = one.until([&] {
    job = one.get("/v1/jobs/small");
    return !job["active"].get<bool>();
  });
  INFO(job.dump(1) << one.get("/v1/jobs/small/events").dump(1));
  REQUIRE(ended);
  CHECK(job["phase"] == "finished");
  CHECK(agent.commands.front() == "describe");
  CHECK(agent.commands.back() == "launch untuned");
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small/report")["timeline"].contains("initial"); }));
  const json report = one.get("/v1/jobs/small/report");
  CHECK(report["schema"] == "trimtab.report/1");
  CHECK(report["speedup"]["ratio"].get<double>() == Approx(2.5).epsilon(0.05));
  CHECK(report["speedup"]["low"].get<double>() > 2);
  CHECK(report["loss"]["steps"] == 30);
  CHECK(report["loss"]["same_samples"] == true);
  CHECK(report["loss"]["max_abs_difference_to_untuned_run"].get<double>() == Approx(0));
  CHECK(report["profiled"]["costs_measured"].get<int>() > 5);
  CHECK(report["profiled"]["costs_missing"] == 0);
  CHECK(parse_plan(report["adopted"]["plan"].dump(), "report").ok());
  CHECK_FALSE(report["trials"].empty());
  const json trials = one.get("/v1/jobs/small/trials")["trials"];
  CHECK(std::ranges::any_of(trials, [](const json& trial) { return trial["state"] == "adopted"; }));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // So slow a coordinator may see steps later than the agent says, and fail a trial before it.
  CHECK(trials[0]["state"] == "adopted");
#endif
  const json events = one.get("/v1/jobs/small/events?after=3")["events"];
  CHECK(events[0]["sequence"] == 4);
  // Finished: it may be submitted afresh, and finds every cost known.
  REQUIRE(one.http("POST", "/v1/profile", submission(small_job())).status == 201);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["phase"] == "finished"; }));
  CHECK(one.get("/v1/jobs/small")["run"] == 2);
  CHECK(std::count(agent.commands.begin(), agent.commands.end(), "benchmark") == 1);
}

TEST_CASE("a job that ends before its tuning does keeps its timelines") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  measure_everything(agent);
  agent.start();
  Job job = small_job();
  job.steps = 6;  // one less than the initial plan is measured for
  REQUIRE(one.http("POST", "/v1/jobs", submission(job)).status == 201);
  REQUIRE(one.until([&] { return !one.get("/v1/jobs/small")["active"].get<bool>(); }));
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["report_complete"].get<bool>(); }));
  const json report = one.get("/v1/jobs/small/report");
  CHECK(report["conclusion"] == "the job ended before tuning did");
  CHECK_FALSE(report["timeline"]["initial"].empty());
}

TEST_CASE("a job that trains on after tuning has a whole report") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  measure_everything(agent);
  agent.start();
  Job job = small_job();
  job.trials.stop_after = false;
  job.steps = 1'000'000;
  REQUIRE(one.http("POST", "/v1/jobs", submission(job)).status == 201);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["phase"] == "training"; }));
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["report_complete"].get<bool>(); }));
  const json report = one.get("/v1/jobs/small/report");
  CHECK_FALSE(report["timeline"]["adopted"].empty());
  CHECK(report["timeline"]["adopted_hash"] == report["adopted"]["hash"]);
  CHECK(one.get("/v1/jobs/small")["active"] == true);
}

TEST_CASE("a coordinator that comes back finds its job and the agent's ranks, and goes on") {
  Fixture one(GENERATE(from_range(test::backends())));
  const std::uint16_t port = one.daemon->port();
  FakeAgent agent(one.loop, port, "n0", "i0");
  measure_everything(agent);
  agent.start();
  REQUIRE(one.http("POST", "/v1/jobs", submission(small_job(JobMode::kApprove))).status == 201);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["doing"] == "awaiting_approval"; }));
  const int launches = static_cast<int>(std::count(agent.commands.begin(), agent.commands.end(), "launch "));
  one.daemon.reset();
  REQUIRE(run_until(one.loop, [&] { return agent.closes > 0; }));
  Settings settings;
  settings.port = port;  // the agent comes back by itself
  one.place_databases(settings);
  auto again = Daemon::start(one.loop, one.clock, settings);
  REQUIRE(again.ok());
  one.daemon = std::move(again).value();
  REQUIRE(run_until(one.loop, [&] { return agent.welcomes == 2; }));
  CHECK(one.get("/v1/jobs/small")["doing"] == "awaiting_approval");
  CHECK(std::count(agent.commands.begin(), agent.commands.end(), "launch ") == launches);
  CHECK(one.http("POST", "/v1/jobs/small/approve").status == 200);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["trials"] == 2; }));
  CHECK(one.http("POST", "/v1/jobs/small/stop").status == 200);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["phase"] == "stopped"; }));
  CHECK(one.http("POST", "/v1/jobs/small/stop").status == 409);
}

TEST_CASE("orders, refusals and what follows from them are in the audit log, and a kill switch holds the job") {
  Fixture one(GENERATE(from_range(test::backends())));
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  measure_everything(agent);
  agent.start();
  Job job = small_job(JobMode::kApprove);
  job.steps = 1'000'000;
  REQUIRE(one.http("POST", "/v1/jobs?by=ana%40login1", submission(job)).status == 201);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["doing"] == "awaiting_approval"; }));
  agent.kill_switch = true;
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["held_by"] != ""; }));
  CHECK(one.get("/v1/nodes")["nodes"][0]["kill_switch"] == true);
  const std::string metrics = one.http("GET", "/metrics").body;
  CHECK(metrics.find("trimtab_node_kill_switch{node=\"n0\"} 1") != std::string::npos);
  CHECK(metrics.find("trimtab_job_held{job=\"small\"} 1") != std::string::npos);
  const net::HttpReply refused = one.http("POST", "/v1/jobs/small/approve?by=bob&why=looks%20fine");
  CHECK(refused.status == 409);
  CHECK(refused.body.find("kill switch of node n0") != std::string::npos);
  agent.kill_switch = false;
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["held_by"] == ""; }));
  CHECK(one.http("POST", "/v1/jobs/small/freeze?by=bob&why=night").status == 200);
  CHECK(one.get("/v1/jobs/small")["held_by"] == "frozen");
  CHECK(one.http("POST", "/v1/jobs/small/stop").status == 200);
  std::vector<std::string> seen;
  const json log = one.get("/v1/audit");
  for (const json& entry : log["entries"]) {
    CHECK(entry["at_ns"].get<std::int64_t>() > 0);
    seen.push_back(entry["who"].get<std::string>() + ": " + entry["what"].get<std::string>() + ": " +
                   entry["why"].get<std::string>());
  }
  const auto at = [&seen](const std::string& entry) {
    const auto found = std::find(seen.begin(), seen.end(), entry);
    CAPTURE(entry, seen);
    REQUIRE(found != seen.end());
    return found - seen.begin();
  };
  CHECK(at("ana@login1: hand in a job to tune, mode approve: ") == 0);
  const auto thrown = at("node n0: throw the kill switch: a person on the node");
  CHECK(thrown < at("coordinator: hold the plan: the kill switch of node n0 is thrown"));
  CHECK(at("bob: approve the trial: looks fine") <
        at("coordinator: refuse to approve the trial: job small: the kill switch of node n0 is thrown"));
  CHECK(at("bob: freeze the job: night") < at("coordinator: hold the plan: frozen"));
  CHECK(at("bob: freeze the job: night") < at("somebody: stop the job: "));
  CHECK(one.get("/v1/audit?job=other")["entries"].empty());
  CHECK(one.http("GET", "/v1/audit?after=x").status == 400);
}

TEST_CASE("a second coordinator on the same state is refused") {
  Fixture one(GENERATE(from_range(test::backends())));
  Settings settings;
  settings.port = 0;
  one.place_databases(settings);
  const auto second = Daemon::start(one.loop, one.clock, settings);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().kind == ErrorKind::kUnavailable);
  INFO(second.error().message);
  const bool is_file = one.databases.backend() == test::Backend::kSqlite;
  CHECK_THAT(second.error().message, Catch::Contains(is_file ? std::to_string(getpid()) : "belongs to a program on"));
}

TEST_CASE("a port that is taken is an error that names it") {
  Fixture one(GENERATE(from_range(test::backends())));
  TemporaryDirectory other;
  Settings settings;
  settings.port = one.daemon->port();
  settings.state_directory = other.path();
  const auto second = Daemon::start(one.loop, one.clock, settings);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message.find(std::to_string(one.daemon->port())) != std::string::npos);
}

TEST_CASE("a job stands still while the disk is full, says so, and goes on when there is room", "[needs:root]") {
  Fixture one(test::Backend::kSqlite, true);
  if (!one.disk->mounted()) return;
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0");
  measure_everything(agent);
  agent.start();
  REQUIRE(one.http("POST", "/v1/jobs", submission(small_job(JobMode::kApprove))).status == 201);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["doing"] == "awaiting_approval"; }));
  one.disk->fill();
  const std::size_t told = agent.commands.size();
  CHECK(one.http("POST", "/v1/jobs/small/stop").status == 202);
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["storage_failure"] != ""; }));
  CHECK_THAT(one.get("/v1/jobs/small")["storage_failure"].get<std::string>(), Catch::Contains("disk"));
  // Costs that cannot be stored are not acknowledged: the agent keeps them.
  agent.send_batch(7000, cost_key(1), 100);
  CHECK(agent.commands.size() == told);
  CHECK_FALSE(agent.acknowledged.contains(7000));
  // A new job that cannot be stored is refused, not half there.
  Job other = small_job();
  other.name = "other";
  CHECK(one.http("POST", "/v1/jobs", submission(other)).status >= 400);
  one.disk->free();
  REQUIRE(one.until([&] { return one.get("/v1/jobs/small")["phase"] == "stopped"; }));
  CHECK(one.get("/v1/jobs/small")["storage_failure"] == "");
  // As an agent does: again and again until it is acknowledged.
  CHECK(one.until([&] {
    if (!agent.acknowledged.contains(7000)) agent.send_batch(7000, cost_key(1), 100);
    return agent.acknowledged.contains(7000);
  }));
}

TEST_CASE("a coordinator has no state where nobody names a place for it, nor where everybody may write") {
  const auto refusal = [](const std::string& state) {
    net::EventLoop loop;
    const SystemClock clock;
    Settings settings;
    settings.port = 0;
    settings.state_directory = state;
    const auto started = Daemon::start(loop, clock, settings);
    return started.ok() ? std::string() : started.error().message;
  };
  const auto unset = [](const char* name) {
    const char* value = std::getenv(name);
    const auto before = value == nullptr ? std::nullopt : std::optional<std::string>(value);
    ::unsetenv(name);
    return before;
  };
  const auto home = unset("HOME");
  const auto state_home = unset("XDG_STATE_HOME");
  const std::string nowhere = refusal("");
  if (home) ::setenv("HOME", home->c_str(), 1);
  if (state_home) ::setenv("XDG_STATE_HOME", state_home->c_str(), 1);
  CHECK_THAT(nowhere, Catch::Contains("HOME") && Catch::Contains("--state"));
  const TemporaryDirectory shared;
  REQUIRE(::chmod(shared.path().c_str(), 0777) == 0);
  if (::geteuid() == 0) REQUIRE(::chown(shared.path().c_str(), 65534, 65534) == 0);
  const auto why = ::geteuid() == 0 ? "must be root's" : "everybody may write";
  CHECK_THAT(refusal(shared.path()), Catch::Contains(why));
}
