#include "metrics/otlp_reply.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kNow = std::chrono::seconds(784111777);  // Sun, 06 Nov 1994 08:49:37 GMT

Nanoseconds wait_for(std::string_view retry_after) {
  const auto verdict = judge({429, retry_after, ""}, kNow);
  CHECK(verdict.result == OtlpResult::kThrottled);
  return verdict.wait;
}

}  // namespace

TEST_CASE("a collector that takes all values says so in several ways") {
  for (const char* body : {"", "{}", R"({"partialSuccess":{}})", R"({"partialSuccess":null})", "{\"new\":[1]}",
                           R"({"partialSuccess":{"rejectedDataPoints":"0","errorMessage":"a warning"}})"}) {
    INFO(body);
    CHECK(judge({200, "", body}, kNow).result == OtlpResult::kOk);
  }
}

TEST_CASE("values that a collector rejects are counted, however it writes their number") {
  for (const char* number : {"7", "\"7\""}) {
    const std::string body =
        R"({"partialSuccess":{"rejectedDataPoints":)" + std::string(number) + R"(,"errorMessage":"no"}})";
    const auto verdict = judge({200, "", body}, kNow);
    CHECK(verdict.result == OtlpResult::kPartial);
    CHECK(verdict.reason == "it rejects 7 values: no");
  }
}

TEST_CASE("a web server that answers everything is no collector") {
  for (const std::string& body :
       {std::string("<html>"), std::string("[]"), std::string("OK"), std::string(60'000, '[')}) {
    const auto verdict = judge({200, "", body}, kNow);
    CHECK(verdict.result == OtlpResult::kMalformed);
    CHECK(verdict.reason.find("is it a collector?") != std::string::npos);
  }
}

TEST_CASE("a refusal is told in the collector's words, bounded and printable") {
  CHECK(judge({400, "", R"({"code":3,"message":"bad data"})"}, kNow).reason == "it answers with status 400: bad data");
  CHECK(judge({404, "", "404 page not found\n\x1b[2J"}, kNow).reason ==
        "it answers with status 404: 404 page not found??[2J");
  CHECK(judge({401, "", ""}, kNow).reason == "it answers with status 401");
  CHECK(judge({500, "", std::string(5000, 'x')}, kNow).reason.size() < 300);
  for (const int status : {301, 400, 401, 404, 413, 500}) {
    const auto verdict = judge({status, "100", ""}, kNow);
    CHECK(verdict.result == OtlpResult::kRefused);
    CHECK(verdict.wait.count() == 0);
  }
  for (const int status : {429, 502, 503, 504}) CHECK(judge({status, "", ""}, kNow).result == OtlpResult::kThrottled);
}

TEST_CASE("a collector is left alone as long as it asks, but not for ever") {
  CHECK(wait_for("120") == 2min);
  CHECK(wait_for("Sun, 06 Nov 1994 08:50:07 GMT") == 30s);
  CHECK(wait_for("Sun, 06 Nov 1994 08:00:00 GMT") == 0s);
  CHECK(wait_for("86400") == kLongestOtlpWait);
  CHECK(wait_for("99999999999999999999999") == kLongestOtlpWait);
  CHECK(wait_for("Fri, 31 Dec 9999 23:59:59 GMT") == kLongestOtlpWait);
  CHECK(wait_for("-5") == 0s);
  CHECK(wait_for("soon") == 0s);
  CHECK(wait_for("") == 0s);
}
