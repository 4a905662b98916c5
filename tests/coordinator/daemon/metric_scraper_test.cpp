// The readings of /metrics that accompany the load of many agents (bench/agents_load).

#include "../../../bench/agents_load/metric_scraper.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>

#include "loopback.hpp"
#include "net/server.hpp"

using namespace trimtab;
using namespace trimtab::load;
using namespace std::chrono_literals;

namespace {

const std::string kPage = "# HELP trimtab_nodes Nodes.\ntrimtab_nodes 3\n";

struct Fixture {
  SystemClock clock;
  net::EventLoop loop;
  net::HttpResponse answer{200, "text/plain", kPage};
  std::uint64_t asked = 0;
  std::function<void()> when_asked = [] {};
  std::unique_ptr<net::Server> server;
  MetricScraper scraper{loop, clock};

  Fixture() {
    auto started = net::Server::start(loop, {},
                                      {[this](const net::HttpRequest& request) {
                                         CHECK(request.path == "/metrics");
                                         ++asked;
                                         when_asked();
                                         return answer;
                                       },
                                       {},
                                       {},
                                       {}});
    REQUIRE(started.ok());
    server = std::move(started).value();
  }
  // The loop answers what is still on its way.
  ~Fixture() {
    scraper.stop();
    (void)net::run_until(loop, [this] { return scraper.idle(); });
  }
  void start(Nanoseconds period) {
    net::HttpEndpoint endpoint;
    endpoint.port = server->port();
    scraper.start(endpoint, period);
  }
  [[nodiscard]] const Scrapes& scrapes() const { return scraper.scrapes(); }
  [[nodiscard]] bool until_made(std::uint64_t count) {
    return net::run_until(loop, [&] { return scrapes().made >= count; });
  }
  // Some more periods of 2 ms.
  void go_on() {
    int looks = 0;
    (void)net::run_until(loop, [&] { return ++looks == 20; });
  }
};

}  // namespace

TEST_CASE("a scraper reads the page at once and then each period, and keeps the largest and the slowest") {
  Fixture fixture;
  fixture.start(2ms);
  REQUIRE(fixture.until_made(2));
  fixture.answer.body = kPage + kPage;
  REQUIRE(fixture.until_made(fixture.scrapes().made + 2));
  fixture.answer.body = kPage;
  REQUIRE(fixture.until_made(fixture.scrapes().made + 2));
  CHECK(fixture.scrapes().failed == 0);
  CHECK(fixture.scrapes().slowest > 0ns);
  CHECK(fixture.scrapes().largest_page == static_cast<Bytes>(2 * kPage.size()));
}

TEST_CASE("an answer that is no page of metrics is a failed scrape, and says why") {
  Fixture fixture;
  std::string reason;
  SECTION("another status") {
    fixture.answer = {503, "text/plain", kPage};
    reason = "status 503 instead of 200";
  }
  SECTION("a page without metrics") {
    fixture.answer.body = "<html></html>";
    reason = "the page has no metric";
  }
  fixture.start(1h);
  REQUIRE(fixture.until_made(1));
  CHECK(fixture.scrapes().failed == 1);
  CHECK(fixture.scrapes().last_failure == reason);
  CHECK(fixture.scrapes().largest_page == 0);
}

TEST_CASE("a daemon that nobody can reach is a failed scrape") {
  Fixture fixture;
  net::HttpEndpoint endpoint;
  endpoint.port = fixture.server->port();
  fixture.server.reset();
  fixture.scraper.start(endpoint, 1h);
  REQUIRE(fixture.until_made(1));
  CHECK(fixture.scrapes().failed == 1);
  CHECK_THAT(fixture.scrapes().last_failure, Catch::Contains("nothing listens"));
}

TEST_CASE("what is on its way when the scraper pauses does not count, and none is begun before it goes on") {
  Fixture fixture;
  fixture.answer.status = 500;
  fixture.when_asked = [&] { fixture.scraper.pause(); };
  fixture.start(2ms);
  REQUIRE(net::run_until(fixture.loop, [&] { return fixture.asked == 1 && fixture.scraper.idle(); }));
  fixture.go_on();
  CHECK(fixture.asked == 1);
  CHECK(fixture.scrapes().made == 0);
  fixture.answer.status = 200;
  fixture.when_asked = [] {};
  fixture.scraper.resume();
  REQUIRE(fixture.until_made(1));
  CHECK(fixture.scrapes().failed == 0);
}

TEST_CASE("a scraper that has stopped counts what was on its way, and begins none") {
  Fixture fixture;
  fixture.when_asked = [&] { fixture.scraper.stop(); };
  fixture.start(2ms);
  REQUIRE(net::run_until(fixture.loop, [&] { return fixture.scraper.idle(); }));
  fixture.go_on();
  CHECK(fixture.asked == 1);
  CHECK(fixture.scrapes().made == 1);
}
