#include "rank_news.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace trimtab::agent;
namespace wire = trimtab::wire;

namespace {

struct Fixture {
  bool open = true;
  std::vector<wire::RankEvent> sent;
  RankNews news{[this](const wire::FromAgent& message) {
                  if (open) sent.push_back(message.rank_event());
                  return open;
                },
                4};
  RankIdentity id{"j", "", 0};

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
  void exited(int code) {
    wire::RankEvent event;
    event.mutable_exited()->set_exit_code(code);
    news.tell(id, 1, event);
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
