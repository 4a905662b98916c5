
#include <catch2/catch.hpp>

#include "jobs/coordinator_client.hpp"
#include "jobs/live_text.hpp"
#include "jobs/status_text.hpp"
#include "report/report.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

constexpr const char* kStatus = R"({"release":"0.1.0","uptime_s":12.5,
  "nodes":[{"name":"n0","state":"connected","devices":2,"memory_bytes":1073741824,"fingerprint":"aa11"}],
  "jobs":[{"name":"gpt","mode":"auto","phase":"trials","active":true,"progress":{"done":1,"total":8,"what":"trials"},
           "step":40,"steps":300,"loss":6.25,"step_ms":512.5,"trials":1,"failure":""},
          {"name":"old","phase":"finished","active":false}]})";

}  // namespace

TEST_CASE("a coordinator's status is read and printed") {
  const auto cluster = read_reply<api::ClusterStatus>(kStatus);
  REQUIRE(cluster.ok());
  REQUIRE(cluster->jobs.size() == 2);
  CHECK(cluster->jobs[0].step_ms == 512.5);
  const std::string text = describe(*cluster);
  CHECK(text.find("n0") != std::string::npos);
  CHECK(text.find("1/8 trials") != std::string::npos);
}

TEST_CASE("trials are told with where the time of their change of plan went, and when it has paid") {
  const auto trials =
      read_reply<api::Trials>(R"({"trials":[{"id":2,"state":"adopted","switch_ms":2100,"break_even_steps":17,
      "switch_phases_ms":{"stop":900,"start":700,"first_step":500}},{"id":3,"state":"failed","switch_ms":5}]})");
  REQUIRE(trials.ok());
  const std::string text = describe(trials->trials);
  INFO(text);
  CHECK(
      text.find("the change to trial 2's plan took 2100 ms, of which stopping and saving 900 ms, starting 700 ms, the "
                "first step 500 ms; it has paid after 17 steps\n") != std::string::npos);
  CHECK(text.find("the change to trial 3") == std::string::npos);
}

TEST_CASE("fields that a coordinator does not send keep their defaults") {
  const auto job = read_reply<api::Job>(R"({"name":"x","loss":null})");
  REQUIRE(job.ok());
  CHECK(job->active);
  CHECK_FALSE(job->loss.has_value());
  CHECK(job->progress.total == 0);
}

TEST_CASE("a job is told with what is tried, and why its plan must stay") {
  const auto job = read_reply<api::Job>(R"({"name":"gpt","phase":"trials","held_by":"frozen","trial":
      {"id":3,"state":"warming","predicted_ms":80.5,"measured_ms":0}})");
  REQUIRE(job.ok());
  REQUIRE(job->trial.has_value());
  const std::string text = describe(*job);
  INFO(text);
  CHECK(text.find("held: frozen\n") != std::string::npos);
  CHECK(text.find("trial 3: plan not known: predicted 80.5 ms: warming\n") != std::string::npos);
  CHECK(describe(api::Job{}).find("trial") == std::string::npos);
}

TEST_CASE("a job is told with what tuning has cost it") {
  const auto job = read_reply<api::Job>(R"({"name":"gpt","overhead":{"ms":3200,"share":0.017,"allowed_share":0.02}})");
  REQUIRE(job.ok());
  CHECK(describe(*job).find("tuning has cost 3200 ms, 1.7 % of the time that the job takes (2.0 % are allowed)\n") !=
        std::string::npos);
  CHECK(describe(api::Job{}).find("cost") == std::string::npos);
}

TEST_CASE("status shows thrown kill switches and jobs that are held") {
  const auto cluster =
      read_reply<api::ClusterStatus>(R"({"nodes":[{"name":"n0","state":"connected","kill_switch":true}],
      "jobs":[{"name":"gpt","held_by":"the kill switch of node n0 is thrown"}]})");
  REQUIRE(cluster.ok());
  const std::string text = describe(*cluster);
  CHECK(text.find("connected, kill switch thrown") != std::string::npos);
  CHECK(text.find("the kill switch of node n0 is thrown") != std::string::npos);
}

TEST_CASE("status shows whose jobs a node runs, and what a job waits for that finds no node") {
  const auto cluster = read_reply<api::ClusterStatus>(R"({"nodes":[{"name":"n0","state":"connected","tenant":"ana"},
      {"name":"n1","state":"lost","tenant":"*"}],"jobs":[{"name":"gpt","waits_for":"it needs 2 devices"}]})");
  REQUIRE(cluster.ok());
  const std::string text = describe(*cluster);
  INFO(text);
  CHECK(text.find("connected, for tenant ana alone") != std::string::npos);
  CHECK(text.find("tenant *") == std::string::npos);
  CHECK(text.find("it needs 2 devices") != std::string::npos);
  api::Job waiting;
  waiting.waits_for = cluster->jobs.at(0).waits_for;
  CHECK(describe(waiting).find("waits: it needs 2 devices\n") != std::string::npos);
}

TEST_CASE("an answer that is no such document is something outside that failed") {
  for (const char* text : {"", "<html>", "[]", R"({"nodes":3})", R"({"nodes":[],"jobs":[{"step":"many"}]})"}) {
    INFO(text);
    const auto cluster = read_reply<api::ClusterStatus>(text);
    REQUIRE_FALSE(cluster.ok());
    CHECK(cluster.error().kind == ErrorKind::kUnavailable);
  }
  CHECK_FALSE(read_reply<api::Events>("{}").ok());
  CHECK_FALSE(read_reply<api::Trials>("{}").ok());
}

TEST_CASE("an answer of brackets alone is refused, however long it is") {
  const std::string brackets(1'000'000, '[');
  for (const std::string& text : {brackets, "{\"ranks\":[{\"shares\":" + brackets, "{\"nodes\":" + brackets}) {
    CHECK_FALSE(read_reply<api::ClusterStatus>(text).ok());
    CHECK_FALSE(read_reply<api::LiveJob>(text).ok());
    CHECK_FALSE(parse_report(text, "report.json").ok());
  }
}

TEST_CASE("a verb means the named job, or the only one that is active") {
  const auto cluster = read_reply<api::ClusterStatus>(kStatus);
  CHECK(*choose_job(*cluster, "") == "gpt");
  CHECK(*choose_job(*cluster, "old") == "old");
  const auto wrong = choose_job(*cluster, "gtp");
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().message.find("did you mean 'gpt'") != std::string::npos);
  CHECK_FALSE(choose_job(api::ClusterStatus{}, "").ok());
}
