#include "net/otlp_settings.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::net;

namespace {

std::string read_back(const std::string& url) {
  const auto endpoint = parse_otlp_endpoint(url);
  INFO(url << (endpoint.ok() ? "" : endpoint.error().message));
  REQUIRE(endpoint.ok());
  REQUIRE(*endpoint);
  return to_string(**endpoint);
}

Status checked(const std::string& url, const std::string& authority, const std::string& token_file) {
  OtlpSettings settings;
  settings.endpoint = *parse_otlp_endpoint(url);
  settings.authority = authority;
  settings.token_file = token_file;
  return check_otlp(settings);
}

}  // namespace

TEST_CASE("a collector's URL may leave out its path and its scheme's port") {
  CHECK(read_back("http://127.0.0.1:4318/v1/metrics") == "http://127.0.0.1:4318/v1/metrics");
  CHECK(read_back("http://collector:4318") == "http://collector:4318/v1/metrics");
  CHECK(read_back("http://collector:4318/") == "http://collector:4318/v1/metrics");
  CHECK(read_back("http://collector") == "http://collector:80/v1/metrics");
  CHECK(read_back("https://otlp.example.org/api/otlp") == "https://otlp.example.org:443/api/otlp");
  CHECK(read_back("http://[::1]:4318/x") == "http://[::1]:4318/x");
  CHECK((*parse_otlp_endpoint("https://c:1?key=a"))->target == "/v1/metrics?key=a");
  CHECK((*parse_otlp_endpoint("https://c:1/x?key=a"))->target == "/x?key=a");
  CHECK(read_back("https://c:1/x?key=a") == "https://c:1/x");
  const auto off = parse_otlp_endpoint("");
  REQUIRE(off.ok());
  CHECK_FALSE(off->has_value());
}

TEST_CASE("what is no URL of a collector is refused with what is wrong with it") {
  const auto objection = [](const std::string& url) {
    const auto endpoint = parse_otlp_endpoint(url);
    INFO(url);
    REQUIRE_FALSE(endpoint.ok());
    return endpoint.error().message;
  };
  const auto contains = [&](const std::string& url, const std::string& part) {
    return objection(url).find(part) != std::string::npos;
  };
  CHECK(contains("collector:4318", "neither http:// nor https://"));
  CHECK(contains("grpc://collector:4317", "http://127.0.0.1:4318/v1/metrics"));
  CHECK(contains("http://", "no host"));
  CHECK(contains("http://:4318", "no host"));
  CHECK(contains("http://collector:", "port"));
  CHECK(contains("http://collector:0", "port"));
  CHECK(contains("http://collector:65536", "port"));
  CHECK(contains("http://collector:43x", "port"));
  CHECK(contains("http://[::1", "bracket"));
  CHECK(contains("http://[::1]4318", "port"));
  CHECK(contains("http://a b:1", "blank"));
  CHECK(contains("http://a:1/x\r\nHost: b", "blank"));
  CHECK(contains("http://a:1/x#y", "fragment"));
  CHECK(contains("https://me:secret@a:1", "otlp_token_file"));
  CHECK_FALSE(contains("https://me:secret@a:1", "secret@"));
}

TEST_CASE("metrics and a token go to a collector under TLS, or to one on this machine") {
  CHECK(checked("", "a.crt", "token").ok());
  CHECK(checked("https://collector", "a.crt", "token").ok());
  CHECK_THAT(checked("http://collector:4318", "", "").error().message,
             Catch::Contains("metrics, which name jobs, would be shown to the whole network") &&
                 Catch::Contains("http://collector:4318/v1/metrics: make otlp_endpoint https://"));
  for (const char* here : {"http://127.0.0.1:4318", "http://localhost:4318", "http://[::1]:4318"}) {
    CHECK(checked(here, "", "").ok());
  }
  CHECK(checked("http://127.0.0.1:4318", "", "token").ok());
  CHECK(checked("http://collector:4318", "", "token").error().message.find("whole network") != std::string::npos);
  CHECK(checked("http://127.0.0.1:4318", "a.crt", "").error().message.find("https://") != std::string::npos);
}
