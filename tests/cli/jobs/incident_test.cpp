#include "jobs/incident.hpp"

#include <catch2/catch.hpp>

#include "jobs/coordinator_client.hpp"
#include "jobs/redaction.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Incident incident_of(const std::string& job) {
  Incident incident;
  const auto read = read_reply<api::Job>(job);
  REQUIRE(read.ok());
  incident.job = *read;
  return incident;
}

}  // namespace

TEST_CASE("an incident says whether the job trains, on which plan, and how to get the own one back") {
  Incident incident =
      incident_of(R"({"name":"gpt","phase":"trials","active":true,"mode":"auto","step":120,"steps":300,"step_ms":80,
      "incumbent":{"hash":"bb"},"initial":{"hash":"aa"}})");
  incident.steps = 4;
  incident.seconds = 1;
  const auto trials = read_reply<api::Trials>(R"({"trials":[{"id":1,"hash":"bb","state":"adopted","measured_ms":80,
      "speedup":{"ratio":1.3,"low":1.2,"high":1.4}},
      {"id":2,"hash":"cc","state":"rejected","reason":"slower","predicted_ms":70}]})");
  REQUIRE(trials.ok());
  incident.trials = trials->trials;
  const std::string text = incident_text(incident, " --coordinator h:1");
  INFO(text);
  CHECK(has(text, "trains     yes: step 120 of 300, 80.0 ms a step, 4 more in 1 s\n"));
  CHECK(has(text, "bb (adopted by trial 1)"));
  CHECK(has(text, "tried last trial 2: "));
  CHECK(has(text, "slower"));
  CHECK(has(text, "trimtab job own-plan --job gpt --coordinator h:1\n"));
}

TEST_CASE("an incident of a job without a step, and of one that is over, says so") {
  Incident silent = incident_of(R"({"name":"gpt","phase":"training","active":true,"mode":"auto","step":7,
      "incumbent":{"hash":"aa"},"initial":{"hash":"aa"},"frozen":true,"held_by":"frozen"})");
  silent.seconds = 10;
  const auto nodes =
      read_reply<api::Nodes>(R"({"nodes":[{"name":"n0","state":"connected"},{"name":"n1","state":"lost"}]})");
  REQUIRE(nodes.ok());
  silent.nodes = nodes->nodes;
  const std::string text = incident_text(silent, "");
  INFO(text);
  CHECK(has(text, "trains     no step in 10 s (phase training), step 7\n"));
  CHECK(has(text, "the one that it began with"));
  CHECK(has(text, "nodes      n1 (lost)\n"));
  CHECK_FALSE(has(text, "own-plan"));  // it runs it, and is frozen
  const std::string over = incident_text(incident_of(R"({"name":"old","phase":"failed","active":false,"step":3,
      "failure":"rank 1 ended with exit code 1"})"),
                                         "");
  CHECK(has(over, "trains     no: it is over (failed), step 3\n"));
  CHECK(has(over, "why        rank 1 ended with exit code 1\n"));
  CHECK_FALSE(has(over, "job stop"));
}

TEST_CASE("a bundle names no job, machine, person or file, and keeps what a bug report needs") {
  const auto bundle = incident_bundle(
      {{"job",
        R"({"name":"secret-gpt","phase":"trials","step":120,"tenant":"ana","rank_0_log":"node7:/home/ana/run/rank-0.log",
                "failure":"rank 1 on node7 ended: see /home/ana/run\nTOKEN=hunter2","incumbent":{"hash":"abc123"}})"},
       {"nodes", R"({"nodes":[{"name":"node7","state":"connected","devices":8}]})"},
       {"audit",
        R"({"entries":[{"who":"ana@node7","what":"freeze the job secret-gpt","job":"secret-gpt","why":"from 10.1.2.3"}]})"},
       {"card", "job secret-gpt has no card yet"}},
      "0.1.0");
  const std::string text = bundle.dump();
  INFO(text);
  for (const char* name : {"secret-gpt", "node7", "ana", "/home", "hunter2", "10.1.2.3"}) CHECK_FALSE(has(text, name));
  CHECK(bundle["documents"]["job"]["step"] == 120);
  CHECK(bundle["documents"]["job"]["phase"] == "trials");
  CHECK(bundle["documents"]["job"]["incumbent"]["hash"] == "abc123");
  CHECK(bundle["documents"]["nodes"]["nodes"][0]["state"] == "connected");
  CHECK(bundle["documents"]["audit"]["entries"][0]["job"] == bundle["documents"]["job"]["name"]);
  CHECK(bundle["left_out"] == nlohmann::ordered_json::array({"card"}));
}

TEST_CASE("a redacted text ends where what a command printed begins") {
  const Redaction redaction;
  CHECK(redaction.apply(std::string("exit code 1; its last output: KEY=s3cret")) == "exit code 1");
  CHECK(redaction.apply(std::string("printed no model.json; the output begins with 's3cret'")) ==
        "printed no model.json");
}

TEST_CASE("a redacted text loses paths, addresses and names where they stand alone") {
  Redaction redaction;
  redaction.learn_name("gpt");
  redaction.learn_name("gpt-2");
  CHECK(redaction.apply(std::string("gpt-2 beside gpt, gpts and egpt")) ==
        "redacted-2 beside redacted-1, gpts and egpt");
  CHECK(redaction.apply(std::string("wrote /data/x.pt, PATH=/usr/bin:/opt, 3/4 done, 1.5 ms")) ==
        "wrote /redacted, PATH=/redacted, 3/4 done, 1.5 ms");
  CHECK(redaction.apply(std::string("from 192.168.0.1:7420")) == "from an-address:7420");
  CHECK(redaction.apply(std::string("release 1.2.3 of 0.1.0")) == "release 1.2.3 of 0.1.0");
}
