#include "ranks/rank_sessions.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "../../coordinator/kept_log.hpp"
#include "../run_loop.hpp"
#include "../temporary_directory.hpp"
#include "agent_database.hpp"
#include "commands/scratch.hpp"
#include "processes/process_identity.hpp"
#include "schema/record.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using nlohmann::json;

namespace {

// A process at the agent's socket: non-blocking, so that it lives on the test's thread beside the loop.
class Client {
 public:
  explicit Client(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    REQUIRE(::connect(descriptor_, static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof address) ==
            0);
    ::fcntl(descriptor_, F_SETFL, O_NONBLOCK);
  }
  ~Client() { ::close(descriptor_); }
  void hang_up() const { ::shutdown(descriptor_, SHUT_RDWR); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(const json& message, int passed = -1) {
    const std::string body = message.dump();
    const auto length = static_cast<std::uint32_t>(body.size());
    std::string frame(4, '\0');
    std::memcpy(frame.data(), &length, 4);
    frame += body;
    iovec part{frame.data(), frame.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (passed >= 0) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(rights), &passed, sizeof passed);
    }
    REQUIRE(::sendmsg(descriptor_, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(frame.size()));
  }

  // What has come so far; `closed` is set at the end.
  const std::vector<json>& heard() {
    std::array<char, 4096> bytes{};
    ssize_t count = 0;
    while ((count = ::recv(descriptor_, bytes.data(), bytes.size(), 0)) > 0)
      pending_.append(bytes.data(), static_cast<std::size_t>(count));
    closed_ = closed_ || count == 0;
    std::uint32_t length = 0;
    while (pending_.size() >= 4 && (std::memcpy(&length, pending_.data(), 4), pending_.size() >= 4 + length)) {
      heard_.push_back(json::parse(pending_.substr(4, length)));
      pending_.erase(0, 4 + length);
    }
    return heard_;
  }
  bool closed() { return heard(), closed_; }

 private:
  int descriptor_;
  std::string pending_;
  std::vector<json> heard_;
  bool closed_ = false;
};

// A ring with some ranges of one name in it.
int make_ring(const std::string& name, std::uint64_t count) {
  constexpr std::uint32_t kNames = 16;
  constexpr std::uint32_t kSlots = 64;
  constexpr std::size_t kBytes =
      sizeof(record::RingHeader) + kNames * sizeof(record::NameEntry) + kSlots * sizeof(record::RecordSlot);
  const int descriptor = ::memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(descriptor, kBytes) == 0);
  auto* memory = static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  auto* header = new (memory) record::RingHeader{};
  auto* names = reinterpret_cast<record::NameEntry*>(memory + sizeof(record::RingHeader));
  auto* slots =
      reinterpret_cast<record::RecordSlot*>(memory + sizeof(record::RingHeader) + kNames * sizeof(record::NameEntry));
  header->magic = record::kMagic;
  header->version = record::kVersion;
  header->header_bytes = sizeof(record::RingHeader);
  header->name_capacity = kNames;
  header->slot_capacity = kSlots;
  for (const auto& [index, text] : {std::pair<int, std::string>{1, name}, {2, "trimtab"}}) {
    names[index].length = static_cast<std::uint16_t>(text.size());
    std::memcpy(names[index].text, text.data(), text.size());
    names[index].state.store(2);
  }
  for (std::uint64_t i = 0; i < kSlots; ++i) {
    slots[i].begin_ns = 1000;
    slots[i].end_ns = 1500;
    slots[i].payload = 2;
    slots[i].name = 1;
    slots[i].domain = 2;
    slots[i].kind = record::kRange;
    slots[i].flags = record::kPayloadValid;
    slots[i].sequence.store(i < count ? i + 1 : i);
  }
  header->head.store(count);
  ::munmap(memory, kBytes);
  return descriptor;
}

const char* const kModel = R"({"schema":"trimtab.model/1","name":"m","global_batch":4,"dtype":"float32","operators":[
  {"name":"block0","kind":"block","layer":0,"cost_key":"block-h8","cut_before":true,"parameter_bytes":8,"activation_bytes":8,
   "output_bytes":8,"forward_flops":8}]})";
const char* const kPlan = R"({"schema":"trimtab.plan/1","model":"m","global_batch":4,"microbatch":2,
  "stages":[{"devices":[0],"segments":[{"operators":[0,1]}]}]})";

struct Fixture {
  TemporaryDirectory directory;
  net::EventLoop loop;
  SystemClock clock;
  ManualClock monotonic;
  Random random{1};
  AgentDatabase state = open_agent_database(directory / "agent.db", random).value();
  std::vector<wire::RankEvent> news_sent;
  RankNews news{[this](const wire::FromAgent& message) {
    news_sent.push_back(message.rank_event());
    return true;
  }};
  LaunchedRanks ranks{loop, RankLedger(state.database), directory.path(), [](const LedgerRank&) {}};
  JobContext jobs{directory.path(), Fingerprint{}};
  RankRings rings{clock, {}};
  RankSessions sessions{{ranks, news, rings, jobs,
                         [](const std::string& job) {
                           return CostOwner{job, "{}"};
                         },
                         "n0", monotonic}};

  // This very process is rank 0 of job j, launched by an earlier agent.
  Fixture() {
    RankLedger ledger(state.database);
    const auto self = process_stat(::getpid());
    REQUIRE(ledger.put({{"j", "", 0}, 7, 3, ::getpid(), self->start_time, false, false, 0, 0}).ok());
    REQUIRE(ranks.adopt().ok());
    REQUIRE(ranks.running() == 1);
    REQUIRE(ranks.scratch({"j", "", 0}).create().ok());
    REQUIRE(write_file(ranks.scratch({"j", "", 0}).plan(3), kPlan).ok());
    REQUIRE(jobs.remember_model("j", kModel).ok());
    REQUIRE(sessions.listen(loop, directory / "agent.sock").ok());
  }
  [[nodiscard]] Client client() const { return Client(directory / "agent.sock"); }
  static json hello(const std::string& job, int rank, int epoch = 3) {
    return {{"type", "hello"}, {"version", 1}, {"pid", 1}, {"job", job}, {"rank", rank}, {"epoch", epoch}, {"step", 5}};
  }
  static json step(int number) { return {{"type", "step"}, {"step", number}, {"epoch", 3}, {"wall_ns", 9}}; }
  void until(const std::function<bool()>& done) { REQUIRE(run_until(loop, done)); }
  std::vector<Cost> folded(const std::string& job) {
    rings.drain();
    CostCollection collected;
    rings.take(collected);
    std::vector<Cost> all;
    collected.flush([&](const CostOrigin& origin, const std::vector<Cost>& costs) {
      CHECK(origin.owner.job == job);
      all.insert(all.end(), costs.begin(), costs.end());
      return true;
    });
    return all;
  }
};

}  // namespace

TEST_CASE("a launched rank is welcomed and what it says is told on under its launch") {
  Fixture fixture;
  auto client = fixture.client();
  client.say(Fixture::hello("j", 0));
  json step = Fixture::step(6);
  step["preparations"] = 2;
  client.say(step);
  fixture.until([&] { return fixture.news_sent.size() == 2 && !client.heard().empty(); });
  CHECK(client.heard()[0] == json{{"type", "welcome"}, {"version", 1}, {"node", "n0"}});
  CHECK(fixture.news_sent[0].connected().step() == 5);
  CHECK(fixture.news_sent[1].launch() == 7);
  CHECK(fixture.news_sent[1].step().step() == 6);
  CHECK(fixture.news_sent[1].step().preparations() == 2);
  CHECK(fixture.sessions.connected() == 1);
}

TEST_CASE("a process that this agent did not launch is welcomed and not listened to") {
  Fixture fixture;
  auto client = fixture.client();
  client.say(Fixture::hello("somebody-elses", 0));
  client.say(Fixture::step(6));
  fixture.until([&] { return fixture.sessions.counters().frames == 2 && !client.heard().empty(); });
  CHECK(fixture.news_sent.empty());
  CHECK(fixture.sessions.counters().unknown_processes == 1);
  CHECK_FALSE(client.closed());
}

TEST_CASE("whoever breaks the protocol is closed, the others stay") {
  Fixture fixture;
  auto good = fixture.client();
  good.say(Fixture::hello("j", 0));
  const std::vector<std::vector<json>> wrong{
      {Fixture::step(1)},
      {json::array()},
      {Fixture::hello("j", 0), Fixture::hello("j", 0)},
      {Fixture::hello("j", -7)},
      {{{"type", "ring"}, {"version", 1}, {"pid", 1}, {"job", "j"}, {"rank", 0}}}};
  for (const auto& frames : wrong) {
    auto client = fixture.client();
    for (const auto& frame : frames) client.say(frame);
    INFO(frames.back().dump());
    fixture.until([&] { return client.closed(); });
  }
  CHECK(fixture.sessions.counters().refused_frames == wrong.size());
  CHECK_FALSE(good.closed());
}

TEST_CASE("who is disconnected again and again gets ten lines in ten seconds, for as long as it goes on") {
  Fixture fixture;
  const coordinator::KeptLog log;
  const auto break_the_protocol = [&](int times) {
    for (int i = 0; i < times; ++i) {
      auto client = fixture.client();
      client.say(Fixture::step(1));
      fixture.until([&] { return client.closed(); });
    }
    const std::string text = log.text();
    int lines = 0;
    for (auto at = text.find("is disconnected: "); at != std::string::npos;
         at = text.find("is disconnected: ", at + 1)) {
      ++lines;
    }
    return lines;
  };
  CHECK(break_the_protocol(25) == 10);
  for (int period = 1; period <= 3; ++period) {
    fixture.monotonic.advance(LogPace::kPeriod);
    CHECK(break_the_protocol(12) == 10 * (period + 1));
  }
  CHECK_THAT(log.text(), Catch::Contains("15 more processes were refused or disconnected since"));
  CHECK(fixture.sessions.counters().refused_frames == 61);
}

TEST_CASE("processes that were not launched here, or are given no rank, get ten lines each in ten seconds") {
  Fixture fixture;
  const coordinator::KeptLog log;
  const json slot{{"type", "slot"}, {"version", 1}, {"pid", 1}, {"job", "none"}, {"launch", 1}, {"local_rank", 0}};
  for (const json& first : {Fixture::hello("somebody-elses", 0), slot}) {
    for (int i = 0; i < 25; ++i) {
      auto client = fixture.client();
      client.say(first);
      fixture.until([&] { return !client.heard().empty(); });
    }
  }
  const auto lines = [&](const std::string& words) {
    const std::string text = log.text();
    int count = 0;
    for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
    return count;
  };
  CHECK(lines("it is not steered") == 10);
  CHECK(lines("is given no rank") == 10);
  fixture.monotonic.advance(LogPace::kPeriod);
  auto client = fixture.client();
  client.say(Fixture::hello("somebody-elses", 0));
  fixture.until([&] { return !client.heard().empty(); });
  CHECK(lines("15 more processes that this agent did not launch came since") == 1);
  CHECK(fixture.sessions.counters().unknown_processes == 26);
}

TEST_CASE("a job's ranks report under 32 names, however often they connect") {
  Fixture fixture;
  const auto report = [&](const std::string& prefix, std::uint64_t left_out) {
    auto client = fixture.client();
    client.say(Fixture::hello("j", 0));
    for (int i = 0; i < 40; ++i) client.say({{"type", "report"}, {"name", prefix + std::to_string(i)}, {"value", 1}});
    fixture.until([&] { return fixture.sessions.counters().reports_left_out == left_out; });
    const std::size_t shown = fixture.sessions.reports().size();
    client.hang_up();
    fixture.until([&] { return fixture.sessions.connected() == 0; });
    return shown;
  };
  CHECK(report("a", 8) == 32);
  CHECK(report("b", 48) == 0);
  CHECK(report("a", 56) == 32);
  fixture.sessions.forget("j");
  CHECK(report("b", 64) == 32);
}

TEST_CASE("a rank that connects again is told the plan it missed, and a stop") {
  Fixture fixture;
  fixture.sessions.propose("j", 4, kPlan, false);
  fixture.sessions.commit("j", 4, 20);
  fixture.sessions.stop_job("j", 40);
  auto client = fixture.client();
  client.say(Fixture::hello("j", 0));
  fixture.until([&] { return client.heard().size() == 4; });
  CHECK(client.heard()[1]["type"] == "plan_propose");
  CHECK(client.heard()[1]["plan"] == json::parse(kPlan));
  CHECK(client.heard()[2]["step"] == 20);
  CHECK(client.heard()[3]["type"] == "stop");
}

TEST_CASE("a plan that is no JSON is refused in the rank's name") {
  Fixture fixture;
  auto client = fixture.client();
  client.say(Fixture::hello("j", 0));
  fixture.until([&] { return client.heard().size() == 1; });
  fixture.sessions.propose("j", 4, "{", false);
  REQUIRE(fixture.news_sent.size() == 2);
  CHECK(fixture.news_sent[1].plan_refuse().epoch() == 4);
}

TEST_CASE("ranks of a target are told a plan as that reads it, and one that it cannot run is refused in their name") {
  Fixture fixture;
  Job job;
  job.name = "j";
  job.target = "ddp";
  job.train = {"train"};
  REQUIRE(fixture.jobs.remember_job(job).ok());
  auto client = fixture.client();
  client.say(Fixture::hello("j", 0));
  fixture.until([&] { return client.heard().size() == 1; });
  fixture.sessions.propose("j", 4, kPlan, false);
  fixture.until([&] { return client.heard().size() == 2; });
  CHECK(client.heard()[1]["plan"] == json::parse(kPlan));
  const json config = client.heard()[1]["target_config"];
  CHECK(config["schema"] == "trimtab.parallel/1");
  CHECK(config["samples_per_microbatch"] == 2);
  CHECK(config["accumulation_steps"] == 2);
  json split = json::parse(kPlan);
  split["stages"][0]["devices"] = {0, 1};
  split["stages"][0]["segments"][0]["tp"] = 2;
  fixture.sessions.propose("j", 5, split.dump(), false);
  REQUIRE(fixture.news_sent.size() == 2);
  CHECK(fixture.news_sent[1].plan_refuse().epoch() == 5);
  CHECK(fixture.news_sent[1].plan_refuse().message().find("does not honour") != std::string::npos);
}

TEST_CASE("while the kill switch is thrown ranks hear of incumbents alone") {
  Fixture fixture;
  auto client = fixture.client();
  client.say(Fixture::hello("j", 0));
  fixture.until([&] { return client.heard().size() == 1; });
  fixture.sessions.propose("j", 4, kPlan, false);
  fixture.sessions.commit("j", 4, 20);
  fixture.sessions.hold(true);
  fixture.sessions.propose("j", 5, kPlan, false);
  fixture.sessions.propose("j", 6, kPlan, true);
  fixture.until([&] { return client.heard().size() == 5; });
  CHECK(client.heard()[3]["type"] == "plan_cancel");
  CHECK(client.heard()[3]["epoch"] == 4);
  CHECK(client.heard()[4]["epoch"] == 6);
  CHECK(client.heard()[4]["incumbent"] == true);
  REQUIRE(fixture.news_sent.size() == 2);
  CHECK(fixture.news_sent[1].plan_refuse().epoch() == 5);
  CHECK(fixture.news_sent[1].plan_refuse().reason() == "kill_switch");
  fixture.sessions.hold(false);
  fixture.sessions.propose("j", 7, kPlan, false);
  fixture.until([&] { return client.heard().size() == 6; });
}

TEST_CASE("a rank that measures between its steps is asked to, and what it tells goes on") {
  Fixture fixture;
  auto client = fixture.client();
  json hello = Fixture::hello("j", 0);
  hello["measures"] = true;
  client.say(hello);
  fixture.until([&] { return client.heard().size() == 1; });
  fixture.sessions.measure_again("j", 2, R"({"bound_ms":500,"items":[]})");
  fixture.sessions.measure_again("j", 2, "");
  fixture.until([&] { return client.heard().size() == 3; });
  CHECK(client.heard()[1] == json{{"type", "measure"}, {"number", 2}, {"bound_ms", 500}, {"items", json::array()}});
  CHECK(client.heard()[2] == json{{"type", "measure_cancel"}, {"number", 2}});
  client.say({{"type", "measured"},
              {"number", 2},
              {"step", 8},
              {"took_ns", 70},
              {"items", {{{"item", 0}, {"values", {{5, 6}, {7}}}}, {{"item", 1}, {"error", "no"}}}}});
  fixture.until([&] { return fixture.news_sent.size() == 2; });
  const wire::Measured& told = fixture.news_sent[1].measured();
  CHECK(told.number() == 2);
  CHECK(told.step() == 8);
  CHECK(told.took_ns() == 70);
  REQUIRE(told.items_size() == 2);
  CHECK(told.items(0).costs(0).values(1) == 6);
  CHECK(told.items(0).costs(1).values(0) == 7);
  CHECK(told.items(1).error() == "no");
}

TEST_CASE("for a rank that does not measure between its steps, or under a kill switch, its agent answers") {
  Fixture fixture;
  auto client = fixture.client();
  const bool held = GENERATE(false, true);
  json hello = Fixture::hello("j", 0);
  hello["measures"] = held;
  client.say(hello);
  fixture.until([&] { return client.heard().size() == 1; });
  if (held) fixture.sessions.hold(true);
  fixture.sessions.measure_again("j", 2, R"({"bound_ms":500,"items":[]})");
  REQUIRE(fixture.news_sent.size() == 2);
  CHECK(fixture.news_sent[1].launch() == 7);
  CHECK(fixture.news_sent[1].measured().number() == 2);
  CHECK(fixture.news_sent[1].measured().error() ==
        (held ? "the kill switch of node n0 is thrown" : "the program of rank 0 does not measure between its steps"));
  fixture.sessions.stop_job("j", 9);
  fixture.until([&] { return client.heard().size() == 2; });
  CHECK(client.heard()[1]["type"] == "stop");
}

TEST_CASE("a rank's ring is folded by the cost keys of its model and plan") {
  Fixture fixture;
  const int ring = make_ring("op/block0/forward", 5);
  {
    auto client = fixture.client();
    client.say({{"type", "ring"}, {"version", 1}, {"pid", 1}, {"job", "j"}, {"rank", 0}}, ring);
    fixture.until([&] { return fixture.rings.size() == 1; });
    CHECK(fixture.folded("j").empty());  // a kernel may still say that this was not the work itself
  }
  ::close(ring);
  fixture.until([&] {
    fixture.rings.drain();
    return fixture.rings.size() == 0;
  });
  const auto costs = fixture.folded("j");
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].key.kind == CostKind::kOperatorForward);
  CHECK(costs[0].key.subject == "block-h8");
  CHECK(costs[0].key.samples == 2);
  CHECK(costs[0].statistics.count() == 3);  // less the warm-up
}

TEST_CASE("the ring of a process that nobody launched is folded by names") {
  Fixture fixture;
  const int ring = make_ring("op/block0/forward", 5);
  auto client = fixture.client();
  client.say({{"type", "ring"}, {"version", 1}, {"pid", 1}, {"job", ""}, {"rank", -1}}, ring);
  fixture.until([&] { return fixture.rings.size() == 1; });
  ::close(ring);
  const auto costs = fixture.folded("");
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].key.kind == CostKind::kRange);
}

TEST_CASE("what is in a ring when its process ends is not lost") {
  Fixture fixture;
  const int ring = make_ring("something", 5);
  {
    auto client = fixture.client();
    client.say({{"type", "ring"}, {"version", 1}, {"pid", 1}, {"job", ""}, {"rank", -1}}, ring);
    fixture.until([&] { return fixture.rings.size() == 1; });
  }
  ::close(ring);
  fixture.until([&] {
    fixture.rings.drain();
    return fixture.rings.size() == 0;
  });
  CHECK(fixture.folded("").size() == 1);
}

TEST_CASE("the ring of a rank that ended before anybody looked is still the rank's") {
  Fixture fixture;
  const auto short_lived = [&](std::uint64_t launch) {
    const int ring = make_ring("op/block0/forward", 5);
    const pid_t child = ::fork();
    if (child == 0) {
      auto client = fixture.client();
      client.say({{"type", "ring"}, {"version", 1}, {"pid", 1}, {"job", "j"}, {"rank", 0}, {"launch", launch}}, ring);
      ::_exit(0);
    }
    REQUIRE(::waitpid(child, nullptr, 0) == child);  // now it is nowhere in /proc
    ::close(ring);
    fixture.until([&] { return fixture.rings.size() == 1; });
    fixture.until([&] {
      fixture.rings.drain();
      return fixture.rings.size() == 0;
    });
  };
  short_lived(7);
  auto costs = fixture.folded("j");
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].key.kind == CostKind::kOperatorForward);
  short_lived(6);  // of an earlier launch
  costs = fixture.folded("");
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].key.kind == CostKind::kRange);
}

TEST_CASE("a living process is no rank because it says so") {
  Fixture fixture;
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    ::pause();
    ::_exit(0);
  }
  CHECK_FALSE(fixture.ranks.find_ended({"j", "", 0}, 7, stranger).has_value());
  ::kill(stranger, SIGKILL);
  REQUIRE(::waitpid(stranger, nullptr, 0) == stranger);
  CHECK(fixture.ranks.find_ended({"j", "", 0}, 7, stranger).has_value());
  CHECK_FALSE(fixture.ranks.find_ended({"j", "other", 0}, 7, stranger).has_value());
  CHECK_FALSE(fixture.ranks.find_ended({"j", "", 1}, 7, stranger).has_value());
}

TEST_CASE("a descriptor that is no ring closes its connection") {
  Fixture fixture;
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  auto client = fixture.client();
  client.say({{"type", "ring"}, {"version", 1}, {"pid", 1}, {"job", ""}, {"rank", -1}}, null);
  ::close(null);
  fixture.until([&] { return client.closed(); });
  CHECK(fixture.rings.size() == 0);
}

TEST_CASE("a slot is told what to run, once, and is the rank from then on") {
  Fixture fixture;
  RankStart start{
      {"s", "", 4}, 9, 3, {"train", "--rank", "4"}, {{"TRIMTAB_RANK", "4"}}, "/srv", fixture.directory / "log"};
  start.awaits_slot = true;
  REQUIRE(Scratch(fixture.directory.path(), "s", "").create().ok());  // as a command to launch does
  REQUIRE(fixture.ranks.start({start}, false).ok());
  json slot{{"type", "slot"}, {"version", 1}, {"pid", 1}, {"job", "s"}, {"launch", 8}, {"local_rank", 0}};
  auto late = fixture.client();
  late.say(slot);
  fixture.until([&] { return !late.heard().empty(); });
  CHECK(late.heard()[0]["type"] == "refused");
  slot["launch"] = 9;
  auto client = fixture.client();
  client.say(slot);
  fixture.until([&] { return !client.heard().empty(); });
  CHECK(client.heard()[0] == json{{"type", "run"},
                                  {"arguments", {"train", "--rank", "4"}},
                                  {"environment", {{"TRIMTAB_RANK", "4"}}},
                                  {"working_directory", "/srv"},
                                  {"log", fixture.directory / "log"}});
  auto rank = fixture.client();
  rank.say(Fixture::hello("s", 4));
  fixture.until([&] { return fixture.news_sent.size() == 1; });
  CHECK(fixture.news_sent[0].launch() == 9);
  CHECK(fixture.news_sent[0].rank() == 4);
}

TEST_CASE("a launcher tells of its submission as of rank 0, and nobody else does") {
  Fixture fixture;
  RankLedger ledger(fixture.state.database);
  const auto self = process_stat(::getpid());
  REQUIRE(ledger.put({{"j", "trial", kLauncher}, 8, 3, ::getpid(), self->start_time, false, false, 0, 0}).ok());
  REQUIRE(fixture.ranks.adopt().ok());
  auto rank = fixture.client();
  rank.say(Fixture::hello("j", 0));
  rank.say({{"type", "submission"}, {"state", "queued"}});
  fixture.until([&] { return rank.closed(); });
  auto stranger = fixture.client();
  stranger.say({{"type", "launcher"}, {"version", 1}, {"pid", 1}, {"job", "j"}, {"launch", 7}});
  fixture.until([&] { return stranger.closed(); });
  fixture.news_sent.clear();
  auto launcher = fixture.client();
  launcher.say({{"type", "launcher"}, {"version", 1}, {"pid", 1}, {"job", "j"}, {"launch", 8}, {"variant", "trial"}});
  launcher.say({{"type", "submission"}, {"state", "preempted"}, {"message", "Slurm job 3 was preempted"}});
  fixture.until([&] { return fixture.news_sent.size() == 1; });
  const wire::RankEvent& told = fixture.news_sent[0];
  CHECK(told.variant() == "trial");
  CHECK(told.rank() == 0);
  CHECK(told.launch() == 8);
  CHECK(told.submission().state() == "preempted");
}
