// Agents tell of ranks that users have launched: jobs come of them.

#include <catch2/catch.hpp>

#include "../agents_world.hpp"
#include "../kept_log.hpp"
#include "api/api.hpp"
#include "api/job_documents.hpp"
#include "api/metrics.hpp"
#include "jobs/job_table.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

struct Watched : World {
  using World::World;
  wire::FromAgent event(const std::string& job, std::uint32_t rank, std::uint64_t launch = 1) {
    wire::FromAgent from;
    from.mutable_rank_event()->set_job(job);
    from.mutable_rank_event()->set_rank(rank);
    from.mutable_rank_event()->set_launch(launch);
    return from;
  }
  void connected(std::uint64_t peer, std::uint32_t rank, std::uint32_t world_size = 2, const std::string& job = "train",
                 std::uint64_t launch = 1) {
    wire::FromAgent from = event(job, rank, launch);
    from.mutable_rank_event()->mutable_connected()->set_pid(77);
    from.mutable_rank_event()->mutable_connected()->set_watched_world_size(world_size);
    say(peer, from);
  }
  void step(std::uint64_t peer, std::uint32_t rank, std::int64_t number) {
    wire::FromAgent from = event("train", rank);
    wire::Step& step = *from.mutable_rank_event()->mutable_step();
    step.set_step(number);
    step.set_wall_ns(10'000'000);
    step.set_loss(1.5);
    step.set_count(4);
    step.mutable_parts()->set_forward_ns(3'000'000);
    step.mutable_parts()->set_backward_ns(6'000'000);
    say(peer, from);
  }
  void facts(std::uint64_t peer, std::uint32_t rank, const std::string& text) {
    wire::FromAgent from = event("train", rank);
    from.mutable_rank_event()->mutable_facts()->set_facts_json(text);
    say(peer, from);
  }
  void exited(std::uint64_t peer, std::uint32_t rank, std::int32_t code = 0) {
    wire::FromAgent from = event("train", rank);
    from.mutable_rank_event()->mutable_exited()->set_exit_code(code);
    say(peer, from);
  }
  void back(const std::string& node, std::uint64_t peer, std::vector<std::uint32_t> ranks) {
    wire::FromAgent from = test::hello_of(node, "of " + node, fingerprint_json());
    for (const std::uint32_t rank : ranks) {
      wire::RunningRank& running = *from.mutable_hello()->add_running();
      running.set_job("train");
      running.set_rank(rank);
      running.set_launch(1);
      running.set_watched(true);
    }
    say(peer, from);
  }
  void two_ranks() {
    hello("n0", 1);
    hello("n1", 2);
    connected(1, 0);
    connected(2, 1);
    REQUIRE(jobs.find("train") != nullptr);
    REQUIRE(jobs.find("train")->state().phase == Phase::kTraining);
  }
  json document() { return json::parse(job_document(*jobs.find("train"))); }
  // Commands and messages that agents were sent, but for those of every conversation.
  int orders() {
    int count = 0;
    for (const auto& [peer, all] : told) {
      for (const wire::ToAgent& to : all) {
        count += to.has_welcome() || to.has_heartbeat() || to.has_unfinished_jobs() ? 0 : 1;
      }
    }
    return count;
  }
};

}  // namespace

TEST_CASE("the first rank that an agent tells of makes the watched job", "[watched]") {
  Watched world;
  world.two_ranks();
  for (int i = 1; i <= 5; ++i) {
    world.step(1, 0, i);
    world.step(2, 1, i);
  }
  const json document = world.document();
  CHECK(document["watched"] == true);
  CHECK(document["mode"] == "observe");
  CHECK(document["phase"] == "training");
  CHECK(document["step"] == 5);
  CHECK(document["incumbent"]["hash"] == "as-launched");
  CHECK(document["incumbent"]["plan"].is_null());
  CHECK(world.orders() == 0);
  world.agents.tick();
  CHECK(world.unfinished(1).back().jobs_size() == 1);
  world.exited(1, 0);
  world.exited(2, 1);
  CHECK(world.document()["phase"] == "finished");
  world.agents.tick();
  CHECK(world.unfinished(1).back().jobs_size() == 0);
}

TEST_CASE("a watched job's card is made of what its ranks tell, and kept", "[watched]") {
  Watched world;
  world.two_ranks();
  CHECK(world.jobs.find("train")->card().json().empty());
  world.facts(1, 0, R"({"framework":"ddp","batch_size":4})");
  world.facts(1, 0, "no JSON");
  CHECK(world.services.counters.frames_malformed == 1);
  for (int i = 1; i <= 40; ++i) {
    world.step(1, 0, i);
    world.step(2, 1, i);
    world.clock.advance(std::chrono::milliseconds(10));
  }
  json card = json::parse(world.jobs.find("train")->card().json());
  CHECK(card["schema"] == "trimtab.card/1");
  CHECK(card["ranks"] == 2);
  CHECK(card["step_ms"]["median"].get<double>() == Approx(10));
  world.exited(1, 0);
  world.exited(2, 1);
  world.jobs.tick();
  const std::string kept = world.jobs.find("train")->card().json();
  JobTable next(world.services.for_jobs);
  REQUIRE(next.restore().ok());
  CHECK(next.find("train")->card().json() == kept);
}

TEST_CASE("a watched job goes on after a restart of the coordinator, or ends with what is known", "[watched]") {
  const TemporaryDirectory place;
  {
    Watched world(place.path());
    world.two_ranks();
    for (int i = 1; i <= 30; ++i) {
      world.step(1, 0, i);
      world.step(2, 1, i);
    }
    world.clock.advance(std::chrono::seconds(40));
    world.jobs.tick();
  }
  Watched world(place.path());
  REQUIRE(world.jobs.restore().ok());
  CHECK_FALSE(world.jobs.find("train")->card().json().empty());
  world.back("n0", 1, {0});
  world.back("n1", 2, {});
  CHECK(world.orders() == 0);  // nobody is ended as a stray
  world.connected(1, 0);
  world.step(1, 0, 31);
  CHECK(world.document()["step"] == 31);
  world.exited(2, 1);  // its agent knew
  world.exited(1, 0);
  CHECK(world.document()["phase"] == "finished");
}

TEST_CASE("a further run of the name begins when the ranks of the one before have ended", "[watched]") {
  Watched world;
  world.two_ranks();
  const std::int64_t first = world.jobs.find("train")->run();
  world.exited(1, 0, 1);
  world.exited(2, 1, 1);
  CHECK(world.jobs.find("train")->run() == first);
  world.connected(1, 0);
  CHECK(world.jobs.find("train")->run() != first);
  CHECK(world.document()["phase"] == "waiting");
  world.connected(2, 1);
  world.exited(1, 0);
  world.exited(2, 1);
  const std::int64_t second = world.jobs.find("train")->run();
  world.connected(1, 0, 1);
  CHECK(world.jobs.find("train")->run() != second);
}

TEST_CASE("a launched job and a watched one do not share a name", "[watched]") {
  Watched world;
  world.hello("n0", 1);
  world.hello("n1", 2);
  world.submit("gpt");
  world.connected(1, 0, 2, "gpt");
  CHECK_FALSE(world.jobs.find("gpt")->state().watched);
  CHECK(world.services.refusals.counts().at("job") == 1);
  world.connected(1, 0);
  Job job;
  job.name = "train";
  job.world_size = 2;
  job.steps = 10;
  job.train = {"train"};
  const auto submitted = world.jobs.submit(job, true);
  REQUIRE_FALSE(submitted.ok());
  CHECK_THAT(submitted.error().message, Catch::Contains("was launched by its user"));
}

TEST_CASE("watched jobs count like any others, and one too many is refused in plain words", "[watched]") {
  Watched world;
  world.services.settings.max_jobs_of_tenant = 2;
  world.hello("n0", 1);
  world.connected(1, 0, 1, "a");
  world.connected(1, 0, 1, "b");
  spdlog::set_level(spdlog::level::warn);
  const KeptLog log;
  world.connected(1, 0, 1, "c");
  spdlog::set_level(spdlog::level::off);
  CHECK(world.jobs.find("c") == nullptr);
  CHECK_THAT(log.text(), Catch::Contains("which its user launched, is not watched"));
  CHECK_THAT(log.text(), Catch::Contains("max_jobs_of_tenant"));
}

TEST_CASE("a node speaks of its own watched ranks alone, and what cannot be makes no job", "[watched]") {
  Watched world;
  world.two_ranks();
  world.connected(2, 0);  // which n0 has
  CHECK(world.services.foreign.counts().at("rank") == 1);
  world.step(2, 0, 1);
  CHECK(world.services.foreign.counts().at("rank") == 2);
  for (const std::string name : {"", "..", "a/b"}) world.connected(1, 0, 1, name);
  world.connected(1, 5, 2, "other");
  world.connected(1, 0, 100'000, "other");
  world.connected(1, 0, 1, "other", 0);
  CHECK(world.jobs.jobs().size() == 1);
}

TEST_CASE("a watched job is its nodes' tenant's", "[watched]") {
  Watched world;
  wire::FromAgent of_a = test::hello_of("n0", "of n0", fingerprint_json());
  of_a.mutable_hello()->set_tenant("a");
  world.say(1, of_a);
  wire::FromAgent of_b = test::hello_of("n1", "of n1", fingerprint_json());
  of_b.mutable_hello()->set_tenant("b");
  world.say(2, of_b);
  world.connected(1, 0);
  CHECK(world.jobs.find("train")->state().tenant == "a");
  world.connected(2, 1);
  CHECK(world.services.refusals.counts().at("job") == 1);
  CHECK(world.jobs.find("train")->state().nodes.size() == 1);
}

TEST_CASE("people's orders to a watched job are refused with the reason", "[watched]") {
  Watched world;
  world.two_ranks();
  const Access access(false, nullptr);
  Api api(world.services, world.jobs, access, 1000);
  const auto ask = [&](const std::string& method, const std::string& path) {
    net::HttpRequest request;
    request.method = method;
    request.path = path;
    request.address = "127.0.0.1:1";
    return api.handle(request);
  };
  for (const std::string order : {"stop", "freeze", "unfreeze", "approve", "own-plan"}) {
    const net::HttpResponse answer = ask("POST", "/v1/jobs/train/" + order);
    CHECK(answer.status == 409);
    CHECK_THAT(answer.body, Catch::Contains("was launched by its user: Trimtab watches it"));
  }
  CHECK(ask("GET", "/v1/jobs/train/card").status == 404);
  CHECK(ask("GET", "/v1/jobs/none/card").status == 404);
  world.step(1, 0, 1);
  CHECK(ask("GET", "/v1/jobs/train/card").status == 200);
  const net::HttpResponse report = ask("GET", "/v1/jobs/train/report");
  CHECK(report.status == 200);
  CHECK(json::parse(report.body)["initial"]["hash"] == "as-launched");
  CHECK_THAT(ask("GET", "/metrics").body, Catch::Contains("job=\"train\""));
  CHECK_THAT(ask("GET", "/v1/status").body, Catch::Contains("\"watched\":true"));
  CHECK(world.orders() == 0);
}
