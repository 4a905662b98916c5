// What a site lets jobs ask for: the file, what is refused at the edge, and what becomes of a job that runs when the
// site allows less.

#include "coordinator/site_policy.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../../net/loopback.hpp"
#include "../fake_agent.hpp"
#include "../kept_log.hpp"
#include "coordinator/daemon.hpp"
#include "net/http_client.hpp"
#include "schema/database.hpp"
#include "state_store.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using nlohmann::json;

namespace {

Job job_of(JobMode mode = JobMode::kAuto) {
  Job job;
  job.name = "gpt";
  job.mode = mode;
  job.world_size = 2;
  job.steps = 1'000'000;
  job.working_directory = "/";
  job.describe = {"describe"};
  job.benchmark = {"benchmark"};
  job.train = {"train"};
  return job;
}

SitePolicy policy(const std::string& toml) {
  const auto site = parse_site_policy(toml, "site.toml");
  INFO((site.ok() ? "" : site.error().message));
  REQUIRE(site.ok());
  return *site;
}

std::string refusal(const std::string& toml) {
  const auto site = parse_site_policy(toml, "site.toml");
  return site.ok() ? "" : site.error().message;
}

struct Site {
  net::TemporaryDirectory directory;
  KeptLog log;
  SystemClock clock;
  net::EventLoop loop;
  std::unique_ptr<Daemon> daemon;

  explicit Site(const std::string& toml) {
    write(toml);
    Settings settings;
    settings.port = 0;
    settings.state_directory = directory / "state";
    settings.site_policy = directory / "site.toml";
    daemon = Daemon::start(loop, clock, settings).value();
  }
  void write(const std::string& toml) const { std::ofstream(directory / "site.toml") << toml; }
  void change(const std::string& toml) {
    write(toml);
    daemon->reload();
  }
  net::HttpReply ask(const std::string& method, const std::string& target, const std::string& body = "") {
    Result<net::HttpReply> reply = unavailable("not asked");
    net::while_loop_runs(loop, [&] {
      reply = net::http_request({"127.0.0.1", daemon->port()}, method, target, body, std::chrono::seconds(10));
    });
    REQUIRE(reply.ok());
    return *reply;
  }
  net::HttpReply submit(const Job& job) {
    return ask("POST", "/v1/jobs", json{{"job", json::parse(to_json(job))}, {"tune", true}}.dump());
  }
  json job() { return json::parse(ask("GET", "/v1/jobs/gpt").body); }
};

}  // namespace

TEST_CASE("a job that asks for more than the site allows is told what it asks for, what is allowed and by which file") {
  const Job job = job_of();
  CHECK(objection(SitePolicy(), job, true).empty());
  CHECK(objection(policy(""), job, true).empty());
  CHECK(objection(policy("enabled = false"), job, true) ==
        "the site's policy (site.toml) has switched everything off (enabled = false)");
  CHECK(objection(policy(R"(modes = ["observe", "recommend"])"), job, true) ==
        "the site's policy (site.toml) allows the modes observe, recommend, and job gpt asks for mode auto");
  CHECK(objection(policy("max_ranks = 1"), job, true) ==
        "the site's policy (site.toml) allows 1 ranks (max_ranks), and job gpt asks for 2");
  CHECK(objection(policy("max_overhead = 0.01"), job, true) ==
        "the site's policy (site.toml) allows trials an overhead of 0.01 (max_overhead), and job gpt asks for 0.02 "
        "(trials.overhead)");
  CHECK_THAT(objection(policy("max_trials = 3"), job, true), Contains("allows 3 trials (max_trials)"));
  CHECK_THAT(objection(policy(R"(frozen_knobs = ["tensor_parallel", "microbatch"])"), job, true),
             Contains("job gpt has microbatch: set them false in [knobs] of job.toml"));
  Job own = job;
  own.own_knobs.emplace_back();
  CHECK_THAT(objection(policy(R"(frozen_knobs = ["own_knobs"])"), own, true), Contains("no job have knobs of its own"));
  CHECK(objection(policy(R"(frozen_knobs = ["own_knobs"])"), job, true).empty());
  CHECK_THAT(objection_to_nodes(policy("max_nodes = 2"), job, 3), Contains("allows a job 2 nodes (max_nodes)"));
  CHECK(objection_to_nodes(policy("max_nodes = 2"), job, 2).empty());
}

TEST_CASE("what tries no plan is held to no limit of trials") {
  const SitePolicy site = policy("max_overhead = 0\nmax_trials = 1\nfrozen_knobs = [\"microbatch\"]");
  CHECK(objection(site, job_of(JobMode::kObserve), true).empty());
  CHECK(objection(site, job_of(), false).empty());  // only profiled
  CHECK_FALSE(objection(policy("enabled = false"), job_of(JobMode::kObserve), false).empty());
}

TEST_CASE("a policy that says what cannot be is refused with its line") {
  CHECK_THAT(refusal("max_node = 2"), Contains("site.toml:1") && Contains("max_nodes"));
  CHECK_THAT(refusal("\nmodes = [\"autos\"]"), Contains("site.toml:2") && Contains("approve, auto"));
  CHECK_THAT(refusal("frozen_knobs = [\"micro\"]"), Contains("microbatch") && Contains("own_knobs"));
  CHECK_THAT(refusal("max_overhead = 2"), Contains("max_overhead"));
  CHECK_FALSE(refusal("enabled = true\nenabled = false").empty());
  CHECK_FALSE(refusal("modes = \"auto\"").empty());
  CHECK(describe(policy("modes = [\"observe\"]\nmax_nodes = 4")) == "modes observe; at most 4 nodes");
}

TEST_CASE("a refusal that the audit log does not take is no answer: whoever asked is to ask again") {
  Site site("modes = [\"observe\"]");
  auto state = Database::open(site.directory / "state/coordinator.db", DatabaseMode::kReadWrite, state_migrations());
  REQUIRE(state.ok());
  REQUIRE(state
              ->execute("CREATE TRIGGER full BEFORE INSERT ON audit WHEN NEW.what LIKE 'refuse%' "
                        "BEGIN SELECT RAISE(FAIL, 'no room'); END")
              .ok());
  CHECK(site.submit(job_of()).status == 503);
  REQUIRE(state->execute("DROP TRIGGER full").ok());
  CHECK(site.submit(job_of()).status == 409);
}

TEST_CASE("a coordinator refuses what its site does not allow, and a file that everybody may write") {
  Site site("modes = [\"observe\"]");
  const auto refused = site.submit(job_of());
  CHECK(refused.status == 409);
  CHECK_THAT(refused.body, Contains("allows the modes observe, and job gpt asks for mode auto"));
  CHECK_THAT(site.ask("GET", "/v1/audit").body, Contains("refuse to take the job"));
  CHECK(site.submit(job_of(JobMode::kObserve)).status == 201);
  site.write("");
  std::filesystem::permissions(site.directory / "site.toml", std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  site.daemon->reload();
  CHECK_THAT(site.log.text(), Contains("the site's policy stays as it was: ") && Contains("everybody may write it"));
  Job other = job_of();
  other.name = "other";
  CHECK(site.submit(other).status == 409);
}

TEST_CASE("a policy that is empty for a moment, as an editor leaves it, stays in force; a comment lifts it") {
  Site site("enabled = false");
  for (const char* empty : {"", " \n"}) {
    site.change(empty);
    CHECK(site.submit(job_of()).status == 409);
  }
  CHECK(site.log.text().find("site.toml is empty") != std::string::npos);
  site.change("# nothing is limited\n");
  CHECK(site.submit(job_of()).status == 201);
}

TEST_CASE("a job that runs is held on its plan when the site allows less, and let go when it allows it again") {
  Site site("");
  FakeAgent agent(site.loop, site.daemon->port(), "n0", "i0");
  agent.start();
  REQUIRE(coordinator::run_until(site.loop, [&] { return agent.welcomes == 1; }));
  Job trains = job_of(JobMode::kObserve);  // without a plan: its ranks are launched at once
  trains.describe.clear();
  trains.benchmark.clear();
  REQUIRE(site.submit(trains).status == 201);
  REQUIRE(coordinator::run_until(site.loop, [&] { return !agent.commands.empty(); }));
  site.change("enabled = false");
  // Jobs are judged at their ticks, of which there are five a second.
  const auto becomes = [&](const std::string& wanted) {
    std::string held;
    for (int looks = 0; looks < 50; ++looks) {
      held = site.job()["held_by"];
      if (held == wanted) break;
      const Nanoseconds until = site.clock.monotonic() + std::chrono::milliseconds(50);
      (void)coordinator::run_until(site.loop, [&] { return site.clock.monotonic() > until; });
    }
    CHECK(held == wanted);
  };
  becomes("the site's policy (" + (site.directory / "site.toml") + ") has switched everything off (enabled = false)");
  CHECK_THAT(site.log.text(), Contains("the site's policy: everything is switched off"));
  CHECK(site.job()["active"] == true);  // its ranks go on
  CHECK(std::ranges::find(agent.commands, "kill") == agent.commands.end());
  site.change("max_ranks = 2");
  becomes("");
}
