#include "ranks/signs_of_life.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::agent;

namespace {

constexpr Nanoseconds kPause = std::chrono::seconds(5);

// One rank, looked at each five seconds.
struct OneRank {
  SeenRank rank{{"gpt", "", 0}, 1, 0, 0, 0};
  Nanoseconds processor{0};
  Nanoseconds now{0};
  int asked = 0;
  SignsOfLife signs;

  std::vector<SignOfLife> look() {
    now += kPause;
    return signs.look(now, {rank}, [this](const RankIdentity&) {
      ++asked;
      return processor;
    });
  }
};

}  // namespace

TEST_CASE("output, records and processor time are signs of life, each by itself", "[signs_of_life]") {
  OneRank one;
  CHECK(one.look().empty());  // nothing to compare with
  CHECK(one.look().empty());
  one.rank.output = 10;
  auto signs = one.look();
  REQUIRE(signs.size() == 1);
  CHECK(signs[0].launch == 1);
  CHECK(signs[0].output);
  CHECK_FALSE((signs[0].records || signs[0].processor));
  one.rank.output = 0;  // the log was begun anew
  CHECK(one.look().at(0).output);
  one.rank.records = 3;
  CHECK(one.look().at(0).records);
  one.processor += std::chrono::seconds(1);
  CHECK(one.look().at(0).processor);
  CHECK(one.look().empty());
}

TEST_CASE("a process that only looks at its clock now and then gives no sign", "[signs_of_life]") {
  OneRank one;
  CHECK(one.look().empty());
  one.processor += std::chrono::milliseconds(90);  // 1.8 % of five seconds
  CHECK(one.look().empty());
  one.processor -= std::chrono::milliseconds(50);  // a child of it has gone
  CHECK(one.look().empty());
}

TEST_CASE("a rank that tells steps is neither told of nor asked for its processor time", "[signs_of_life]") {
  OneRank one;
  CHECK(one.look().empty());
  const int asked = one.asked;
  one.rank.steps = 4;
  one.rank.output = 100;
  CHECK(one.look().empty());
  CHECK(one.asked == asked);
  // Silent from here on: the first look has nothing to compare its processor time with.
  one.processor = std::chrono::seconds(30);
  CHECK(one.look().empty());
  one.processor = std::chrono::seconds(31);
  CHECK(one.look().at(0).processor);
}

TEST_CASE("a rank that was not there before is new until it was looked at", "[signs_of_life]") {
  OneRank one;
  CHECK(one.signs.has_new({one.rank}));
  CHECK(one.look().empty());
  CHECK_FALSE(one.signs.has_new({one.rank}));
  one.rank.launch = 2;
  CHECK(one.signs.has_new({one.rank}));
}

TEST_CASE("another launch is not compared with the one before", "[signs_of_life]") {
  OneRank one;
  CHECK(one.look().empty());
  one.rank.launch = 2;
  one.rank.output = 50;
  CHECK(one.look().empty());
  one.rank.output = 51;
  CHECK(one.look().at(0).launch == 2);
}
