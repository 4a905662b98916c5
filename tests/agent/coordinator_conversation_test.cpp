// The agent's side of the conversation with the coordinator, over a link that the test plays.

#include "coordinator_conversation.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "commands/scratch.hpp"
#include "run_loop.hpp"
#include "schema/protocol_version.hpp"
#include "temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

class SetClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override { return now; }
  [[nodiscard]] Nanoseconds wall() const override { return now; }
  Nanoseconds now = std::chrono::hours(1);
};

// An agent's parts without ranks, and a link with room or without.
struct Rig {
  Rig() {
    configuration.node = "n0";
    auto opened = CostStore::open(state.database, directory / "costs.db", state.instance, Bytes{1} << 20,
                                  [this](const wire::FromAgent& message) { return conversation.send_costs(message); });
    costs.emplace(std::move(opened).value());
    conversation.opened();
  }

  void hear(const wire::ToAgent& message) { conversation.received(message.SerializeAsString()); }
  void welcome(std::uint32_t heartbeat_ms = 2000) {
    wire::ToAgent message;
    message.mutable_welcome()->set_protocol_version(kSpokenVersions.newest);
    message.mutable_welcome()->set_coordinator("c0");
    message.mutable_welcome()->set_heartbeat_ms(heartbeat_ms);
    hear(message);
  }
  // Of a launch that is not there: it is done at once.
  void ask_kill(std::uint64_t id) {
    wire::ToAgent message;
    message.mutable_command()->set_id(id);
    message.mutable_command()->mutable_kill()->set_job("j");
    hear(message);
  }
  void end_kills() {
    REQUIRE(run_until(loop, [this] { return commands.running() == 0; }));
  }
  [[nodiscard]] std::vector<std::uint64_t> answered() const {
    std::vector<std::uint64_t> ids;
    for (const wire::FromAgent& message : sent) {
      if (message.has_command_done()) ids.push_back(message.command_done().id());
    }
    return ids;
  }

  TemporaryDirectory directory;
  Configuration configuration;
  const std::string fingerprint = to_json(Fingerprint());
  SetClock clock;
  net::EventLoop loop;
  Random random{1};
  AgentDatabase state = open_agent_database(directory / "agent.db", random).value();
  std::optional<CostStore> costs;
  bool open = true;  // and with room
  std::vector<wire::FromAgent> sent;
  std::vector<std::string> drops;
  Nanoseconds period{0};
  const std::function<bool(const wire::FromAgent&)> send = [this](const wire::FromAgent& message) {
    return conversation.send(message);
  };
  RankNews news{send};
  LaunchedRanks ranks{loop, RankLedger(state.database), directory.path(), [](const LedgerRank&) {}};
  JobContext jobs{directory.path(), Fingerprint()};
  RankRings rings{clock, {}};
  RankSessions sessions{{ranks, news, rings, jobs,
                         [](const std::string& job) {
                           return CostOwner{job, "{}"};
                         },
                         "n0", clock}};
  TraceRecorder traces{{send, [](const std::string&) { return std::vector<TraceRecorder::Ring>(); },
                        [](net::LocalPeerId, std::uint64_t) {}, clock, "n0"}};
  CommandRunner commands{{loop,
                          ranks,
                          jobs,
                          {},
                          {directory / "agent.sock", "", "", "n0"},
                          directory.path(),
                          0,
                          Nanoseconds(0),
                          send,
                          [](const Job&, const std::vector<Cost>&) {},
                          [](const RankIdentity&) {},
                          [] { return false; }},
                         CommandLedger(state.database)};
  HardwareProbe probe{
      {loop, clock, "127.0.0.1", [](const std::string&) { return std::vector<NetworkRank>(); }, {}, send}};
  JobRetention retention{{directory.path(), Nanoseconds(0), {}, {}}, clock.monotonic(), clock.wall()};
  CoordinatorConversation conversation{
      {configuration, fingerprint, 0, clock, state, costs, news, ranks, commands, sessions, traces, probe, retention,
       [] { return false; }, [] { return std::uint64_t{2}; }},
      {[this](const std::string& frame) {
         if (!open) return false;
         REQUIRE(sent.emplace_back().ParseFromString(frame));
         return true;
       },
       [] { return std::size_t{0}; },
       [this](const std::string& reason) {
         drops.push_back(reason);
         conversation.closed(reason);
       },
       [this](Nanoseconds asked) { period = asked; }}};
};

}  // namespace

TEST_CASE("nothing but a hello is said before the coordinator's welcome") {
  Rig rig;
  rig.ask_kill(1);
  rig.end_kills();
  rig.conversation.look_after();
  REQUIRE(rig.sent.size() == 1);
  CHECK(rig.sent[0].hello().node() == "n0");
  CHECK(rig.sent[0].hello().instance() == rig.state.instance);
  CHECK_FALSE(rig.conversation.connected());
  rig.welcome();
  CHECK(rig.conversation.connected());
  CHECK(rig.answered() == std::vector<std::uint64_t>{1});
}

TEST_CASE("a reply that found the link's queue full goes out when there is room, in the same conversation") {
  Rig rig;
  rig.welcome();
  rig.open = false;
  rig.ask_kill(1);
  rig.end_kills();
  rig.conversation.look_after();
  CHECK(rig.answered().empty());
  rig.open = true;
  rig.conversation.look_after();
  CHECK(rig.answered() == std::vector<std::uint64_t>{1});
  rig.conversation.look_after();
  CHECK(rig.answered().size() == 1);
}

TEST_CASE("heartbeats come as often as the coordinator asks, within bounds, until the connection ends") {
  Rig rig;
  rig.welcome(3000);
  CHECK(rig.period == std::chrono::seconds(3));
  CHECK(rig.sent.back().has_heartbeat());
  rig.welcome(1);
  CHECK(rig.period == std::chrono::milliseconds(50));
  rig.conversation.closed("gone");
  CHECK(rig.period == Nanoseconds(0));
  const std::size_t said = rig.sent.size();
  rig.conversation.beat();
  CHECK(rig.sent.size() == said);
}

TEST_CASE("a refusal, and what is no message, end the connection with a reason") {
  Rig rig;
  rig.welcome();
  rig.conversation.received("\xff\xff\xff");
  REQUIRE(rig.drops.size() == 1);
  CHECK(rig.conversation.counters().frames_malformed == 1);
  CHECK_FALSE(rig.conversation.connected());
  wire::ToAgent refusal;
  refusal.mutable_refused()->set_reason("another node n0 is here");
  rig.hear(refusal);
  REQUIRE(rig.drops.size() == 2);
  CHECK(rig.drops[1].find("another node n0") != std::string::npos);
}

TEST_CASE("an agent that stops begins nothing new") {
  Rig rig;
  rig.welcome();
  rig.conversation.stop();
  rig.ask_kill(1);
  wire::ToAgent trace;
  trace.mutable_trace_start()->set_id(1);
  rig.hear(trace);
  wire::ToAgent probe;
  probe.mutable_probe_begin()->set_id(1);
  rig.hear(probe);
  CHECK(rig.commands.running() == 0);
  CHECK(rig.traces.running() == 0);
  CHECK(rig.answered().empty());
  CHECK(rig.sent.back().has_heartbeat());  // and no refusal of the probe
}

TEST_CASE("a hello names every job that has files here, so that they are kept whoever the node serves by then") {
  Rig rig;
  rig.configuration.state = rig.directory.path();
  const auto named = [&] {
    rig.conversation.opened();
    std::map<std::string, std::uint64_t> launches;
    for (const wire::JobLaunch& one : rig.sent.back().hello().launches()) {
      CHECK(launches.emplace(one.job(), one.launch()).second);
    }
    return launches;
  };
  CHECK(named().empty());
  for (const auto& [job, variant] : {std::pair("described", ""), std::pair("tried", ""), std::pair("tried", "trial")}) {
    REQUIRE(Scratch(rig.directory.path(), job, variant).create().ok());
  }
  CHECK(named() == std::map<std::string, std::uint64_t>{{"described", 0}, {"tried", 0}});
  wire::FromAgent hello;
  hello.mutable_hello()->add_launches()->set_job("launched");
  hello.mutable_hello()->mutable_launches(0)->set_launch(7);
  std::set<std::string> many{"launched"};
  for (int i = 0; i < 5000; ++i) many.insert("job" + std::to_string(i));
  say_kept(many, *hello.mutable_hello());
  CHECK(hello.hello().launches_size() == 4096);
  CHECK(hello.hello().launches(0).launch() == 7);
}

TEST_CASE("a job's end that the coordinator has had and says is over is not announced again") {
  Rig rig;
  for (const char* job : {"over", "unfinished"}) {
    wire::RankEvent ended;
    ended.mutable_exited()->set_exit_code(0);
    rig.news.tell({job, "", 0}, 1, std::move(ended));
  }
  const auto announced = [&] {
    rig.sent.clear();
    rig.welcome();
    std::vector<std::string> jobs;
    for (const wire::FromAgent& message : rig.sent) {
      if (message.has_rank_event()) jobs.push_back(message.rank_event().job());
    }
    return jobs;
  };
  const auto told = [&](bool complete) {
    wire::ToAgent message;
    message.mutable_unfinished_jobs()->set_complete(complete);
    if (complete) message.mutable_unfinished_jobs()->add_jobs("unfinished");
    rig.hear(message);
  };
  using Jobs = std::vector<std::string>;
  CHECK(announced() == Jobs{"over", "unfinished"});
  told(false);
  CHECK(announced() == Jobs{"over", "unfinished"});
  told(true);
  CHECK(announced() == Jobs{"unfinished"});
}
