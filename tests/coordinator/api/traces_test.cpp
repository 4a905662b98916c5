#include "api/traces.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/job_documents.hpp"
#include "api/live_ranks.hpp"
#include "base/clock.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

struct Rig {
  Rig()
      : traces(clock, [this](const std::string& node, const wire::ToAgent& message) {
          if (node == "away") return false;
          sent[node].push_back(message);
          return true;
        }) {}
  std::uint64_t start(const std::string& job = "a", const std::string& tenant = "ana") {
    return traces.start({job, tenant}, {"n0", "n1"}, {2.0, 0}, {{"n0", {-3'000'000'000, 700}}}).value();
  }
  bool chunk(std::uint64_t id, int records, std::size_t bytes = 10, const std::string& node = "n0",
             const std::string& from = "n0") {
    wire::TraceChunk chunk;
    chunk.set_id(id);
    chunk.set_node(node);
    for (int i = 0; i < records; ++i) chunk.add_records();
    return traces.chunk(from, chunk, std::string(bytes, static_cast<char>('a' + next++ % 26)));
  }
  bool end(std::uint64_t id, const std::string& node) { return end(id, node, node); }
  bool end(std::uint64_t id, const std::string& node, const std::string& from) {
    wire::TraceEnd end;
    end.set_id(id);
    end.set_node(node);
    end.add_ranks()->set_records(5);
    return traces.ended(from, end);
  }
  std::string fetch(std::uint64_t id, std::uint64_t number) { return traces.fetch(id, number).value().value(); }
  json state(std::uint64_t id) { return json::parse(traces.document(id).value_or("null")); }
  ManualClock clock;
  std::map<std::string, std::vector<wire::ToAgent>> sent;
  Traces traces;
  int next = 0;
};

}  // namespace

TEST_CASE("a trace is started on every node, fetched chunk by chunk, and done when all have ended") {
  Rig rig;
  const auto id = rig.start();
  REQUIRE(rig.sent["n0"].size() == 1);
  CHECK(rig.sent["n1"][0].trace_start().job() == "a");
  CHECK(rig.sent["n1"][0].trace_start().seconds() == 2);
  CHECK(rig.fetch(id, 0).empty());
  (void)rig.chunk(id, 3);
  (void)rig.chunk(id, 3);
  CHECK(rig.fetch(id, 0) == std::string(10, 'a'));
  CHECK(rig.fetch(id, 0) == std::string(10, 'a'));  // asked again: still there
  CHECK(rig.fetch(id, 1) == std::string(10, 'b'));
  CHECK(rig.fetch(id, 0).empty());  // gone
  CHECK(rig.state(id).at("chunks") == 2);
  (void)rig.end(id, "n0");
  CHECK(rig.state(id).at("state") == "running");
  (void)rig.end(id, "n1");
  CHECK(rig.state(id).at("state") == "done");
  CHECK(rig.state(id).at("nodes")[0].at("clock_ahead_ns") == -3'000'000'000);
  CHECK(rig.state(id).at("nodes")[0].at("clock_unsure_ns") == 700);
  CHECK_FALSE(rig.state(id).at("nodes")[1].contains("clock_ahead_ns"));
  CHECK(rig.traces.finish(id));
  CHECK_FALSE(rig.traces.document(id));
  CHECK_FALSE(rig.traces.fetch(id, 0).value());
}

TEST_CASE("a node neither ends a trace for another nor adds to one that it takes no part in") {
  Rig rig;
  const auto id = rig.start();
  CHECK_FALSE(rig.end(id, "n1", "n0"));
  CHECK_FALSE(rig.end(id, "n2", "n2"));
  CHECK_FALSE(rig.chunk(id, 3, 10, "n1", "n0"));
  CHECK_FALSE(rig.chunk(id, 3, 10, "n2", "n2"));
  CHECK(rig.state(id).at("chunks") == 0);
  CHECK_FALSE(rig.state(id).at("nodes")[1].at("ended").get<bool>());
  CHECK(rig.chunk(id + 1, 3, 10, "n2", "n2"));  // of a trace that is over
  CHECK(rig.end(id + 1, "n2", "n2"));
  CHECK(rig.end(id, "n1", "n1"));
  CHECK(rig.state(id).at("nodes")[1].at("ended").get<bool>());
}

TEST_CASE("a reader that is too slow makes the coordinator drop, not grow") {
  Rig rig;
  const auto id = rig.start();
  for (int i = 0; i < 40; ++i) (void)rig.chunk(id, 7, std::size_t{4} << 20);
  CHECK(rig.state(id).at("chunks") == 32);
  CHECK(rig.state(id).at("dropped") == 8 * 7);
  CHECK_FALSE(rig.fetch(id, 1).empty());
  (void)rig.chunk(id, 7, std::size_t{4} << 20);
  CHECK(rig.state(id).at("chunks") == 33);
}

TEST_CASE("what nobody fetches is stopped on the nodes and forgotten") {
  Rig rig;
  const auto id = rig.start();
  (void)rig.end(id, "n0");
  rig.clock.advance(61s);
  rig.traces.tick();
  CHECK_FALSE(rig.traces.document(id));
  CHECK(rig.sent["n0"].size() == 1);
  REQUIRE(rig.sent["n1"].size() == 2);
  CHECK(rig.sent["n1"][1].trace_stop().id() == id);
}

TEST_CASE("who asks for a chunk beyond the next is refused, and nothing is lost by it") {
  Rig rig;
  const auto id = rig.start();
  (void)rig.chunk(id, 3);
  (void)rig.chunk(id, 3);
  for (const std::uint64_t number : {std::uint64_t{3}, UINT64_MAX}) {
    const auto refused = rig.traces.fetch(id, number);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
  }
  CHECK(rig.fetch(id, 0) == std::string(10, 'a'));
  CHECK(rig.fetch(id, 2).empty());  // the next to come: those before it have been read
  CHECK_FALSE(rig.traces.fetch(id + 1, 7).value());
}

TEST_CASE("a trace is not kept by those who look at it, but by those who want it") {
  Rig rig;
  const auto id = rig.start();
  for (int half_minutes = 0; half_minutes < 4; ++half_minutes) {
    rig.traces.wanted(id);
    rig.clock.advance(30s);
    rig.traces.tick();
  }
  CHECK(rig.traces.document(id));
  for (int half_minutes = 0; half_minutes < 4; ++half_minutes) {
    rig.clock.advance(30s);
    (void)rig.traces.document(id);
    rig.traces.tick();
  }
  CHECK_FALSE(rig.traces.document(id));
}

TEST_CASE("one trace a job, few at once, and only where somebody is") {
  Rig rig;
  const auto first = rig.start("a");
  CHECK(rig.traces.start({"a", "ana"}, {"n0"}, {1, 0}, {}).error().kind == ErrorKind::kNo);
  for (const char* job : {"b", "c"}) CHECK(rig.start(job) > first);
  const auto fourth = rig.traces.start({"d", "ana"}, {"n0"}, {1, 0}, {});
  CHECK_THAT(fourth.error().message, Catch::Contains("3 traces of tenant ana already"));
  CHECK(rig.start("d", "bob") > first);
  CHECK(rig.traces.start({"e", "eve"}, {"n0"}, {1, 0}, {}).error().kind == ErrorKind::kNo);
  Rig other;
  CHECK(other.traces.start({"a", "ana"}, {"away"}, {1, 0}, {}).error().kind == ErrorKind::kUnavailable);
  const auto id = other.traces.start({"a", "ana"}, {"away", "n0"}, {1, 0}, {}).value();
  CHECK(other.state(id).at("nodes")[0].at("remark") == "the node is not connected");
  other.traces.node_gone("n0");
  CHECK(other.state(id).at("state") == "done");
  // It may be back, and still record.
  CHECK(other.traces.finish(id));
  CHECK(other.sent["n0"].back().trace_stop().id() == id);
}

TEST_CASE("what a trace is asked for is checked") {
  CHECK(parse_trace_request(R"({"seconds": 0.5})").value().seconds == 0.5);
  CHECK(parse_trace_request(R"({"steps": 3})").value().steps == 3);
  for (const char* body : {"", "[]", "{}", R"({"seconds": 1, "steps": 1})", R"({"seconds": 0})", R"({"seconds": -1})",
                           R"({"seconds": 601})", R"({"seconds": "1"})", R"({"steps": 0})", R"({"steps": 1.5})",
                           R"({"steps": 10001})", R"({"steps": -1})"}) {
    INFO(body);
    CHECK_FALSE(parse_trace_request(body).ok());
  }
}

TEST_CASE("of what a node says of its ranks at a trace's end what it can have is kept") {
  Rig rig;
  wire::TraceEnd end;
  end.set_id(rig.start());
  end.set_node("n0");
  for (int i = 0; i < 60'000; ++i) end.add_ranks();
  end.mutable_ranks(0)->set_remark(std::string(100'000, 'x'));
  REQUIRE(rig.traces.ended("n0", end));
  const json ranks = rig.state(end.id()).at("nodes")[0].at("ranks");
  CHECK(ranks.size() == 1024);
  CHECK(ranks[0].at("remark").get<std::string>().size() == 256);
}

TEST_CASE("a body of brackets alone does not exhaust the coordinator's stack") {
  const std::string brackets = std::string(500'000, '[') + std::string(500'000, ']');
  for (const auto& body : {R"({"seconds": )" + brackets + "}", R"({"job": )" + brackets + "}"}) {
    const auto trace = parse_trace_request(body);
    REQUIRE_FALSE(trace.ok());
    CHECK(trace.error().message == "the body is nested deeper than 64 levels");
    const auto submission = parse_submission(body);
    REQUIRE_FALSE(submission.ok());
    CHECK(submission.error().message == "the body is nested deeper than 64 levels");
  }
}

TEST_CASE("a rank that says it is at a step that no job reaches computes nothing that counts") {
  LiveRanks live;
  wire::RankActivity activity;
  activity.set_job("a");
  activity.set_steps_measured(4);
  activity.set_step_seconds(0.5);
  activity.set_computation(0.75);
  activity.set_step(INT64_MAX);
  live.told(activity, "n0", 1s);
  CHECK(live.computing("a").empty());
  activity.set_step(9);
  live.told(activity, "n0", 1s);
  REQUIRE(live.computing("a").size() == 1);
  CHECK(live.computing("a")[0].first_step == 6);
}

TEST_CASE("what a step's waiting was for is told by rank and stage, as far as it is known") {
  LiveRanks live;
  wire::RankActivity activity;
  activity.set_job("a");
  activity.set_step(-1);
  activity.set_steps_measured(4);
  activity.set_step_seconds(0.5);
  live.told(activity, "n0", 1s);
  Plan plan;
  plan.stages.resize(2);
  plan.stages[0].devices = {1};
  plan.stages[1].devices = {0, 2};
  CHECK_FALSE(json::parse(live.document("a", 1s, &plan)).at("ranks")[0].contains("parts"));
  wire::ActivityParts& parts = *activity.mutable_parts();
  parts.set_bubble(0.25);
  parts.set_data(0);
  parts.set_gradients(1.5);  // cannot be
  live.told(activity, "n0", 1s);
  CHECK(json::parse(live.document("a", 1s, &plan)).at("ranks")[0].at("parts") ==
        json({{"stage", 1}, {"bubble", 0.25}, {"data", 0.0}}));
  CHECK_FALSE(json::parse(live.document("a", 1s)).at("ranks")[0].at("parts").contains("stage"));
  plan.stages[0].devices = {0};  // a rank of two stages
  CHECK_FALSE(json::parse(live.document("a", 1s, &plan)).at("ranks")[0].at("parts").contains("stage"));
}

TEST_CASE("what a job's own ranks do is kept for a while, by job") {
  LiveRanks live;
  wire::RankActivity activity;
  activity.set_job("a");
  activity.set_step(-1);
  activity.set_steps_measured(4);
  activity.set_step_seconds(0.5);
  activity.set_computation(0.75);
  activity.add_busiest()->set_name("bad \xff name");
  for (const std::uint32_t rank : {2U, 0U}) {
    activity.set_rank(rank);
    live.told(activity, "n0", 1s);
  }
  activity.set_variant("untuned");
  live.told(activity, "n0", 1s);
  activity.set_job("b");
  activity.set_variant("");
  live.told(activity, "n0", 20s);
  const json document = json::parse(live.document("a", 3s));
  REQUIRE(document.at("ranks").size() == 2);
  CHECK(document.at("ranks")[0].at("rank") == 0);
  CHECK(document.at("ranks")[0].at("steps_per_second") == 2);
  CHECK(document.at("ranks")[0].at("shares").at("computation") == 0.75);
  CHECK(document.at("ranks")[0].at("age_s") == 2);
  CHECK_FALSE(document.at("ranks")[0].contains("step"));
  live.forget_old(21s);
  CHECK(json::parse(live.document("a", 21s)).at("ranks").empty());
  CHECK(json::parse(live.document("b", 21s)).at("ranks").size() == 1);
}
