#include "ranks/rank_news.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <string>
#include <vector>

using namespace trimtab::agent;
namespace wire = trimtab::wire;

namespace {

struct Fixture {
  bool open = true;
  std::size_t room = std::numeric_limits<std::size_t>::max();  // of the link's queue, in messages
  std::vector<wire::RankEvent> sent;
  RankNews news;
  RankIdentity id{"j", "", 0};

  explicit Fixture(std::size_t ended_bytes = std::size_t{4} << 20)
      : news(
            [this](const wire::FromAgent& message) {
              if (!open || room == 0) return false;
              --room;
              sent.push_back(message.rank_event());
              return true;
            },
            {4, ended_bytes}) {}

  void connected(std::uint64_t epoch) {
    wire::RankEvent event;
    event.mutable_connected()->set_epoch(epoch);
    news.tell(id, 1, event);
  }
  void step(std::int64_t number, std::uint64_t epoch = 0) {
    wire::RankEvent event;
    event.mutable_step()->set_step(number);
    event.mutable_step()->set_epoch(epoch);
    news.tell(id, 1, event);
  }
  void active(std::uint64_t epoch) {
    wire::RankEvent event;
    event.mutable_plan_active()->set_epoch(epoch);
    news.tell(id, 1, event);
  }
  void exited(int code, const std::string& output = "") {
    wire::RankEvent event;
    event.mutable_exited()->set_exit_code(code);
    event.mutable_exited()->set_last_output(output);
    news.tell(id, 1, event);
  }
  void acknowledged() {
    wire::RankEvent event;
    event.mutable_plan_ack()->set_epoch(4);
    news.tell(id, 1, event);
  }
  void refused(const std::string& message) {
    wire::RankEvent event;
    event.mutable_plan_refuse()->set_message(message);
    news.tell(id, 1, event);
  }
  void failed(const std::string& message) {
    wire::RankEvent event;
    event.mutable_plan_failed()->set_message(message);
    news.tell(id, 1, event);
  }
  void pictured() {
    wire::RankEvent event;
    event.mutable_timeline()->set_bars_json(std::string(100'000, ' '));
    news.tell(id, 1, event);
  }
  void submission(const std::string& state) {
    wire::RankEvent event;
    event.mutable_submission()->set_state(state);
    news.tell(id, 1, event);
  }
  // As over a new connection.
  void announce() {
    sent.clear();
    news.announce();
  }
  [[nodiscard]] std::vector<std::uint32_t> ranks() const {
    std::vector<std::uint32_t> all;
    for (const auto& event : sent) all.push_back(event.rank());
    return all;
  }
  [[nodiscard]] std::vector<int> kinds() const {
    std::vector<int> all;
    for (const auto& event : sent) all.push_back(event.body_case());
    return all;
  }
};

using Kinds = std::vector<int>;
constexpr int kConnected = wire::RankEvent::kConnected;
constexpr int kStep = wire::RankEvent::kStep;
constexpr int kActive = wire::RankEvent::kPlanActive;
constexpr int kExited = wire::RankEvent::kExited;
constexpr int kBye = wire::RankEvent::kBye;
constexpr int kRefuse = wire::RankEvent::kPlanRefuse;
constexpr int kFailed = wire::RankEvent::kPlanFailed;
constexpr int kSubmission = wire::RankEvent::kSubmission;
using Numbers = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("while the link is open news goes out at once, with the rank's names") {
  Fixture fixture;
  fixture.id.variant = "untuned";
  fixture.step(1);
  REQUIRE(fixture.sent.size() == 1);
  CHECK(fixture.sent[0].job() == "j");
  CHECK(fixture.sent[0].variant() == "untuned");
  CHECK(fixture.sent[0].launch() == 1);
}

TEST_CASE("what happened while the link was down is told when it is open again, the end last") {
  Fixture fixture;
  fixture.connected(3);
  fixture.open = false;
  fixture.sent.clear();
  fixture.active(4);
  wire::RankEvent bye;
  bye.mutable_bye()->set_step(9);
  fixture.news.tell(fixture.id, 1, bye);
  fixture.exited(1);
  fixture.open = true;
  fixture.news.announce();
  CHECK(fixture.kinds() == Kinds{kActive, kBye, kExited});
}

TEST_CASE("a connected rank is announced again with the epoch and step it has reached") {
  Fixture fixture;
  fixture.connected(3);
  fixture.active(4);
  fixture.step(17, 4);
  fixture.sent.clear();
  fixture.news.announce();
  REQUIRE(fixture.kinds() == Kinds{kConnected, kActive});
  CHECK(fixture.sent[0].connected().epoch() == 4);
  CHECK(fixture.sent[0].connected().step() == 17);
}

TEST_CASE("a rank that has disconnected is not announced as connected") {
  Fixture fixture;
  fixture.connected(3);
  fixture.news.disconnected(fixture.id);
  fixture.sent.clear();
  fixture.news.announce();
  CHECK(fixture.sent.empty());
}

TEST_CASE("the latest steps wait for the link, in order, and the dropped ones are counted") {
  Fixture fixture;
  fixture.open = false;
  for (int step = 0; step < 10; ++step) fixture.step(step);
  CHECK(fixture.news.steps_waiting() == 4);
  CHECK(fixture.news.steps_dropped() == 6);
  fixture.open = true;
  fixture.news.announce();
  REQUIRE(fixture.kinds() == Kinds{kStep, kStep, kStep, kStep});
  CHECK(fixture.sent[0].step().step() == 6);
  CHECK(fixture.sent[3].step().step() == 9);
}

TEST_CASE("a step does not overtake those that wait") {
  Fixture fixture;
  fixture.open = false;
  fixture.step(1);
  fixture.open = true;
  fixture.step(2);
  fixture.news.retry();
  REQUIRE(fixture.sent.size() == 2);
  CHECK(fixture.sent[0].step().step() == 1);
}

TEST_CASE("a full queue is tried again") {
  Fixture fixture;
  fixture.open = false;
  fixture.exited(1);
  fixture.news.retry();
  CHECK(fixture.sent.empty());
  fixture.open = true;
  fixture.news.retry();
  CHECK(fixture.kinds() == Kinds{kExited});
  fixture.news.retry();
  CHECK(fixture.sent.size() == 1);
}

TEST_CASE("a new launch forgets what its predecessor said") {
  Fixture fixture;
  fixture.exited(1);
  fixture.open = false;
  fixture.step(5);
  fixture.open = true;
  fixture.sent.clear();
  fixture.news.launched(fixture.id);
  fixture.news.announce();
  CHECK(fixture.sent.empty());
}

TEST_CASE("memory does not grow with what ranks say while the link is down") {
  Fixture fixture;
  fixture.open = false;
  for (std::uint64_t epoch = 0; epoch < 10'000; ++epoch) {
    fixture.active(epoch);
    fixture.step(static_cast<std::int64_t>(epoch));
  }
  fixture.open = true;
  fixture.news.announce();
  CHECK(fixture.sent.size() == 5);
}

TEST_CASE("a queue that fills up while all is announced is gone on with where it was full, and steps follow") {
  Fixture fixture;
  for (fixture.id.rank = 0; fixture.id.rank < 6; ++fixture.id.rank) fixture.exited(1);
  fixture.open = false;
  fixture.step(7);
  fixture.open = true;
  fixture.room = 2;
  fixture.announce();
  CHECK(fixture.ranks() == Numbers{0, 1});
  fixture.room = 3;
  fixture.news.retry();
  CHECK(fixture.ranks() == Numbers{0, 1, 2, 3, 4});
  fixture.room = 2;
  fixture.news.retry();
  CHECK(fixture.ranks() == Numbers{0, 1, 2, 3, 4, 5, 6});
  CHECK(fixture.sent.back().has_step());
  fixture.room = 10;
  fixture.news.retry();
  CHECK(fixture.sent.size() == 7);
  fixture.announce();
  CHECK(fixture.ranks() == Numbers{0, 1, 2, 3, 4, 5});
}

TEST_CASE("ranks that go on talking do not keep those behind them from being told of") {
  Fixture fixture;
  for (fixture.id.rank = 0; fixture.id.rank < 3; ++fixture.id.rank) fixture.active(1);
  fixture.room = 1;
  fixture.announce();
  for (std::uint64_t epoch = 2; epoch < 4; ++epoch) {
    fixture.id.rank = 0;
    fixture.active(epoch);
    fixture.room = 1;
    fixture.news.retry();
  }
  CHECK(fixture.ranks() == Numbers{0, 1, 2});
  fixture.room = 1;
  fixture.news.retry();
  REQUIRE(fixture.ranks() == Numbers{0, 1, 2, 0});
  CHECK(fixture.sent[3].plan_active().epoch() == 3);
}

TEST_CASE("the end of a rank does not overtake what it failed with") {
  Fixture fixture;
  fixture.room = 0;
  fixture.failed("out of memory");
  fixture.room = 1;
  fixture.exited(1);
  CHECK(fixture.sent.empty());
  fixture.room = 2;
  fixture.news.retry();
  CHECK(fixture.kinds() == Kinds{kFailed, kExited});
}

TEST_CASE("of a rank that has ended stays what tells its end and whose fault it was, without the bulk") {
  Fixture fixture;
  fixture.connected(3);
  fixture.refused("no");
  fixture.acknowledged();
  fixture.active(4);
  fixture.pictured();
  fixture.failed("NaN");
  CHECK(fixture.news.ended_bytes() == 0);
  fixture.exited(1, "gone");
  fixture.pictured();  // its ring was read to the end
  fixture.announce();
  CHECK(fixture.kinds() == Kinds{kRefuse, kActive, kFailed, kExited});
  CHECK(fixture.sent.back().exited().last_output() == "gone");
  CHECK(fixture.news.ended_bytes() > 0);
  CHECK(fixture.news.ended_bytes() < 4096);
  fixture.news.launched(fixture.id);
  CHECK(fixture.news.ended_bytes() == 0);
}

TEST_CASE("what ranks said that have ended goes when their job is over; what those said that run stays") {
  Fixture fixture;
  fixture.exited(1);
  fixture.id.rank = 1;
  fixture.connected(1);
  fixture.id = {"submitted", "", 0};
  fixture.submission("done");
  fixture.id = {"waits", "", 0};
  fixture.exited(0);
  fixture.news.unfinished({"waits"});
  fixture.announce();
  REQUIRE(fixture.kinds() == Kinds{kConnected, kExited});
  CHECK(fixture.sent[0].job() == "j");
  CHECK(fixture.sent[1].job() == "waits");
}

TEST_CASE("what a coordinator has not had is not forgotten, though it says that the job is over") {
  Fixture fixture;
  fixture.room = 0;
  fixture.exited(1);
  fixture.news.unfinished({});
  fixture.room = 1;
  fixture.news.retry();
  CHECK(fixture.kinds() == Kinds{kExited});
  CHECK(fixture.news.ended_bytes() == 0);
  fixture.room = 10;
  fixture.announce();
  CHECK(fixture.sent.empty());
}

TEST_CASE("a rank that ends after the coordinator has told its jobs is kept until it tells them again") {
  Fixture fixture;
  fixture.connected(1);
  fixture.news.unfinished({});
  fixture.exited(1);
  fixture.announce();
  CHECK(fixture.kinds() == Kinds{kExited});
  fixture.news.unfinished({});
  fixture.announce();
  CHECK(fixture.sent.empty());
}

TEST_CASE("a launch that waits in a queue is no rank that has ended once its rank has come") {
  Fixture fixture;
  fixture.submission("queued");
  CHECK(fixture.news.ended_bytes() > 0);
  fixture.connected(1);
  CHECK(fixture.news.ended_bytes() == 0);
  fixture.news.unfinished({});
  fixture.announce();
  CHECK(fixture.kinds() == Kinds{kConnected, kSubmission});
}

TEST_CASE("what is kept of ranks that have ended is bounded: the oldest lose their output first, then all") {
  constexpr std::size_t kBytes = 20'000;
  Fixture fixture(kBytes);
  const std::string line(4096, 'x');
  for (fixture.id.rank = 0; fixture.id.rank < 8; ++fixture.id.rank) {
    fixture.exited(1, line + std::to_string(fixture.id.rank));
    CHECK(fixture.news.ended_bytes() <= kBytes);
  }
  CHECK(fixture.news.dropped() == 0);
  fixture.announce();
  REQUIRE(fixture.sent.size() == 8);
  CHECK(fixture.sent[0].exited().last_output().size() == 512);
  CHECK(fixture.sent[0].exited().last_output().ends_with("x0"));
  CHECK(fixture.sent[7].exited().last_output() == line + "7");
  for (; fixture.id.rank < 100; ++fixture.id.rank) fixture.exited(1, line);
  CHECK(fixture.news.ended_bytes() <= kBytes);
  fixture.announce();
  CHECK(fixture.sent.size() + fixture.news.dropped() == 100);
  REQUIRE(fixture.news.dropped() > 0);
  CHECK(fixture.ranks().front() == fixture.news.dropped());
  CHECK(fixture.ranks().back() == 99);
}

TEST_CASE("a text is shortened between characters") {
  Fixture fixture(1100);
  std::string output;
  for (int i = 0; i < 300; ++i) output += "\u20ac";
  fixture.exited(1, output);
  fixture.announce();
  REQUIRE(fixture.sent.size() == 1);
  const std::string& kept = fixture.sent[0].exited().last_output();
  CHECK(kept.size() == 510);
  CHECK(output.ends_with(kept));
}
