// What jobs take of the coordinator's memory is charged to their tenants.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "../../peak_memory.hpp"
#include "../agents_world.hpp"
#include "../kept_log.hpp"
#include "accounts.hpp"
#include "api/api.hpp"
#include "api/job_documents.hpp"
#include "jobs/held_memory.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Of about this many bytes as a document, in as many small pieces as can be.
Job large_job(const std::string& name, std::size_t bytes) {
  Job job;
  job.name = name;
  job.world_size = 2;
  job.steps = 10;
  job.describe = job.benchmark = job.train = {"command"};
  for (std::size_t i = 0; i * 16 < bytes; ++i) job.software["v" + std::to_string(i)] = "x";
  return job;
}

struct Accounts : World {
  explicit Accounts(Bytes memory, const std::string& place = "") : World(place) {
    services.settings.budgets.memory = memory;
  }
  std::string hand_in(const Job& job, const std::string& tenant) {
    const auto taken = jobs.submit(job, true, tenant);
    return taken.ok() ? "" : taken.error().message;
  }
};

void end(JobTable& jobs, const std::string& name) {
  jobs.find(name)->feed(Order::kStop);
  jobs.tick();
}

}  // namespace

TEST_CASE("all accounts together leave room, whatever the coordinator counts with") {
  for (const Bytes memory : {Bytes{256} << 20, Bytes{2} << 30, Bytes{64} << 30}) {
    const Shares shares = shares_of(memory);
    const std::uint64_t all = shares.jobs.together + shares.bodies.together + shares.answers.together +
                              shares.half_frames.together + shares.unknown_half_frames + shares.queues;
    CHECK(all <= static_cast<std::uint64_t>(memory) * 9 / 10);
    CHECK(shares.jobs.each <= shares.jobs.together / 2);
  }
  Settings settings;
  settings.budgets.memory = Bytes{2} << 30;
  CHECK(settings.accounted_memory() == Bytes{2} << 30);
  settings.system_memory = Bytes{1} << 30;
  CHECK(settings.accounted_memory() == Bytes{768} << 20);
}

TEST_CASE("connections are as many as there are descriptors for, and one at least") {
  CHECK(connections_within(4096, 16384) == 4096);
  CHECK(connections_within(4096, 1024) == 1024 - 64);
  CHECK(connections_within(4096, 64) == 32);
  CHECK(connections_within(4096, 1) == 1);
  CHECK(connections_within(10, 74) == 10);
}

TEST_CASE("a tenant's jobs take bounded memory, and others' find room") {
  Accounts world(64 * static_cast<Bytes>(kMiB));  // 8 MiB of each tenant
  int taken = 0;
  std::string refusal;
  for (int i = 0; i < 100 && refusal.empty(); ++i) {
    refusal = world.hand_in(large_job("job" + std::to_string(i), 100'000), "ana");
    if (refusal.empty()) ++taken;
  }
  CHECK(taken >= 2);
  CHECK(taken < 20);
  CHECK_THAT(refusal, Catch::Contains("of the coordinator's memory") &&
                          Catch::Contains("8.00 MiB that one tenant's may") && Catch::Contains("raise memory_budget"));
  CHECK(world.jobs.held_bytes("ana") <= 8 * kMiB);
  CHECK(world.hand_in(large_job("his", 100'000), "bob").empty());
  const auto again = world.jobs.submit(large_job("more", 100'000), true, "ana");
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().kind == ErrorKind::kNo);
  end(world.jobs, "job0");
  CHECK(world.hand_in(large_job("more", 100'000), "ana").empty());
}

TEST_CASE("all tenants together have a bound, too") {
  Accounts world(64 * static_cast<Bytes>(kMiB));
  std::string refusal;
  for (int i = 0; i < 60 && refusal.empty(); ++i) {
    const std::string tenant = "tenant" + std::to_string(i / 3);
    refusal = world.hand_in(large_job("job" + std::to_string(i), 100'000), tenant);
  }
  CHECK_THAT(refusal, Catch::Contains("all jobs hold") && Catch::Contains("16.0 MiB that they may"));
}

TEST_CASE("a job is charged for not less than it takes") {
  Accounts world(Bytes{16} << 30);
  REQUIRE(world.hand_in(large_job("first", 1000), "ana").empty());  // what the first one takes besides
  const std::uint64_t before = world.jobs.held_bytes();
  const test::PeakMemory memory;
  constexpr int kJobs = 8;
  for (int i = 0; i < kJobs; ++i) {
    Job job = large_job("job" + std::to_string(i), 500'000);
    REQUIRE(needed_bytes(job) >= held_bytes([&] {
              TuningState state;
              state.job = job;
              return state;
            }()));
    REQUIRE(world.hand_in(job, "ana").empty());
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // Beside what one job takes for a moment while it is taken.
  const auto held = static_cast<std::int64_t>(world.jobs.held_bytes() - before);
  CHECK(memory.growth_bytes() < held + held / kJobs * 4);
#endif
}

TEST_CASE("a job that is over leaves its documents to the database, and tells of them as before") {
  Accounts world(Bytes{2} << 30);
  Access everybody(false, nullptr);
  Api api(world.services, world.jobs, everybody, 100'000);
  REQUIRE(world.hand_in(large_job("big", 1'000'000), "ana").empty());
  JobRun& job = *world.jobs.find("big");
  CHECK(job.held_bytes() > 5 * kMiB);
  const auto ask = [&] { return json::parse(api.handle({"GET", "/v1/jobs/big", {}, ""}).body); };
  job.feed(Order::kStop);
  REQUIRE_FALSE(job.active());
  const json before = ask();
  CHECK_FALSE(job.is_shelved());
  world.jobs.tick();
  CHECK(job.is_shelved());
  CHECK(job.held_bytes() < kMiB);
  CHECK(ask() == before);
  CHECK(world.store.job(job.run())->state.job.software.size() > 1000);
  job.feed(Order::kResume);  // nothing that comes late is stored over it
  world.jobs.tick();
  CHECK(world.store.job(job.run())->state.job.software.size() > 1000);
  REQUIRE(world.hand_in(large_job("big", 1000), "ana").empty());
}

TEST_CASE("a coordinator starts whatever is stored: what has no room stays there, is named, and goes on later") {
  TemporaryDirectory place;
  {
    Accounts large(Bytes{2} << 30, place.path());
    for (int i = 0; i < 6; ++i) {
      REQUIRE(large.hand_in(large_job("job" + std::to_string(i), 300'000), "ana").empty());
    }
    REQUIRE(large.hand_in(large_job("over", 300'000), "ana").empty());
    end(large.jobs, "over");
  }
  Accounts small(64 * static_cast<Bytes>(kMiB), place.path());
  const KeptLog log;
  REQUIRE(small.jobs.restore().ok());
  CHECK(small.jobs.held_bytes("ana") <= 8 * kMiB);
  REQUIRE(!small.jobs.unloaded().empty());
  CHECK(small.jobs.jobs().size() + small.jobs.unloaded().size() == 7);
  CHECK(small.jobs.find("over")->is_shelved());
  CHECK_FALSE(small.jobs.knows_all());
  const std::string name = small.jobs.unloaded().begin()->first;
  CHECK_THAT(log.text(), Catch::Contains("job " + name + " stays stored"));
  // Its name is its own, and whoever asks is told.
  CHECK_THAT(small.hand_in(large_job(name, 1000), "ana"), Catch::Contains("is stored and goes on once there is room"));
  Access everybody(false, nullptr);
  Api api(small.services, small.jobs, everybody, 100'000);
  const net::HttpResponse asked = api.handle({"GET", "/v1/jobs/" + name, {}, ""});
  CHECK(asked.status == 503);
  CHECK_THAT(asked.body, Catch::Contains("raise memory_budget"));
  // Others end, and it goes on.
  for (int i = 0; i < 6; ++i) {
    if (JobRun* job = small.jobs.find("job" + std::to_string(i)); job != nullptr && job->active()) {
      job->feed(Order::kStop);
    }
    small.clock.advance(11s);
    small.jobs.tick();
  }
  CHECK(small.jobs.unloaded().empty());
  CHECK(small.jobs.knows_all());
  REQUIRE(small.jobs.find(name) != nullptr);
}

TEST_CASE("a tenant's orders and their bodies have a rate, and the audit log keeps little of what they say") {
  Accounts world(Bytes{2} << 30);
  Access everybody(false, nullptr);
  Api api(world.services, world.jobs, everybody, 100'000);
  const auto order = [&](std::size_t body) {
    net::HttpRequest request{"POST", "/v1/jobs/none/stop", {{"why", std::string(15'000, 'w')}}, std::string(body, ' ')};
    return api.handle(request);
  };
  REQUIRE(world.hand_in(large_job("none", 1000), "ana").empty());
  CHECK(order(0).status == 200);
  const auto entries = world.store.audit("none", 0, 10);
  REQUIRE(entries.ok());
  REQUIRE(!entries->empty());
  CHECK(entries->front().audit.why.size() == 1000);
  for (int i = 0; i < 4; ++i) CHECK(order(7 << 20).status != 429);
  CHECK_THAT(order(7 << 20).body, Catch::Contains("has sent 32.0 MiB with its orders, and may send 1.00 MiB a second"));
  CHECK(order(0).status != 429);
  world.clock.advance(10s);
  CHECK(order(7 << 20).status != 429);
  int taken = 0;
  while (taken < 2000 && order(0).status != 429) ++taken;
  CHECK(taken > 900);
  CHECK(taken < 1000);
  CHECK(api.handle({"GET", "/v1/jobs/none", {}, ""}).status == 200);  // who looks is not held up
}

TEST_CASE("a body of very many values is refused before it is read") {
  std::string body = R"({"job": {"name": "a", "train": [)";
  for (int i = 0; i < 600'000; ++i) body += "0,";
  const auto read = parse_submission(body + "0]}}");
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(read.error().message, Catch::Contains("at most 500000 are read"));
  CHECK(parse_submission(R"({"job": {"name": "a,[[[{{{", "train": ["\"[,,"]}})").error().message.find("values") ==
        std::string::npos);
}

TEST_CASE("a tenant whose jobs have taken the loop's time waits with what they do next, and others' jobs do not") {
  const bool several = GENERATE(true, false);
  const bool ordered = GENERATE(true, false);
  World world;
  world.services.loop_time.limit(several);
  world.hello("n0", 1);
  world.hello("n1", 2);
  const auto fail_to_describe = [&] {
    const auto last = std::ranges::find_if(world.told[1].rbegin(), world.told[1].rend(), &wire::ToAgent::has_command);
    wire::FromAgent done;
    done.mutable_command_done()->set_id(last->command().id());
    world.say(1, done);
  };
  world.sending_takes = std::chrono::milliseconds(300);
  const JobRun& hers = world.submit("hers", "ana");
  world.sending_takes = Nanoseconds(0);
  fail_to_describe();
  CHECK(hers.active() == several);
  const JobRun& his = world.submit("his", "bob");
  fail_to_describe();
  CHECK_FALSE(his.active());
  if (ordered) {  // what people order is done before they are answered
    CHECK(world.jobs.find("hers")->obey(Order::kFreeze, {"ana", "freeze", "hers", hers.run(), ""}).ok());
  } else {
    world.clock.advance(std::chrono::milliseconds(90));
    world.jobs.tick();
    CHECK(hers.active() == several);
    world.clock.advance(std::chrono::milliseconds(20));
    world.jobs.tick();
  }
  CHECK_FALSE(hers.active());
}
