#include <string>

#include <catch2/catch.hpp>

#include "base/random.hpp"
#include "schema/statistics.hpp"

using namespace trimtab;

TEST_CASE("the text of statistics is the one of the first release") {
  Statistics statistics;
  for (const std::int64_t value : {0, 1, 1000, 1000}) statistics.add(value);
  // A change here makes stored databases unreadable.
  CHECK(statistics.encode() == "1;4;2001;2000001;0;1000;-1:1,0:1,349:2");
}

TEST_CASE("statistics come back from their text bit for bit") {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    Statistics statistics;
    const std::uint64_t count = random.below(400);
    for (std::uint64_t i = 0; i < count; ++i) {
      statistics.add(static_cast<std::int64_t>(random.below(std::uint64_t{2} << random.below(60))));
    }
    const Result<Statistics> decoded = Statistics::decode(statistics.encode());
    REQUIRE(decoded.ok());
    REQUIRE(*decoded == statistics);
  }
}

TEST_CASE("no values have a text, too") {
  CHECK(Statistics().encode() == "1;0;0;0;0;0;");
  CHECK(Statistics::decode("1;0;0;0;0;0;").value() == Statistics());
}

TEST_CASE("saturated statistics come back from their text") {
  Statistics statistics;
  for (int i = 0; i < 300; ++i) statistics.add(std::int64_t{1} << 60);
  CHECK(Statistics::decode(statistics.encode()).value() == statistics);
}

TEST_CASE("a text that is no statistics, or that contradicts itself, is refused") {
  for (const char* text : {"",
                           "1",
                           "2;1;5;25;5;5;82:1",
                           "1;1;5;25;5;5;",
                           "1;1;5;25;5;5;82:2",
                           "1;1;5;25;5;5;81:1",
                           "1;1;-5;25;5;5;82:1",
                           "1;1;5;24;5;5;82:1",
                           "1;1;6;36;5;5;82:1",
                           "1;2;11;61;6;5;82:1,91:1",
                           "1;0;1;0;0;0;",
                           "1;1;5;25;5;5;82:1,",
                           "1;1;5;25;5;5;82:1x",
                           "1;1;5;25;5;5;82:-1",
                           "1;1;5;25;-5;5;82:1",
                           "1;99999999999999999999;5;25;5;5;82:1",
                           "1;1;999999999999999999999999999999999999999999;25;5;5;82:1",
                           "1;1;5;25;5;5;99999:1",
                           "1;2;10;50;5;5;82:1,82:1",
                           "1;1;5;25;5;9223372036854775807;82:1"}) {
    INFO(text);
    CHECK_FALSE(Statistics::decode(text).ok());
  }
  CHECK(Statistics::decode("1;1;5;25;5;5;82:1").ok());
}

TEST_CASE("the largest statistics that are accepted can be merged and asked without overflow") {
  const std::string most = "1;281474976710656;0;0;0;0;-1:281474976710656";
  Statistics statistics = Statistics::decode(most).value();
  for (int i = 0; i < 40; ++i) statistics.merge(Statistics(statistics));
  CHECK(statistics.count() == ~std::uint64_t{0});
  CHECK(statistics.mean() == 0);
  CHECK(statistics.variance() == 0);
  CHECK(statistics.median() == 0);
}
