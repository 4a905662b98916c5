#include "ranks/prepared_ranks.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "../run_loop.hpp"
#include "../temporary_directory.hpp"
#include "agent_database.hpp"
#include "host/process_facts.hpp"
#include "processes/process_identity.hpp"
#include "ranks/launched_ranks.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

const std::string kClient = CLIENT_FOLDER;
const RankIdentity kRank{"j", "", 0};

// Children of this process that the hook holds.
std::set<pid_t> held() {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    const auto stat = pid > 0 ? process_stat(pid) : std::nullopt;
    if (!stat || stat->parent != ::getpid() || stat->ended()) continue;
    const auto environment = read_file(entry.path() / "environ");
    if (environment.ok() && environment->find("TRIMTAB_HELD=") != std::string::npos) found.insert(pid);
  }
  return found;
}

// One rank of a Python program, which tells how it was started and then trains on.
struct Training {
  Training() {
    // What another test's agent held was killed with it, and may not have ended yet.
    REQUIRE(run_until(loop, [] { return held().empty(); }));
    REQUIRE(Scratch(directory.path(), "j", "").create().ok());
    std::ofstream(directory / "program.py") << "import asyncio\nimport os, sys, time\n"
                                               "print(os.getpid(), sys.argv[1:], os.environ.get('TRIMTAB_LAUNCH'), "
                                               "os.environ.get('KNOB'), flush=True)\ntime.sleep(600)\n";
  }
  ~Training() {
    bool done = false;
    ranks.end_all(0s, [&] { done = true; });
    CHECK(run_until(loop, [&] { return done; }));
  }

  [[nodiscard]] RankStart start_of(std::uint64_t launch, const std::string& knob = "1") const {
    Environment environment{{"PATH", "/usr/bin:/bin"},
                            {"PYTHONPATH", kClient + "/watch_hook"},
                            {"TRIMTAB_IMPORTS", Scratch(directory.path(), "j", "").imports(0)},
                            {"TRIMTAB_LAUNCH", std::to_string(launch)},
                            {"KNOB", knob}};
    return {kRank,
            launch,
            launch,
            {"env", "RANK=0", "python3", directory / "program.py", "--launch", std::to_string(launch)},
            environment,
            directory.path(),
            Scratch(directory.path(), "j", "").log(0)};
  }
  [[nodiscard]] std::string said() const { return read_file(Scratch(directory.path(), "j", "").log(0)).value(); }
  // Runs until its program has said so; gives the process.
  pid_t launch(const RankStart& start) {
    REQUIRE(ranks.start({start}, false).ok());
    REQUIRE(run_until(loop, [&] { return said().find('\n') != std::string::npos; }));
    const pid_t pid = ranks.all().front().pid;
    CHECK(said() ==
          fmt::format("{} ['--launch', '{}'] {} {}\n", pid, start.launch, start.launch, start.environment.at("KNOB")));
    ranks.trains(kRank, pid);
    return pid;
  }
  void end() {
    bool done = false;
    ranks.end("j", "", 9, 0s, [&] { done = true; });
    REQUIRE(run_until(loop, [&] { return done; }));
  }
  // Until so many processes wait for a launch.
  [[nodiscard]] bool prepares(std::size_t count) {
    return run_until(loop, [&] {
      ranks.prepare_next(now);
      return ranks.prepared().waiting() == count;
    });
  }
  std::set<pid_t> prepared() {
    REQUIRE(prepares(2));
    return held();
  }

  TemporaryDirectory directory;
  net::EventLoop loop;
  Random random{1};
  AgentDatabase state = open_agent_database(directory / "agent.db", random).value();
  Nanoseconds now{0};
  LaunchedRanks ranks{loop, RankLedger(state.database), directory.path(), [](const LedgerRank&) {}};
};

}  // namespace

TEST_CASE("the next launches of a rank that trains are prepared, and go on as those") {
  Training job;
  const pid_t first = job.launch(job.start_of(1));
  const std::set<pid_t> prepared = job.prepared();
  CHECK_FALSE(prepared.contains(first));
  const auto has_worked = [](pid_t pid) { return host::read_process_facts("/", pid).value().cpu_time > 0s; };
  REQUIRE(run_until(job.loop, [&] { return std::ranges::all_of(prepared, has_worked); }));
  job.end();
  CHECK(prepared.contains(job.launch(job.start_of(2))));
  CHECK(job.ranks.prepared().take_cost("j") > 0s);
  job.end();
  CHECK(prepared.contains(job.launch(job.start_of(3))));
  job.prepared();
}

TEST_CASE("a rank that does not train yet has nothing prepared") {
  Training job;
  REQUIRE(job.ranks.start({job.start_of(1)}, false).ok());
  for (int i = 0; i < 5; ++i) job.ranks.prepare_next(job.now);
  CHECK(held().empty());
}

TEST_CASE("a launch under another environment is bare, and both environments are prepared from then on") {
  Training job;
  job.launch(job.start_of(1));
  const std::set<pid_t> prepared = job.prepared();
  job.end();
  CHECK_FALSE(prepared.contains(job.launch(job.start_of(2, "2"))));
  REQUIRE(job.prepares(3));
  job.end();
  CHECK(prepared.contains(job.launch(job.start_of(3, "1"))));
}

TEST_CASE("where prepared processes were killed the launch is bare, and others are prepared") {
  Training job;
  job.launch(job.start_of(1));
  const std::set<pid_t> prepared = job.prepared();
  // They have ended, and nobody has asked how yet.
  const auto kill_them = [&] {
    for (const pid_t pid : prepared) {
      siginfo_t end{};
      REQUIRE(::kill(pid, SIGKILL) == 0);
      REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT) == 0);
    }
  };
  SECTION("and their end was noticed") {
    kill_them();
    REQUIRE(run_until(job.loop, [&] { return job.ranks.prepared().waiting() == 0; }));
    REQUIRE(job.prepares(2));
  }
  SECTION("or not") {
    job.end();
    kill_them();
    CHECK_FALSE(prepared.contains(job.launch(job.start_of(2))));
  }
}

TEST_CASE("no launch goes into a prepared process that somebody has stopped, and that is replaced") {
  Training job;
  job.launch(job.start_of(1));
  const std::set<pid_t> prepared = job.prepared();
  for (const pid_t pid : prepared) {
    siginfo_t change{};
    REQUIRE(::kill(pid, SIGSTOP) == 0);
    REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &change, WSTOPPED) == 0);
  }
  SECTION("it is launched bare") {
    job.end();
    CHECK_FALSE(prepared.contains(job.launch(job.start_of(2))));
  }
  SECTION("others are prepared") {
    job.ranks.prepare_next(job.now);
    REQUIRE(run_until(job.loop, [&] { return job.ranks.prepared().waiting() == 0; }));
    const std::set<pid_t> others = job.prepared();
    CHECK(std::ranges::none_of(prepared, [&](pid_t pid) { return others.contains(pid); }));
  }
}

TEST_CASE("what is prepared ends with its job, and after half an hour") {
  Training job;
  job.launch(job.start_of(1));
  job.prepared();
  SECTION("with its job") {
    bool done = false;
    job.ranks.end("j", "", 0, 0s, [&] { done = true; });
    REQUIRE(run_until(job.loop, [&] { return done; }));
  }
  SECTION("after half an hour") {
    job.now = 31min;
    job.ranks.prepare_next(job.now);
  }
  CHECK(run_until(job.loop, [&] { return held().empty(); }));
}

TEST_CASE("only restarted jobs whose PYTHONPATH names the client are asked for notes") {
  Job job;
  job.mode = JobMode::kAuto;
  job.delivery = Delivery::kRestart;
  job.allow_restarts = true;
  const auto asked = [&](std::string path) {
    Environment environment{{"PYTHONPATH", std::move(path)}};
    ask_for_notes(job, "/notes", environment);
    return environment;
  };
  CHECK(asked("/own:" + kClient) ==
        Environment{{"PYTHONPATH", kClient + "/watch_hook:/own:" + kClient}, {"TRIMTAB_IMPORTS", "/notes"}});
  const std::string with_hook = kClient + "/watch_hook:" + kClient;
  CHECK(asked(with_hook) == Environment{{"PYTHONPATH", with_hook}, {"TRIMTAB_IMPORTS", "/notes"}});
  CHECK(asked("/own::") == Environment{{"PYTHONPATH", "/own::"}});
  SECTION("a live one is not") {
    job.delivery = Delivery::kLive;
  }
  SECTION("nor one that may not be restarted") {
    job.allow_restarts = false;
  }
  SECTION("nor one that nobody tunes") {
    job.mode = JobMode::kObserve;
  }
  SECTION("nor one that has switched it off") {
    job.trials.prepare = false;
  }
  SECTION("nor one that a scheduler starts") {
    job.submit = {"sbatch"};
  }
  CHECK(asked(kClient) == Environment{{"PYTHONPATH", kClient}});
}
