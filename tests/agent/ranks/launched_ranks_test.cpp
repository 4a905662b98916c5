#include "ranks/launched_ranks.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "../run_loop.hpp"
#include "../temporary_directory.hpp"
#include "agent_database.hpp"
#include "processes/process_identity.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

// One agent's worth of it; several in turn share a directory.
struct Life {
  explicit Life(const TemporaryDirectory& where) : directory(where) {
    REQUIRE(Scratch(where.path(), "j", "").create().ok());
  }

  const TemporaryDirectory& directory;
  net::EventLoop loop;
  Random random{1};
  AgentDatabase state = open_agent_database(directory / "agent.db", random).value();
  std::vector<LedgerRank> ended;
  LaunchedRanks ranks{loop, RankLedger(state.database), directory.path(),
                      [this](const LedgerRank& rank) { ended.push_back(rank); }};

  [[nodiscard]] RankStart start_of(std::uint32_t rank, std::vector<std::string> arguments,
                                   std::uint64_t launch = 1) const {
    return {{"j", "", rank},
            launch,
            5,
            std::move(arguments),
            {{"PATH", "/usr/bin:/bin"}},
            "/",
            Scratch(directory.path(), "j", "").log(rank)};
  }
  [[nodiscard]] pid_t pid_of(std::uint32_t number) const {
    for (const auto& rank : ranks.all()) {
      if (rank.id.rank == number) return rank.pid;
    }
    return -1;
  }
  void end_all(Nanoseconds grace = 5s) {
    bool done = false;
    ranks.end_all(grace, [&] { done = true; });
    REQUIRE(run_until(loop, [&] { return done; }));
  }
};

}  // namespace

TEST_CASE("a rank's end is told with its code, and its output is in its log") {
  const TemporaryDirectory directory;
  Life life(directory);
  REQUIRE(life.ranks.start({life.start_of(0, {"ls", "/nonexistent-path"})}, false).ok());
  REQUIRE(run_until(life.loop, [&] { return life.ended.size() == 1; }));
  CHECK(life.ended[0].exit_code == 2);
  CHECK(life.ended[0].signal == 0);
  CHECK(read_file(life.ranks.scratch({"j", "", 0}).log(0)).value().find("nonexistent-path") != std::string::npos);
  CHECK(life.ranks.running() == 0);
}

TEST_CASE("ending ranks terminates them, waits until they are gone, then says so") {
  const TemporaryDirectory directory;
  Life life(directory);
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"}), life.start_of(1, {"sleep", "60"})}, false).ok());
  CHECK(life.ranks.running() == 2);
  bool done = false;
  life.ranks.end("j", "", 1, 5s, [&] { done = true; });
  CHECK_FALSE(done);
  REQUIRE(run_until(life.loop, [&] { return done; }));
  CHECK(life.ranks.running() == 0);
  REQUIRE(life.ended.size() == 2);
  CHECK(life.ended[0].signal == SIGTERM);
}

TEST_CASE("a rank that ignores the request to end is killed after the grace") {
  const TemporaryDirectory directory;
  Life life(directory);
  REQUIRE(life.ranks
              .start({life.start_of(0, {"python3", "-c",
                                        "import signal,time,sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                                        "print('ready', flush=True); time.sleep(60)"})},
                     false)
              .ok());
  const auto log = life.ranks.scratch({"j", "", 0}).log(0);
  REQUIRE(run_until(life.loop, [&] { return read_file(log).value() == "ready\n"; }));
  life.end_all(20ms);
  REQUIRE(life.ended.size() == 1);
  CHECK(life.ended[0].signal == SIGKILL);
}

TEST_CASE("who trains is asked to end, with those that started it, and its helpers live until it has ended") {
  // A shell that leads, a trainer, and a helper of the trainer that must be there while it saves. print() may be
  // interrupted.
  const std::string trainer =
      "import os,signal,subprocess,sys\n"
      "helper = subprocess.Popen(['sleep', '60'])\n"
      "def save(*_):\n"
      "    os.write(1, b'the helper lives' if helper.poll() is None else b'the helper is gone')\n"
      "    os._exit(0)\n"
      "signal.signal(signal.SIGTERM, save)\n"
      "print(os.getpid(), flush=True)\n"
      "signal.pause()\n";
  for (const bool introduced : {true, false}) {
    INFO(introduced);
    const TemporaryDirectory directory;
    Life life(directory);
    // The pause lets a signal to the whole group reach the helper first.
    const std::string shell = "trap 'sleep 0.2; wait' TERM; python3 -c \"$0\" & wait; wait";
    REQUIRE(life.ranks.start({life.start_of(0, {"sh", "-c", shell, trainer})}, false).ok());
    const auto log = life.ranks.scratch({"j", "", 0}).log(0);
    REQUIRE(run_until(life.loop, [&] { return read_file(log).value().find('\n') != std::string::npos; }));
    if (introduced) life.ranks.trains({"j", "", 0}, std::stoi(read_file(log).value()));
    life.end_all();
    if (introduced) {
      CHECK_THAT(read_file(log).value(), Catch::Contains("the helper lives"));
    } else {
      CHECK_THAT(read_file(log).value(), Catch::Contains("the helper"));
    }
    CHECK(life.ranks.running() == 0);
  }
}

TEST_CASE("ending what does not run is done at once") {
  const TemporaryDirectory directory;
  Life life(directory);
  bool done = false;
  life.ranks.end("other", "", 0, 5s, [&] { done = true; });
  CHECK(run_until(
      life.loop, [&] { return done; }, 2s));
}

TEST_CASE("a launch that is asked twice starts once, another is refused while it runs") {
  const TemporaryDirectory directory;
  Life life(directory);
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"})}, false).ok());
  const pid_t pid = life.pid_of(0);
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"})}, false).ok());
  CHECK(life.pid_of(0) == pid);
  const auto second = life.ranks.start({life.start_of(0, {"sleep", "60"}, 2)}, false);
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message.find("still runs") != std::string::npos);
  life.end_all();
}

TEST_CASE("where one rank cannot start, none runs") {
  const TemporaryDirectory directory;
  Life life(directory);
  const auto started =
      life.ranks.start({life.start_of(0, {"sleep", "60"}), life.start_of(1, {"no-such-program"})}, false);
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().message.find("no-such-program") != std::string::npos);
  CHECK(run_until(life.loop, [&] { return life.ranks.running() == 0; }));
}

TEST_CASE("a fresh launch has no snapshots of earlier ones, and keeps those of its own when asked twice") {
  const TemporaryDirectory directory;
  Life life(directory);
  const auto snapshots = life.ranks.scratch({"j", "", 0}).snapshots();
  std::filesystem::create_directories(snapshots + "/old");
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"})}, true).ok());
  CHECK_FALSE(std::filesystem::exists(snapshots));
  std::filesystem::create_directories(snapshots + "/new");
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"})}, true).ok());
  CHECK(std::filesystem::exists(snapshots + "/new"));
  life.end_all();
}

TEST_CASE("ranks run on when the agent is gone and are known to the next one") {
  const TemporaryDirectory directory;
  pid_t running = 0;
  {
    Life first(directory);
    REQUIRE(first.ranks.start({first.start_of(0, {"sleep", "60"}), first.start_of(1, {"true"})}, false).ok());
    running = first.pid_of(0);
    REQUIRE(run_until(first.loop, [&] { return first.ended.size() == 1; }));
  }
  Life second(directory);
  REQUIRE(second.ranks.adopt().ok());
  CHECK(second.ranks.running() == 1);
  CHECK(second.pid_of(0) == running);
  REQUIRE(second.ended.size() == 1);  // told again: the coordinator may not have heard it
  CHECK(second.ended[0].id.rank == 1);
  CHECK(second.ranks.find("j", 0, running).has_value());
  second.end_all();
  CHECK(second.ended.size() == 2);
}

TEST_CASE("a pid that another process has now is not taken for the rank") {
  const TemporaryDirectory directory;
  {
    Life first(directory);
    RankLedger ledger(first.state.database);
    const auto self = process_stat(::getpid());
    REQUIRE(ledger.put({{"j", "", 0}, 1, 5, ::getpid(), self->start_time + 1, false, false, 0, 0}).ok());
    REQUIRE(ledger.put({{"j", "", 1}, 1, 5, ::getpid(), self->start_time + 1, true, false, 0, 0}).ok());
  }
  Life second(directory);
  REQUIRE(second.ranks.adopt().ok());
  CHECK(second.ranks.running() == 0);
  REQUIRE(second.ended.size() == 2);
  CHECK(second.ended[0].exit_code == -1);
  CHECK(second.ended[1].exit_code == 0);  // it had said goodbye
}

TEST_CASE("only a process that was launched, or descends from one, is a rank") {
  const TemporaryDirectory directory;
  Life life(directory);
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"})}, false).ok());
  CHECK(life.ranks.find("j", 0, life.pid_of(0)).has_value());
  CHECK_FALSE(life.ranks.find("j", 0, ::getpid()).has_value());
  CHECK_FALSE(life.ranks.find("j", 1, life.pid_of(0)).has_value());
  CHECK_FALSE(life.ranks.find("other", 0, life.pid_of(0)).has_value());
  life.end_all();
}

TEST_CASE("tables of NCCL choices go with the last rank of their launch") {
  const TemporaryDirectory directory;
  Life life(directory);
  const Scratch scratch = life.ranks.scratch({"j", "", 0});
  REQUIRE(write_file(scratch.nccl_table(1), "one").ok());
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"}), life.start_of(1, {"true"})}, false).ok());
  REQUIRE(run_until(life.loop, [&] { return life.ended.size() == 1; }));
  CHECK(std::filesystem::exists(scratch.nccl_table(1)));  // rank 0 may still read it
  life.end_all();
  CHECK_FALSE(std::filesystem::exists(scratch.nccl_table(1)));
  // One whose ranks could not be started.
  REQUIRE(write_file(scratch.nccl_table(2), "two").ok());
  REQUIRE_FALSE(life.ranks.start({life.start_of(0, {"no-such-program"}, 2)}, false).ok());
  CHECK_FALSE(std::filesystem::exists(scratch.nccl_table(2)));
}

TEST_CASE("the next agent removes tables of launches that ended without it, of every job, and no other file") {
  const TemporaryDirectory directory;
  const Scratch job(directory.path(), "j", "");
  const Scratch untuned(directory.path(), "j", "untuned");
  {
    Life first(directory);
    REQUIRE(untuned.create().ok());
    REQUIRE(first.ranks.start({first.start_of(0, {"sleep", "60"}, 7)}, false).ok());
    for (const std::uint64_t launch : {6U, 7U}) REQUIRE(write_file(job.nccl_table(launch), "t").ok());
    REQUIRE(write_file(job.nccl_table(6) + ".new", "cut off").ok());
    REQUIRE(write_file(job.plan(6), "{}").ok());
    REQUIRE(write_file(untuned.nccl_table(7), "t").ok());
  }
  Life second(directory);
  REQUIRE(second.ranks.adopt().ok());
  CHECK(std::filesystem::exists(job.nccl_table(7)));
  CHECK(std::filesystem::exists(job.plan(6)));
  CHECK_FALSE(std::filesystem::exists(job.nccl_table(6)));
  CHECK_FALSE(std::filesystem::exists(job.nccl_table(6) + ".new"));
  CHECK_FALSE(std::filesystem::exists(untuned.nccl_table(7)));
  second.end_all();
  CHECK_FALSE(std::filesystem::exists(job.nccl_table(7)));
}

TEST_CASE("a rank that a scheduler starts is awaited, and is the process that comes for it") {
  const TemporaryDirectory directory;
  Life life(directory);
  RankStart start = life.start_of(4, {"sleep", "60"});
  start.awaits_slot = true;
  RankStart next = life.start_of(5, {"sleep", "61"});
  next.awaits_slot = true;
  REQUIRE(life.ranks.start({start, next}, false).ok());
  CHECK(life.ranks.running() == 2);
  CHECK(life.pid_of(4) == 0);
  CHECK_FALSE(life.ranks.refuse_running({life.start_of(4, {"sleep"}, 2)}).ok());

  const pid_t other = ::fork();
  if (other == 0) {
    ::setpgid(0, 0);
    ::execlp("sleep", "sleep", "60", nullptr);
    ::_exit(127);
  }
  // Of another launch, or a place that this node does not have: refused, and nothing has changed.
  CHECK_FALSE(life.ranks.take_slot({"j", "", 2, 1}, other).ok());
  CHECK_FALSE(life.ranks.take_slot({"j", "trial", 1, 1}, other).ok());
  CHECK_FALSE(life.ranks.take_slot({"j", "", 1, 2}, other).ok());
  const auto taken = life.ranks.take_slot({"j", "", 1, 1}, other);
  REQUIRE(taken.ok());
  CHECK(taken->id.rank == 5);
  CHECK(taken->arguments.back() == "61");
  CHECK(life.pid_of(5) == other);
  CHECK(life.ranks.find("j", 5, other));
  CHECK_FALSE(life.ranks.take_slot({"j", "", 1, 1}, other).ok());

  life.end_all();
  CHECK(life.ranks.running() == 0);
  REQUIRE(life.ended.size() == 1);
  CHECK(life.ended[0].id.rank == 5);
  CHECK_FALSE(life.ranks.take_slot({"j", "", 1, 0}, other).ok());
}

TEST_CASE("a process that cannot be written down is given no rank, and its place is awaited still") {
  const TemporaryDirectory directory;
  Life life(directory);
  RankStart start = life.start_of(0, {"sleep", "60"});
  start.awaits_slot = true;
  REQUIRE(life.ranks.start({start}, false).ok());
  auto& database = life.state.database;
  REQUIRE(database.execute("CREATE TRIGGER full BEFORE INSERT ON ranks BEGIN SELECT RAISE(FAIL, 'no room'); END").ok());
  CHECK_FALSE(life.ranks.take_slot({"j", "", 1, 0}, ::getpid()).ok());
  CHECK(life.pid_of(0) == 0);
  CHECK_FALSE(life.ranks.find("j", 0, ::getpid()));
  REQUIRE(database.execute("DROP TRIGGER full").ok());
  CHECK(life.ranks.take_slot({"j", "", 1, 0}, ::getpid()).ok());
  CHECK(life.pid_of(0) == ::getpid());
}

TEST_CASE("an agent that ends while ranks are awaited leaves none awaited, and says that they have ended") {
  const TemporaryDirectory directory;
  {
    Life first(directory);
    RankStart start = first.start_of(0, {"sleep", "60"});
    start.awaits_slot = true;
    REQUIRE(first.ranks.start({start}, false).ok());
  }
  Life second(directory);
  REQUIRE(second.ranks.adopt().ok());
  REQUIRE(second.ended.size() == 1);
  CHECK_FALSE(second.ranks.take_slot({"j", "", 1, 0}, ::getpid()).ok());
}

TEST_CASE("a launcher is watched as a rank is, and is none to anybody else") {
  const TemporaryDirectory directory;
  Life life(directory);
  RankStart launcher = life.start_of(kLauncher, {"sleep", "60"});
  REQUIRE(life.ranks.start({launcher}, false).ok());
  CHECK(life.ranks.all().empty());
  CHECK(life.ranks.find("j", kLauncher, ::getpid()) == std::nullopt);
  CHECK(life.ranks.scratch(launcher.id).log(kLauncher).ends_with("/launcher.log"));
  life.end_all();
  REQUIRE(life.ended.size() == 1);
  CHECK(describe(life.ended[0].id) == "j launcher");
}

TEST_CASE("a launcher that is ended at once is asked to, since it has a submission to take back") {
  const TemporaryDirectory directory;
  Life life(directory);
  const std::string taken_back = directory / "taken-back";
  const std::string ready = directory / "ready";
  auto launcher = life.start_of(
      kLauncher,
      {"sh", "-c", "trap 'touch " + taken_back + "; exit' TERM; touch " + ready + "; while :; do sleep 0.01; done"});
  REQUIRE(life.ranks.start({launcher}, false).ok());
  REQUIRE(run_until(life.loop, [&] { return std::filesystem::exists(ready); }));
  life.end_all(0ms);
  CHECK(std::filesystem::exists(taken_back));
}

TEST_CASE("another coordinator's first launch is none that has ended under the one before") {
  const TemporaryDirectory directory;
  Life life(directory);
  REQUIRE(life.ranks.start({life.start_of(0, {"true"}), life.start_of(1, {"sleep", "60"})}, false).ok());
  REQUIRE(run_until(life.loop, [&] { return life.ended.size() == 1; }));
  CHECK(life.ranks.has_started(life.start_of(0, {"sleep"})));
  life.ranks.forget_ended();
  CHECK_FALSE(life.ranks.has_started(life.start_of(0, {"sleep"})));
  CHECK(life.ranks.has_started(life.start_of(1, {"sleep"})));
  REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"})}, false).ok());
  CHECK(life.ranks.running() == 2);
  life.end_all();
}

TEST_CASE("a rank that the ledger does not know is found and taken, and nothing is launched beside it") {
  const TemporaryDirectory directory;
  pid_t pid = 0;
  {
    Life life(directory);
    REQUIRE(life.ranks.start({life.start_of(0, {"sleep", "60"})}, false).ok());
    pid = life.pid_of(0);
  }
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove((directory / "agent.db") + part);
  const TemporaryDirectory another;
  std::filesystem::copy(directory.path(), another.path(), std::filesystem::copy_options::recursive);
  {
    Life life(another);
    REQUIRE(life.ranks.adopt().ok());
    CHECK(life.ranks.running() == 0);  // of a copy they are another agent's
  }
  {
    Life life(directory);
    REQUIRE(life.ranks.adopt().ok());
    CHECK(life.ranks.running() == 1);
    CHECK(life.pid_of(0) == pid);
    RankStart next = life.start_of(0, {"sleep", "60"});
    next.launch = 2;
    const Status refused = life.ranks.start({next}, false);
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, Catch::Contains("of launch 1 still runs (pid " + std::to_string(pid)));
    REQUIRE(life.ranks.adopt().ok());  // by the ledger, now
    CHECK(life.ranks.running() == 1);
    life.end_all();
    CHECK(life.ended.size() == 1);
    CHECK(life.ranks.start({next}, false).ok());
    life.end_all();
  }
  Life life(directory);
  REQUIRE(life.ranks.adopt().ok());
  CHECK(life.ranks.running() == 0);
}
