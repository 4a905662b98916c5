#include "base/units.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("sizes are read with binary and decimal units") {
  CHECK(*parse_bytes("1024") == 1024);
  CHECK(*parse_bytes("700MiB") == 700LL << 20);
  CHECK(*parse_bytes("1.5GiB") == 3LL << 29);
  CHECK(*parse_bytes("2GB") == 2'000'000'000);
  CHECK(*parse_bytes("3 kB") == 3000);
  CHECK(*parse_bytes("0") == 0);
}

TEST_CASE("a size that is none names what was expected and what was found") {
  for (const char* text : {"", "MiB", "12 parsecs", "-1", "1e30", "nan", "inf", "1MiB2", "0x10"}) {
    const Result<Bytes> bytes = parse_bytes(text);
    INFO(text);
    REQUIRE_FALSE(bytes.ok());
    CHECK(bytes.error().message ==
          "expected a number with a unit such as 700MiB, but found '" + std::string(text) + "'");
  }
}

TEST_CASE("times are read with units") {
  CHECK(*parse_duration("250ms") == std::chrono::milliseconds(250));
  CHECK(*parse_duration("1.5min") == std::chrono::seconds(90));
  CHECK(*parse_duration("10us") == std::chrono::microseconds(10));
  CHECK(*parse_duration("1h") == std::chrono::hours(1));
  CHECK_FALSE(parse_duration("5").ok());
  CHECK_FALSE(parse_duration("-5s").ok());
}

TEST_CASE("sizes are written in the largest unit that gives at least 1") {
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(700LL << 20) == "700 MiB");
  CHECK(format_bytes(3LL << 29) == "1.50 GiB");
  CHECK(format_bytes(20LL << 40) == "20.0 TiB");
}

TEST_CASE("times are written with three digits") {
  CHECK(format_duration(std::chrono::nanoseconds(999)) == "999 ns");
  CHECK(format_duration(std::chrono::nanoseconds(4500)) == "4.50 us");
  CHECK(format_duration(std::chrono::microseconds(12300)) == "12.3 ms");
  CHECK(format_duration(std::chrono::milliseconds(1230)) == "1.23 s");
  CHECK(format_duration(std::chrono::minutes(3)) == "3.00 min");
}
