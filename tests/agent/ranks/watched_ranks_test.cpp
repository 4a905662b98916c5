// Ranks of jobs that their users launched: real processes, whose connections are played.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "../hand_made_ring.hpp"
#include "../run_loop.hpp"
#include "../temporary_directory.hpp"
#include "agent_database.hpp"
#include "coordinator_conversation.hpp"
#include "processes/process_identity.hpp"
#include "ranks/rank_sessions.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using nlohmann::json;

namespace {

// A user's process, with a data loader in the group that it leads.
class UsersProcess {
 public:
  UsersProcess() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const pid_t loader = ::fork();
      if (loader == 0) {
        while (true) ::pause();
      }
      if (::write(ends[1], &loader, sizeof loader) != sizeof loader) ::_exit(1);
      while (true) ::pause();
    }
    REQUIRE(::read(ends[0], &loader_, sizeof loader_) == sizeof loader_);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~UsersProcess() {
    ::kill(loader_, SIGKILL);
    end();
  }
  UsersProcess(const UsersProcess&) = delete;
  UsersProcess& operator=(const UsersProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] pid_t loader() const { return loader_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  // Gone, and nobody's zombie.
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  pid_t loader_ = 0;
};

bool lives(pid_t pid) {
  const auto stat = process_stat(pid);
  return stat && !stat->ended();
}

// One agent's worth of it; several in turn share a directory.
struct Life {
  explicit Life(const TemporaryDirectory& where) : directory(where) {
    sessions.serve(
        {[this](net::LocalPeerId peer, std::string_view frame) { heard[peer].push_back(json::parse(frame)); },
         [this](net::LocalPeerId peer) { closed.insert(peer); }});
    REQUIRE(ranks.adopt().ok());
  }

  const TemporaryDirectory& directory;
  net::EventLoop loop;
  SystemClock clock;
  Random random{1};
  AgentDatabase state = open_agent_database(directory / "agent.db", random).value();
  std::vector<wire::RankEvent> told;
  RankNews news{[this](const wire::FromAgent& message) {
    told.push_back(message.rank_event());
    return true;
  }};
  LaunchedRanks ranks{loop, RankLedger(state.database), directory.path(),
                      [this](const LedgerRank& rank) { tell_end(rank, "/nonexistent", news); }};
  JobContext jobs{directory.path(), Fingerprint{}};
  RankRings rings{clock, {}};
  RankSessions sessions{{ranks, news, rings, jobs,
                         [](const std::string& job) {
                           return CostOwner{job, "{}"};
                         },
                         "n0", clock}};
  std::map<net::LocalPeerId, std::vector<json>> heard;
  std::set<net::LocalPeerId> closed;

  void say(net::LocalPeerId peer, const json& frame, int descriptor = -1) {
    sessions.received(peer, frame.dump(), descriptor);
  }
  void hello(net::LocalPeerId peer, pid_t pid, int rank, int launch = 1) {
    sessions.opened(peer, pid);
    say(peer, {{"type", "hello"},
               {"version", 1},
               {"pid", 7},
               {"watched", true},
               {"job", "train"},
               {"rank", rank},
               {"world_size", 2},
               {"local_rank", rank},
               {"launch", launch},
               {"epoch", 0},
               {"step", 0}});
  }
  void ring(net::LocalPeerId peer, pid_t pid, int rank) {
    test::HandMadeRing made;
    sessions.opened(peer, pid);
    say(peer, {{"type", "ring"}, {"version", 1}, {"pid", 7}, {"job", "train"}, {"rank", rank}}, made.descriptor());
  }
  [[nodiscard]] std::set<net::LocalPeerId> rings_of_rank(std::uint32_t rank) const {
    std::set<net::LocalPeerId> peers;
    for (const auto& ring : rings.rings_of("train")) {
      if (ring.rank.rank == rank) peers.insert(ring.peer);
    }
    return peers;
  }
  void until(const std::function<bool()>& done) { REQUIRE(run_until(loop, done)); }
};

}  // namespace

TEST_CASE("a rank that its user launched is told of, and what it says, and its end") {
  const TemporaryDirectory directory;
  UsersProcess process;
  Life life(directory);
  life.hello(1, process.pid(), 1, 3);
  CHECK(life.heard[1].at(0)["type"] == "welcome");
  life.say(1, {{"type", "step"}, {"step", 1}, {"epoch", 0}, {"wall_ns", 9}, {"parts", {{"data_ns", 4}}}, {"count", 8}});
  life.say(1, {{"type", "facts"}, {"framework", "ddp"}});
  REQUIRE(life.told.size() == 3);
  CHECK(life.told[0].connected().watched_world_size() == 2);
  CHECK(life.told[0].connected().local_rank() == 1);
  CHECK(life.told[0].connected().pid() == process.pid());
  CHECK(life.told[0].launch() == 3);
  CHECK(life.told[1].step().parts().data_ns() == 4);
  CHECK(life.told[1].step().count() == 8);
  CHECK(life.told[2].facts().facts_json() == R"({"framework":"ddp"})");

  process.kill();
  life.until([&] { return life.told.back().has_exited(); });
  CHECK(life.told.back().rank() == 1);
  CHECK(life.told.back().exited().signal() == SIGKILL);
  CHECK(lives(process.loader()));  // what it leaves is its user's
}

TEST_CASE("nothing ends a watched rank: no kill, no end of the agent") {
  const TemporaryDirectory directory;
  UsersProcess process;
  Life life(directory);
  life.hello(1, process.pid(), 0);
  int done = 0;
  life.ranks.end("train", "", 0, Nanoseconds(0), [&] { ++done; });
  life.ranks.end_all(Nanoseconds(0), [&] { ++done; });
  life.until([&] { return done == 2; });
  CHECK(lives(process.pid()));
  CHECK(lives(process.loader()));
  CHECK(life.ranks.is_active("train"));
  RankStart start;
  start.id = {"train", "", 0};
  start.launch = 1;
  CHECK_FALSE(life.ranks.has_started(start));
  const Status refused = life.ranks.refuse_running({start});
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("was launched by its user"));
}

TEST_CASE("a second living process as the same rank is refused and counted, and may be it once the first has ended") {
  const TemporaryDirectory directory;
  UsersProcess first;
  UsersProcess second;
  Life life(directory);
  life.hello(1, first.pid(), 0);
  life.hello(2, second.pid(), 0);
  CHECK(life.heard[2].at(0)["type"] == "refused");
  CHECK(life.sessions.counters().refused_watched == 1);
  CHECK_FALSE(life.closed.contains(2));
  life.say(2, {{"type", "step"}, {"step", 1}, {"epoch", 0}, {"wall_ns", 9}});
  CHECK(life.told.size() == 1);  // what it says goes nowhere
  life.hello(3, first.loader(), 0);
  CHECK(life.heard[3].at(0)["type"] == "refused");  // a data loader is no rank
  life.hello(4, first.pid(), 0);                    // the same process once more
  CHECK(life.heard[4].at(0)["type"] == "welcome");

  first.end();
  life.told.clear();
  life.hello(5, second.pid(), 0, 2);
  REQUIRE(life.told.size() == 2);
  CHECK(life.told[0].has_exited());  // before anybody had noticed
  CHECK(life.told[0].launch() == 1);
  CHECK(life.told[1].connected().pid() == second.pid());
  CHECK(life.told[1].launch() == 2);
}

TEST_CASE("a process of another PID namespace is not watched") {
  const TemporaryDirectory directory;
  Life life(directory);
  life.hello(1, 0, 0);
  CHECK(life.heard[1].at(0)["type"] == "refused");
  CHECK_THAT(life.heard[1].at(0)["message"].get<std::string>(), Catch::Contains("PID namespace"));
}

TEST_CASE("a ring is its rank's by whose process it is, also where it came first") {
  const TemporaryDirectory directory;
  UsersProcess zero;
  UsersProcess one;
  Life life(directory);
  life.ring(1, zero.pid(), 0);
  life.ring(2, zero.loader(), 0);
  life.ring(3, ::getpid(), 0);  // a launcher's, which says the same
  life.ring(4, one.pid(), 0);   // its launcher has told it of no rank
  CHECK(life.rings.rings_of("train").empty());
  life.hello(5, zero.pid(), 0);
  CHECK(life.rings_of_rank(0) == std::set<net::LocalPeerId>{1, 2});
  life.hello(6, one.pid(), 1);
  CHECK(life.rings_of_rank(1) == std::set<net::LocalPeerId>{4});
  life.ring(7, one.loader(), 0);
  CHECK(life.rings_of_rank(1) == std::set<net::LocalPeerId>{4, 7});
  CHECK(life.rings_of_rank(0) == std::set<net::LocalPeerId>{1, 2});
}

TEST_CASE("an agent that is started anew knows watched ranks again, and how they ended as far as they said") {
  const TemporaryDirectory directory;
  UsersProcess lives_on;
  UsersProcess says_bye;
  UsersProcess crashes;
  {
    Life life(directory);
    life.hello(1, lives_on.pid(), 0);
    life.hello(2, says_bye.pid(), 1);
    life.say(2, {{"type", "bye"}, {"step", 5}});
  }
  says_bye.end();
  Life life(directory);
  REQUIRE(life.told.size() == 1);
  CHECK(life.told[0].rank() == 1);
  CHECK(life.told[0].exited().exit_code() == 0);
  CHECK(life.told[0].exited().last_output().empty());
  wire::Hello hello;
  say_ranks(life.ranks.all(), hello);
  REQUIRE(hello.running_size() == 1);
  CHECK(hello.running(0).watched());
  CHECK(hello.running(0).rank() == 0);
  CHECK(hello.launches_size() == 0);  // they are its user's, not the coordinator's
  life.hello(1, lives_on.pid(), 0);
  CHECK(life.told.back().connected().pid() == lives_on.pid());
  life.hello(3, crashes.pid(), 1);
  crashes.end();
  life.until([&] { return life.told.back().has_exited(); });
  CHECK(life.told.back().exited().exit_code() == -1);  // nobody saw how
}

TEST_CASE("what is kept of watched ranks that have ended is bounded") {
  const TemporaryDirectory directory;
  Life life(directory);
  RankLedger ledger(life.state.database);
  std::size_t most = 0;
  UsersProcess process;
  const auto stat = process_stat(process.pid());
  for (std::uint32_t i = 0; i < 200; ++i) {
    LedgerRank ended{{"job" + std::to_string(i), "", 0}, 1, 0, process.pid(), stat->start_time + 1};
    ended.watched_world_size = 1;
    ended.ended = true;
    REQUIRE(ledger.put(ended).ok());
  }
  net::EventLoop loop;
  LaunchedRanks ranks(loop, ledger, directory.path(), [&](const LedgerRank&) { ++most; });
  REQUIRE(ranks.adopt().ok());
  LedgerRank said;
  said.id = {"train", "", 0};
  said.launch = 1;
  said.watched_world_size = 1;
  REQUIRE(ranks.take_watched(said, process.pid()).ok());
  CHECK(ranks.all().size() == 1);
  CHECK(ledger.all().value().size() == 1);
}
