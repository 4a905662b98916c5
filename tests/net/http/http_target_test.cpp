#include "http/target.hpp"

#include <catch2/catch.hpp>

#include "base/random.hpp"
#include "net/host_text.hpp"

using namespace trimtab::net;

TEST_CASE("a target is decoded into its path and query") {
  const auto target = parse_target("/v1/jobs/gpt%2Dcpu?kind=a%20b&plus=1+2&flag&=&empty=");
  REQUIRE(target);
  CHECK(target->path == "/v1/jobs/gpt-cpu");
  CHECK(target->query.at("kind") == "a b");
  CHECK(target->query.at("plus") == "1 2");
  CHECK(target->query.at("flag").empty());
  CHECK(target->query.at("empty").empty());
}

TEST_CASE("a broken target is refused") {
  for (const auto* text : {"", "v1", "/a%", "/a%2", "/a%zz", "/a%00b", "/a?x=%", "*"}) {
    INFO(text);
    CHECK_FALSE(parse_target(text));
  }
}

TEST_CASE("any bytes as a target are decoded or refused") {
  const std::uint64_t seed = 20240611;
  INFO("seed " << seed);
  trimtab::Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text = "/";
    const auto length = random.below(40);
    for (std::uint64_t i = 0; i < length; ++i)
      text.push_back(static_cast<char>(random.below(4) == 0 ? '%' : random.below(256)));
    const auto target = parse_target(text);
    if (target) CHECK(target->path.front() == '/');
  }
}

TEST_CASE("a web page of another origin is refused, the daemon's own page is not") {
  CHECK_FALSE(refusal("127.0.0.1:7420", "", true));
  CHECK_FALSE(refusal("localhost:7420", "http://localhost:7420", true));
  CHECK_FALSE(refusal("[::1]:7420", "http://[::1]:7420", true));
  CHECK(refusal("127.0.0.1:7420", "http://evil.example", true));
  CHECK(refusal("127.0.0.1:7420", "null", true));
}

TEST_CASE("a name that was rebound to loopback is refused") {
  CHECK(refusal("evil.example:7420", "http://evil.example:7420", true));
  CHECK(refusal("127.evil.example", "", true));
  CHECK_FALSE(refusal("cluster.example:7420", "", false));
}

TEST_CASE("what a client writes into Host is what a loopback server admits, IPv6 included") {
  CHECK(authority("127.0.0.1", 7420) == "127.0.0.1:7420");
  CHECK(authority("::1", 7420) == "[::1]:7420");
  for (const auto* host : {"127.0.0.1", "::1", "localhost"}) CHECK_FALSE(refusal(authority(host, 7420), "", true));
}
