// What an agent is sent for all jobs on its node never fills its queue, and what Linux does not start is no job.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "../agents_world.hpp"
#include "../daemon_client.hpp"
#include "../fake_agent.hpp"
#include "schema/settings/job_programs.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using nlohmann::json;

namespace {

constexpr int kJobs = 5;

// It is launched as soon as a node is there, and each launch has its whole document.
Job large_job(const std::string& name, std::size_t bytes) {
  Job job;
  job.name = name;
  job.steps = 10;
  job.share_devices = true;
  job.train = {"train"};
  job.working_directory = "/";
  job.software["padding"] = std::string(bytes, 'x');
  return job;
}

// A coordinator without a network, whose node has room or has none.
struct Narrow : World {
  bool room = true;

  Narrow() {
    services.has_room = [this](const std::string&, std::size_t) { return room; };
  }
  JobRun& hand_in(const Job& job) { return *jobs.submit(job, true, "*").value().job; }
  // By job: how often its launches were sent.
  std::map<std::string, int> launched() {
    std::map<std::string, int> times;
    for (const auto& [peer, messages] : told) {
      for (const wire::ToAgent& to : messages) {
        if (to.command().has_launch()) ++times[json::parse(to.command().launch().job_json()).at("name")];
      }
    }
    return times;
  }
};

std::string refusal(World& world, const Job& job) {
  const auto taken = world.jobs.submit(job, true, "*");
  return taken.ok() ? "" : taken.error().message;
}

}  // namespace

TEST_CASE("launches that exceed an agent's queue together are sent one after another, and its link stays") {
  TemporaryDirectory directory;
  SystemClock clock;
  net::EventLoop loop;
  Settings settings;
  settings.port = 0;
  settings.state_directory = directory.path();
  settings.peer_queue = settings.max_frame;
  spdlog::set_level(spdlog::level::off);
  const auto daemon = Daemon::start(loop, clock, settings).value();
  const net::HttpEndpoint endpoint{"127.0.0.1", daemon->port()};
  for (int i = 0; i < kJobs; ++i) {
    const json body{{"job", json::parse(to_json(large_job("j" + std::to_string(i), 3'000'000)))}, {"tune", true}};
    REQUIRE(reply_of(loop, endpoint, "POST", "/v1/jobs", body.dump()).value().status < 300);
  }
  FakeAgent agent(loop, daemon->port(), "n0", "of n0");
  agent.start();
  const auto launches = [&] { return std::ranges::count(agent.commands, std::string("launch ")); };
  REQUIRE(coordinator::run_until(loop, [&] { return launches() == kJobs; }));
  CHECK(agent.closes == 0);
  CHECK(agent.command_ids.size() == kJobs);
}

TEST_CASE("a command without room waits, and is sent once when there is some") {
  Narrow world;
  world.room = false;
  world.hello("n0", 1);
  world.hand_in(large_job("a", 10));
  world.hand_in(large_job("b", 10));
  for (int i = 0; i < 3; ++i) world.jobs.tick();
  REQUIRE(world.jobs.find("a")->state().doing == Doing::kLaunching);
  CHECK(world.launched().empty());
  world.room = true;
  for (int i = 0; i < 3; ++i) world.jobs.tick();
  CHECK(world.launched() == std::map<std::string, int>{{"a", 1}, {"b", 1}});
}

TEST_CASE("a node that comes again while commands wait for room is sent each once more, and no more") {
  Narrow world;
  world.room = false;
  world.hello("n0", 1);
  world.hand_in(large_job("a", 10));
  world.jobs.tick();
  world.agents.closed(1, "gone");
  world.hello("n0", 2);
  world.jobs.tick();
  world.room = true;
  for (int i = 0; i < 3; ++i) world.jobs.tick();
  CHECK(world.launched() == std::map<std::string, int>{{"a", 1}});
}

TEST_CASE("a job that is stopped while its launch waits for room is killed, and never launched") {
  Narrow world;
  world.room = false;
  world.hello("n0", 1);
  JobRun& job = world.hand_in(large_job("a", 10));
  world.jobs.tick();
  job.feed(Order::kStop);
  CHECK(std::ranges::any_of(world.told[1], [](const wire::ToAgent& to) { return to.command().has_kill(); }));
  world.room = true;
  for (int i = 0; i < 3; ++i) world.jobs.tick();
  CHECK(world.launched().empty());
}

TEST_CASE("a launch that no message holds is not sent: it fails, and the job says why") {
  Narrow world;
  world.services.settings.budgets.memory = Bytes{16} << 30;
  world.hello("n0", 1);
  JobRun& job = world.hand_in(large_job("a", 9'000'000));
  for (int i = 0; i < 100 && job.active(); ++i) {  // it is tried again, as launches are that fail
    world.clock.advance(std::chrono::seconds(10));
    world.jobs.tick();
  }
  CHECK(world.launched().empty());
  CHECK_FALSE(job.active());
  const auto events = world.store.events(job.run(), 0, 100).value();
  CHECK(std::ranges::any_of(events, [](const auto& event) {
    return event.note.text.find("a message has at most 8388608") != std::string::npos;
  }));
}

TEST_CASE("a job that Linux does not start is refused, and one that was stored before still loads") {
  World world;
  Job job = large_job("a", 10);
  job.train = {"train", std::string(6'800'000, 'x')};
  CHECK_THAT(refusal(world, job), Contains("job a: commands.train: argument 1 has 6800000 bytes") &&
                                      Contains("131071") && Contains("into a file"));
  CHECK(world.jobs.jobs().empty());
  TuningState state;
  state.tenant = "*";
  state.tune = true;
  state.job = job;
  REQUIRE(world.store.add_job(state, 1).ok());
  REQUIRE(world.jobs.restore().ok());
  REQUIRE(world.jobs.find("a") != nullptr);
  CHECK(world.jobs.find("a")->state().job.train == job.train);
}
