#include <string>

#include <catch2/catch.hpp>

#include "base/random.hpp"
#include "schema/statistics.hpp"

using namespace trimtab;

namespace {

std::string decimal(UInt128 value) {
  std::string digits;
  for (; value > 0; value /= 10) digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
  return digits.empty() ? "0" : digits;
}

// What somebody says who need not have measured it: any sum that so many values between two can have.
struct Claim {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::string buckets;

  // Of `count` integers as equal as can be.
  [[nodiscard]] UInt128 least_squares() const {
    const UInt128 mean = sum / count;
    const UInt128 rest = sum % count;
    return mean * (sum + rest) + rest;
  }
  [[nodiscard]] std::string text(UInt128 squares) const {
    return "1;" + std::to_string(count) + ";" + std::to_string(sum) + ";" + decimal(squares) + ";" +
           std::to_string(low) + ";" + std::to_string(high) + ";" + buckets;
  }
};

Claim random_claim(Random& random) {
  const auto any = [&random](std::uint64_t bits) { return random.below(std::uint64_t{1} << random.below(bits)); };
  Claim claim;
  claim.low = static_cast<std::int64_t>(any(40));
  claim.high = claim.low + static_cast<std::int64_t>(any(40));
  claim.count = 2 + any(20);
  claim.sum = static_cast<std::uint64_t>(claim.low) * claim.count +
              random.below(static_cast<std::uint64_t>(claim.high - claim.low) * claim.count + 1);
  Statistics ends;
  ends.add(claim.low);
  ends.add(claim.high);
  const std::string text = ends.encode();
  claim.buckets = text.substr(text.rfind(';') + 1);
  const bool one = claim.buckets.find(',') == std::string::npos;
  claim.buckets.replace(claim.buckets.find(':') + 1, 1, std::to_string(claim.count - (one ? 0 : 1)));
  return claim;
}

}  // namespace

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

TEST_CASE("of more values than are accepted none is added, and the sum is accepted") {
  const std::string most = "1;281474976710656;0;0;0;0;-1:281474976710656";
  Statistics statistics = Statistics::decode(most).value();
  statistics.merge(Statistics(statistics));
  statistics.add(7);
  CHECK(statistics.encode() == most);
  CHECK(statistics.mean() == 0);
  CHECK(statistics.variance() == 0);
  CHECK(statistics.median() == 0);
  Statistics few;
  few.add(7);
  const Statistics before = few;
  few.merge(statistics);
  CHECK(few == before);
  Statistics less = Statistics::decode("1;281474976710655;0;0;0;0;-1:281474976710655").value();
  less.merge(few);
  CHECK(less.count() == statistics.count());
  CHECK(Statistics::decode(less.encode()).value() == less);
}

TEST_CASE("squares that no integers have are refused: their sums would be") {
  // Of 0, 1, 1 and of 1, 1, 2.
  CHECK(Statistics::decode("1;3;2;2;0;1;-1:1,0:2").ok());
  CHECK_FALSE(Statistics::decode("1;3;2;1;0;1;-1:1,0:2").ok());
  CHECK(Statistics::decode("1;3;4;6;1;2;0:2,36:1").ok());
  CHECK_FALSE(Statistics::decode("1;3;4;5;1;2;0:2,36:1").ok());
}

TEST_CASE("whatever texts are accepted, their sums are, too") {
  const std::uint64_t seed = 77;
  Random random(seed);
  for (int round = 0; round < 3000; ++round) {
    Statistics sum;
    for (int part = 0; part < 4; ++part) {
      const Claim claim = random_claim(random);
      INFO("seed " << seed << ", round " << round << ": " << claim.text(claim.least_squares()));
      if (claim.least_squares() > 0) REQUIRE_FALSE(Statistics::decode(claim.text(claim.least_squares() - 1)).ok());
      const auto decoded = Statistics::decode(claim.text(claim.least_squares() + random.below(2)));
      REQUIRE(decoded.ok());
      sum.merge(*decoded);
      REQUIRE(Statistics::decode(sum.encode()).ok());
    }
  }
}
