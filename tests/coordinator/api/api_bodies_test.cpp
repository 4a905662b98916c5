// The bodies of every endpoint and of report.json, beside what they were when the files of golden/api were written: of
// a job that was tuned twice and is over, of one that awaits approval, and of one that was just handed in.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../agents_world.hpp"
#include "../fake_world.hpp"
#include "../token_list.hpp"
#include "../transcripts/golden_file.hpp"
#include "api/api.hpp"
#include "report.hpp"
#include "schema/cluster.hpp"
#include "schema/job.hpp"
#include "schema/plan.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

// Of one stage a device, cut at the operator: a document where the fake world has but a name.
std::string plan_cut_at(std::int32_t operators) {
  Plan plan;
  plan.model = "toy-6";
  plan.global_batch = 8;
  plan.microbatch = 2;
  Segment first;
  first.operators = {0, operators};
  Segment second;
  second.operators = {operators, 6};
  second.recompute = {{operators, 5}};
  plan.stages = {{{0}, {first}}, {{1}, {second}}};
  return to_json(plan);
}

void give_document(PlanText& plan) {
  if (plan.empty()) return;
  plan = PlanText(plan_cut_at(plan.hash == "initial" ? 3 : plan.hash == "best" ? 2 : 4), plan.hash);
}

void give_documents(TuningState& state) {
  for (PlanText* plan : {&state.initial, &state.incumbent, &state.retuned_from.plan}) give_document(*plan);
  for (Trial& trial : state.trials) give_document(trial.plan);
  Cluster cluster;
  cluster.nodes = {{"n0", "f", 1, 1 << 30, 0}, {"n1", "f", 1, 1 << 30, 0}};
  state.cluster = cluster;
}

// The fake world has no such faults.
void add_what_is_rare(TuningState& state) {
  Trial& last = state.trials.back();
  last.message = "it \"needs\" 812 MiB\n\x1b[2J";
  last.predicted_terms = {{40, 2, 11, 17, 4}, {41, 0, 0, 0, 0}};
  last.measured_terms = {{41.5, 1, 12, 23, 3}};
  last.change_phases.save_ms = 90.25;
  last.change_phases.first_step_ms = 12;
  last.break_even_steps = 17;
  state.passed_over.push_back({{plan_cut_at(5), "cut5"}, 81.5, "differs from trial 1 by less than a trial can tell"});
  state.crashes.push_back({state.begun_wall_ns + 5'500'000'000, 40, 1, "initial", "rank 1 was ended by signal 9"});
  state.crashes.push_back({0, 0, 2, "", "no rank connected"});
  state.elastic.resizes.push_back({300, "n2", 6, "best"});
  state.elastic.resizes.push_back({400, "", 8, "best", "n7", "left: it is no faster", 3});
  state.hardware.drifts.push_back({"best",
                                   500,
                                   520,
                                   100,
                                   100,
                                   true,
                                   "trial 2",
                                   true,
                                   false,
                                   false,
                                   0.97,
                                   "a link got faster",
                                   "stale are 3 of 9 costs",
                                   4,
                                   false,
                                   {1.33, 1.2, 1.5},
                                   {},
                                   false,
                                   {}});
  state.recommendation_json = plan_cut_at(5);
  state.calibration_json = R"({"computation":1.25,"factors":[1,2.0]})";
  state.explanation = "Stage 1 was the bottleneck \xc3\x97 by computation";
  state.search.seconds = 5.31;
  state.loss_note = "the untuned run ended before";
  state.tenant = "ana";
}

// Carries out in the store what the daemon would.
struct Told {
  TuningState state;
  Transition transition;
};

Told lived_job(FakeWorld& world, const std::function<void()>& live) {
  Told told;
  world.on_handled = [&told](const Handled& handled) {
    std::ranges::copy(handled.notes, std::back_inserter(told.transition.notes));
    for (const Decision& one : handled.decisions)
      told.transition.audit.push_back({kCoordinatorActor, one.what, "", 0, one.why, "ana"});
  };
  world.begin();
  live();
  told.state = world.state();
  told.transition.state_changed = true;
  told.transition.steps.assign(world.steps.begin(), world.steps.begin() + 12);
  give_documents(told.state);
  return told;
}

Told tuned_job() {
  Job job = fake_job();
  job.name = "gpt";
  job.trials.stop_after = false;
  job.steps = 3000;
  FakeWorld world(job, {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}}, 5, 0.01);
  world.faults.probes = {{-1, "n0", "n1", "inter_node", 10}};
  Told told = lived_job(world, [&world] {
    REQUIRE(world.run([&] { return world.state().step >= 700; }));
    world.faults.slowdown = 1.5;
    world.faults.probes.back().ms = 26;
    REQUIRE(world.run());
  });
  REQUIRE(told.state.phase == Phase::kFinished);
  REQUIRE_FALSE(told.state.hardware.drifts.empty());
  REQUIRE(told.state.trials.size() > 2);
  add_what_is_rare(told.state);
  Trial forgotten = told.state.trials.front();
  forgotten.plan.json.clear();
  told.state.trials.erase(told.state.trials.begin());
  told.transition.trials = {forgotten};
  return told;
}

Told awaiting_job() {
  Job job = fake_job(JobMode::kApprove);
  job.name = "asks";
  FakeWorld world(job, three_plans(), 3, 0.01);
  Told told = lived_job(
      world, [&world] { REQUIRE(world.run([&] { return world.state().doing == Doing::kAwaitingApproval; })); });
  told.state.passed_over.push_back({{"no JSON", "bad"}, 0, "no document"});
  return told;
}

constexpr const char* kTimelines =
    R"({"adopted_hash":"best","initial":[{"stage":0,"kind":"forward","microbatch":-1,"begin_ms":0.0,"end_ms":11.25}],)"
    R"("initial_measured":[],"adopted":[{"stage":1,"kind":"gradient_sync","microbatch":2,"begin_ms":1.5,"end_ms":2.0}],)"
    R"("adopted_measured":[]})";

void store(World& world, const Told& told, const std::string& timelines) {
  const std::int64_t run = world.store.add_job(told.state, world.clock.wall().count()).value();
  Transition transition = told.transition;
  for (AuditEntry& entry : transition.audit) {
    entry.job = told.state.job.name;
    entry.run = run;
  }
  REQUIRE(world.store.save(run, told.state, transition, world.clock.wall().count()).ok());
  REQUIRE(world.store.save_timelines(run, timelines).ok());
}

wire::RankActivity activity(std::uint32_t rank, std::int64_t step, std::uint64_t measured) {
  wire::RankActivity one;
  one.set_job("asks");
  one.set_rank(rank);
  one.set_steps(40 + rank);
  one.set_step(step);
  one.set_steps_measured(measured);
  one.set_steps_left_out(1);
  one.set_windows(2);
  if (measured == 0) return one;
  one.set_on_device(true);
  one.set_detected(true);
  one.set_confidence(0.875);
  one.set_kernels_per_step(120);
  one.set_step_seconds(0.25);
  one.set_computation(0.75);
  one.set_exposed_communication(0.125);
  one.set_idle(0.125);
  wire::StreamActivity& stream = *one.add_streams();
  stream.set_stream(7);
  stream.set_computation(0.5);
  wire::BusyKernel& kernel = *one.add_busiest();
  kernel.set_name("ncclDevKernel_SendRecv bad \xff");
  kernel.set_kernel_class("transfer");
  kernel.set_collective(true);
  kernel.set_share(0.25);
  kernel.set_count(80);
  kernel.set_mean_ns(1500);
  return one;
}

void add_costs(World& world) {
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = "fake";
  Cost cost;
  cost.key.kind = CostKind::kOperatorForward;
  cost.key.subject = "linear-8";
  cost.key.dtype = "float32";
  cost.key.samples = 2;
  cost.statistics.add(1000);
  cost.statistics.add(1001);
  REQUIRE(world.costs.add_batch({"o1", 1}, fingerprint, to_text(CostSource{}), {cost}).ok());
}

struct ApiWorld {
  World world;
  TokenList tokens;
  Access everybody{false, nullptr};
  Access listed = tokens.access(false);
  Api api{world.services, world.jobs, everybody, 100};
  Api restricted{world.services, world.jobs, listed, 100};

  explicit ApiWorld(bool has_nodes = true) {
    world.clock.advance(1000h);
    store(world, tuned_job(), kTimelines);
    store(world, awaiting_job(), "{}");
    REQUIRE(world.jobs.restore().ok());
    add_costs(world);
    if (has_nodes) add_nodes();
  }
  void add_nodes() {
    for (const std::uint64_t peer : {1, 2, 3}) world.hello("n" + std::to_string(peer - 1), peer);
    world.switch_to(2, true);
    world.agents.closed(3, "it went");
    world.clock.advance(1500ms);
    world.services.live.told(activity(0, -1, 0), "n0", world.clock.monotonic() - 4s);
    world.services.live.told(activity(1, 41, 4), "n1", world.clock.monotonic());
  }
  net::HttpResponse ask(const std::string& method, const std::string& path,
                        const std::map<std::string, std::string>& query = {}, const std::string& body = "") {
    return api.handle({method, path, query, body});
  }
};

std::string body_of(const net::HttpResponse& answer) {
  if (answer.content_type != "application/json") return answer.body;
  const json document = json::parse(answer.body);
  // What is committed is written for people, and says the same byte for byte.
  const auto written = [&document](int indent) {
    return document.dump(indent, ' ', false, json::error_handler_t::replace);
  };
  CHECK((answer.body == written(-1) || answer.body == written(2)));
  return written(2);
}

void check_body(const std::string& name, const net::HttpResponse& answer, int status = 200) {
  std::string body = body_of(answer);
  const std::string release = std::string("\"release\": \"") + TRIMTAB_RELEASE + "\"";
  if (const std::size_t at = body.find(release); at != std::string::npos) {
    body.replace(at, release.size(), R"("release": "that of this build")");
  }
  CHECK(answer.status == status);
  check_golden("api/" + name, body + "\n");
}

}  // namespace

TEST_CASE("bodies of what is asked of the cluster are as they were") {
  ApiWorld one;
  check_body("status", one.ask("GET", "/v1/status"));
  check_body("nodes", one.ask("GET", "/v1/nodes"));
  check_body("jobs", one.ask("GET", "/v1/jobs"));
  check_body("fingerprints", one.ask("GET", "/v1/costs"));
  const json known = json::parse(one.ask("GET", "/v1/costs").body);
  const auto hash = known["fingerprints"][0]["hash"].get<std::string>();
  check_body("costs", one.ask("GET", "/v1/costs", {{"fingerprint", hash}}));
}

TEST_CASE("bodies of what is asked of a job that is over are as they were") {
  ApiWorld one;
  check_body("job_over", one.ask("GET", "/v1/jobs/gpt"));
  check_body("trials", one.ask("GET", "/v1/jobs/gpt/trials"));
  check_body("trials_all", one.ask("GET", "/v1/jobs/gpt/trials", {{"all", "1"}}));
  check_body("events", one.ask("GET", "/v1/jobs/gpt/events"));
  check_body("report", one.ask("GET", "/v1/jobs/gpt/report"));
  check_body("audit_of_job", one.ask("GET", "/v1/audit", {{"job", "gpt"}}));
}

TEST_CASE("bodies of what is asked of a job that runs are as they were") {
  ApiWorld one;
  check_body("job_awaiting", one.ask("GET", "/v1/jobs/asks"));
  check_body("live", one.ask("GET", "/v1/jobs/asks/live"));
  check_body("live_nobody", one.ask("GET", "/v1/jobs/gpt/live"));
  check_body("refused_approval", one.ask("POST", "/v1/jobs/asks/approve", {{"by", "ana"}, {"why", "fine"}}), 409);
  check_body("frozen", one.ask("POST", "/v1/jobs/asks/freeze", {{"by", "bob"}}));
  check_body("report_running", one.ask("GET", "/v1/jobs/asks/report"));
  check_body("audit", one.ask("GET", "/v1/audit"));
}

TEST_CASE("the body of a job whose trial awaits approval is as it was") {
  ApiWorld one(false);
  check_body("job_asks", one.ask("GET", "/v1/jobs/asks"));
}

TEST_CASE("bodies of a trace's states are as they were") {
  ApiWorld one;
  check_body("trace_begun", one.ask("POST", "/v1/jobs/asks/trace", {{"by", "ana"}}, R"({"seconds": 2})"), 201);
  const json begun = json::parse(one.ask("POST", "/v1/jobs/asks/trace", {}, R"({"steps": 2})").body);
  CHECK(begun.contains("error"));
  CHECK(one.ask("GET", "/v1/audit", {{"job", "asks"}}).body.find("refuse to take a trace") != std::string::npos);
  const auto id = static_cast<std::uint64_t>(one.world.clock.wall().count());
  wire::FromAgent from;
  wire::TraceEnd& end = *from.mutable_trace_end();
  end.set_id(id);
  end.set_node("n0");
  wire::TracedRank& rank = *end.add_ranks();
  rank.set_rank(1);
  rank.set_records(5);
  rank.set_dropped(2);
  rank.set_truncated(true);
  rank.set_steps(3);
  (void)end.add_ranks();
  end.mutable_ranks(1)->set_remark("its ring \"went\"");
  one.world.say(1, from);
  one.world.agents.closed(2, "it went");
  check_body("trace", one.ask("GET", "/v1/traces/" + std::to_string(id)));
  check_body("trace_finished", one.ask("POST", "/v1/traces/" + std::to_string(id) + "/finish"));
}

TEST_CASE("bodies of what a job handed in is answered are as they were") {
  ApiWorld one;
  Job job = fake_job();
  job.name = "late";
  job.share_devices = true;
  const std::string submission = json{{"job", json::parse(to_json(job))}, {"tune", true}}.dump();
  check_body("submitted", one.ask("POST", "/v1/jobs", {{"by", "ana"}}, submission), 201);
  check_body("submitted_again", one.ask("POST", "/v1/jobs", {}, submission));
  check_body("submitted_as_profile", one.ask("POST", "/v1/profile", {}, submission), 409);
  check_body("no_report", one.ask("GET", "/v1/jobs/late/report"), 404);
  const std::vector<std::string> bodies = {"", "[]", "{}", "{\"job\":7}", R"({"job":{},"tune":1})", "\xff"};
  std::string refusals;
  for (const std::string& body : bodies) refusals += one.ask("POST", "/v1/jobs", {}, body).body + "\n";
  for (const char* path : {"/v1/jobs/nobody", "/v1/traces/7", "/v1/traces/x/chunk", "/v1/none"})
    refusals += one.ask("GET", path).body + "\n";
  refusals += one.ask("POST", "/v1/status").body + "\n" + one.ask("GET", "/v1/audit", {{"after", "x"}}).body + "\n";
  check_golden("api/refusals", refusals);
}

TEST_CASE("bodies of what a tenant may see are as they were") {
  ApiWorld one;
  net::HttpRequest request{"GET", "/v1/status", {}, ""};
  request.token = "tt_ana";
  check_body("status_of_tenant", one.restricted.handle(request));
}
