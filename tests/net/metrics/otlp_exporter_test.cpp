// An exporter and collectors of all manners, over loopback.

#include "net/otlp_exporter.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "../fake_collector.hpp"
#include "../loopback.hpp"
#include "../test_authority.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The production's periods are seconds; the exporter itself knows no lower bound. A period is a post's deadline, too.
constexpr Nanoseconds kPeriod = 200ms;
constexpr Nanoseconds kTlsPeriod = 500ms;

struct Fixture {
  SystemClock clock;
  EventLoop loop;
  OtlpSettings settings;
  int pages = 0;
  std::vector<std::pair<bool, std::string>> changes;
  std::unique_ptr<OtlpExporter> exporter;

  explicit Fixture(Nanoseconds period = kPeriod) { settings.period = period; }

  Status start(const std::string& url) {
    settings.endpoint = *parse_otlp_endpoint(url);
    OtlpHandlers handlers;
    handlers.page = [this] { return render_metrics({{"pages_total", true, "Pages.", double(++pages), ""}}); };
    handlers.changed = [this](bool well, const std::string& what) { changes.emplace_back(well, what); };
    auto started = OtlpExporter::start(loop, clock, settings, {"trimtab-test", "i0", "0.9", "h0", "n0"},
                                       std::move(handlers), /*seed=*/7);
    if (!started.ok()) return started.error();
    exporter = std::move(started).value();
    return {};
  }
  Status start(const FakeCollector& collector, const std::string& scheme = "http") {
    return start(scheme + "://127.0.0.1:" + std::to_string(collector.port()));
  }

  [[nodiscard]] std::map<std::string, double> counts() const {
    std::vector<Metric> metrics;
    exporter->append(metrics);
    std::map<std::string, double> counts;
    for (const Metric& metric : metrics) counts[metric.labels] = metric.value;
    return counts;
  }
  [[nodiscard]] double count(const std::string& result) const { return counts().at("{result=\"" + result + "\"}"); }
  [[nodiscard]] double all() const {
    double sum = 0;
    for (const auto& [result, count] : counts()) sum += count;
    return sum;
  }
};

CollectorManner answers(const std::string& status, const std::string& headers = "", const std::string& body = "") {
  return {"HTTP/1.1 " + status + "\r\n" + headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
          body};
}

}  // namespace

TEST_CASE("metrics are posted once a period, each time as they are then") {
  Fixture one;
  const FakeCollector collector;
  REQUIRE(one.start(collector).ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("ok") >= 2; }));
  const auto requests = collector.requests();
  const std::string& second = requests.at(1);
  CHECK(second.starts_with("POST /v1/metrics HTTP/1.1\r\n"));
  CHECK(contains(second, "\r\nHost: 127.0.0.1:" + std::to_string(collector.port()) + "\r\n"));
  CHECK(contains(second, "\r\nContent-Type: application/json\r\n"));
  CHECK(contains(second, "\r\nUser-Agent: trimtab-test/0.9\r\n"));
  CHECK_FALSE(contains(second, "Authorization"));
  CHECK(contains(second, R"("name":"pages_total")"));
  CHECK(contains(second, R"("asDouble":2})"));
  REQUIRE(one.changes.size() == 1);
  CHECK(one.changes[0].first);
  CHECK(contains(one.changes[0].second, ", not encrypted"));
}

TEST_CASE("a collector that is not there is told of once") {
  Fixture one;
  REQUIRE(one.start("http://127.0.0.1:" + std::to_string(unused_port())).ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("unreachable") >= 2; }));
  REQUIRE(one.changes.size() == 1);
  CHECK_FALSE(one.changes[0].first);
  CHECK(contains(one.changes[0].second, "nothing listens on 127.0.0.1:"));
}

TEST_CASE("a slow collector is given up at the deadline, and is well when it answers again") {
  Fixture one(50ms);
  FakeCollector collector({.reply = "", .silent = true});
  REQUIRE(one.start(collector).ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("timeout") >= 2 && collector.given_up() >= 2; }));
  collector.behave({});
  REQUIRE(run_until(one.loop, [&] { return one.count("ok") >= 1; }));
  REQUIRE(one.changes.size() == 2);
  CHECK(contains(one.changes[0].second, "no answer from 127.0.0.1:"));
  CHECK(one.changes[1].first);
}

TEST_CASE("a collector that asks to be left alone is") {
  for (const char* status : {"429 Too Many Requests", "503 Service Unavailable"}) {
    Fixture one;
    const FakeCollector collector(answers(status, "Retry-After: 100\r\n", R"({"message":"later"})"));
    REQUIRE(one.start(collector).ok());
    REQUIRE(run_until(one.loop, [&] { return one.count("throttled") == 1; }));
    CHECK(contains(one.changes.at(0).second, std::string("status ") + std::string(status, 3) + ": later"));
    CHECK_FALSE(run_until(
        one.loop, [&] { return collector.connections() > 1; }, 3 * kPeriod));
  }
}

TEST_CASE("a collector that throttles and names no time is asked again after a period") {
  Fixture one;
  const FakeCollector collector(answers("503 Service Unavailable"));
  REQUIRE(one.start(collector).ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("throttled") >= 2; }));
  CHECK(one.changes.size() == 1);
}

TEST_CASE("refusals and values that are rejected are counted apart") {
  Fixture one;
  FakeCollector collector(answers("404 Not Found"));
  REQUIRE(one.start(collector).ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("refused") >= 2; }));
  collector.behave(answers("200 OK", "", R"({"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too old"}})"));
  REQUIRE(run_until(one.loop, [&] { return one.count("partial") >= 2; }));
  REQUIRE(one.changes.size() >= 2);  // more on a machine that is busy for longer than a post may take
  CHECK(contains(one.changes.back().second, "it rejects 7 values: too old"));
  CHECK_FALSE(one.changes.back().first);
}

TEST_CASE("a reply without an end is given up at once, wherever it has none") {
  for (const char* begin : {"HTTP/1.1 200 OK\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"}) {
    Fixture one(2s);  // Its deadline does not end it.
    const FakeCollector collector({.reply = begin, .endless = true});
    REQUIRE(one.start(collector).ok());
    REQUIRE(run_until(one.loop, [&] { return one.all() == 1; }));
    CHECK(one.count("malformed") == 1);
    REQUIRE(run_until(one.loop, [&] { return collector.given_up() == 1; }));
  }
}

TEST_CASE("what is no HTTP, or breaks off, is no answer") {
  Fixture one;
  FakeCollector collector({"SSH-2.0-OpenSSH_9.2\r\n\r\n"});
  REQUIRE(one.start(collector).ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("malformed") >= 1; }));
  collector.behave({"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"});
  REQUIRE(run_until(one.loop, [&] { return one.count("unreachable") >= 1; }));
  collector.behave({""});
  const double before = one.count("unreachable");
  REQUIRE(run_until(one.loop, [&] { return one.count("unreachable") > before + 1; }));
}

TEST_CASE("an exporter that ends drops its post, and nobody is told") {
  Fixture one(2s);  // The deadline is as far away; the end is not.
  const FakeCollector collector({.reply = "", .silent = true});
  REQUIRE(one.start(collector).ok());
  REQUIRE(run_until(one.loop, [&] { return collector.requests().size() == 1; }));
  one.exporter.reset();
  REQUIRE(run_until(
      one.loop, [&] { return collector.given_up() == 1; }, 1s));
  CHECK(one.changes.empty());
}

TEST_CASE("a collector under TLS of the authority gets the metrics and the token") {
  const TemporaryDirectory directory;
  const TestAuthority authority(directory, "ca");
  const FakeCollector collector(
      {}, authority.write(CertificateKind::kCoordinator, "otel", SystemClock().wall(), 24h, {"127.0.0.1"}));
  Fixture one(kTlsPeriod);
  one.settings.authority = authority.certificate_file();
  one.settings.token_file = directory / "token";
  std::ofstream(one.settings.token_file) << "se.cr=et\n";
  std::filesystem::permissions(one.settings.token_file, std::filesystem::perms::owner_read);
  REQUIRE(one.start(collector, "https").ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("ok") >= 1; }));
  CHECK(contains(collector.requests().at(0), "\r\nAuthorization: Bearer se.cr=et\r\n"));
  CHECK_FALSE(contains(one.changes.at(0).second, "not encrypted"));
}

TEST_CASE("a collector of another authority is told nothing, until the authority's file is replaced") {
  const TemporaryDirectory directory;
  const TestAuthority authority(directory, "ca");
  const TestAuthority stranger(directory, "stranger");
  const FakeCollector collector(
      {}, authority.write(CertificateKind::kCoordinator, "otel", SystemClock().wall(), 24h, {"127.0.0.1"}));
  Fixture one(kTlsPeriod);
  one.settings.authority = directory / "trusted.crt";
  std::filesystem::copy_file(stranger.certificate_file(), one.settings.authority);
  REQUIRE(one.start(collector, "https").ok());
  REQUIRE(run_until(one.loop, [&] { return one.count("unreachable") >= 1; }));
  CHECK(collector.requests().empty());
  CHECK(contains(one.changes.at(0).second,
                 "is not of the authority that is trusted here (unable to get local issuer certificate)"));

  std::ofstream(one.settings.authority) << "no certificate";
  REQUIRE(run_until(one.loop, [&] { return one.changes.size() == 2; }));
  CHECK(contains(one.changes[1].second, "stays as it was"));

  std::filesystem::remove(one.settings.authority);
  std::filesystem::copy_file(authority.certificate_file(), one.settings.authority);
  REQUIRE(run_until(one.loop, [&] { return one.count("ok") >= 1; }));
}

TEST_CASE("a collector is believed under the name that was asked for alone, and by the system's authorities no more") {
  const TemporaryDirectory directory;
  const TestAuthority authority(directory, "ca");
  const FakeCollector elsewhere(
      {}, authority.write(CertificateKind::kCoordinator, "otel", SystemClock().wall(), 24h, {"otel.lab"}));
  for (const std::string& trusted : {authority.certificate_file(), std::string()}) {
    Fixture one(kTlsPeriod);
    one.settings.authority = trusted;
    REQUIRE(one.start(elsewhere, "https").ok());
    REQUIRE(run_until(one.loop, [&] { return one.count("unreachable") >= 1; }));
    CHECK(contains(one.changes.at(0).second, trusted.empty() ? "unable to get local issuer" : "IP address mismatch"));
  }
  CHECK(elsewhere.requests().empty());
}

TEST_CASE("an exporter does not start with files that it cannot use") {
  const TemporaryDirectory directory;
  Fixture one;
  one.settings.authority = directory / "absent.crt";
  CHECK(contains(one.start("https://127.0.0.1:1").error().message, "absent.crt"));
  one.settings.authority = "";
  one.settings.token_file = directory / "token";
  std::ofstream(one.settings.token_file) << "secret";
  std::filesystem::permissions(one.settings.token_file, std::filesystem::perms(0644));
  CHECK(contains(one.start("https://127.0.0.1:1").error().message, "everybody can read it"));
  std::filesystem::permissions(one.settings.token_file, std::filesystem::perms(0600));
  CHECK(contains(one.start("http://192.0.2.1:1").error().message, "otlp_token_file"));
}

TEST_CASE("a token's file that has gone stops the posts until it is back") {
  const TemporaryDirectory directory;
  const FakeCollector collector;
  Fixture one;
  one.settings.token_file = directory / "token";
  const auto write = [&] {
    std::ofstream(one.settings.token_file) << "secret";
    std::filesystem::permissions(one.settings.token_file, std::filesystem::perms(0600));
  };
  write();
  REQUIRE(one.start(collector).ok());
  std::filesystem::remove(one.settings.token_file);
  REQUIRE(run_until(one.loop, [&] { return one.count("unreachable") >= 2; }));
  CHECK(collector.connections() == 0);
  CHECK(contains(one.changes.at(0).second, "couldn't read " + one.settings.token_file));
  write();
  REQUIRE(run_until(one.loop, [&] { return one.count("ok") >= 1; }));
}
