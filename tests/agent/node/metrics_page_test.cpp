#include "node/metrics_page.hpp"

#include <catch2/catch.hpp>
#include <map>

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

struct World {
  ManualClock clock;
  int made = 0;
  std::map<std::string, uid_t> users;  // by address
  MetricsPage page{clock, [this] { return std::to_string(++made); },
                   [this](const std::string& address) {
                     const auto found = users.find(address);
                     return found == users.end() ? std::nullopt : std::optional(found->second);
                   }};

  bool answered(const std::string& address) {
    net::HttpRequest head;
    head.address = address;
    const auto refused = page.too_often(head);
    if (!refused) (void)page.text();
    return !refused;
  }
};

}  // namespace

TEST_CASE("a page of metrics is made anew every half second at most") {
  World world;
  CHECK(world.page.text() == "1");
  world.clock.advance(MetricsPage::kKept - 1ns);
  CHECK(world.page.text() == "1");
  world.clock.advance(1ns);
  CHECK(world.page.text() == "2");
  world.clock.advance(1h);
  CHECK(world.page.text() == "3");
}

TEST_CASE("a flood of requests for metrics is refused, costs a few pages, and keeps no other caller waiting") {
  World world;
  int answered = 0;
  for (int i = 0; i < 100'000; ++i) {
    answered += world.answered("127.0.0.1:" + std::to_string(1024 + i % 60'000)) ? 1 : 0;
    if (i % 10'000 == 0) CHECK(world.answered("10.0.0.7:5000"));
    world.clock.advance(100us);
  }
  // Ten seconds, and five seconds' worth at once.
  CHECK(answered >= 15 * 20 - 1);
  CHECK(answered <= 15 * 20 + 1);
  CHECK(world.made <= 20);
}

TEST_CASE("callers with a certificate are told apart by its name, wherever they ask from") {
  World world;
  net::HttpRequest head;
  head.address = "10.0.0.7:5000";
  head.peer.emplace();
  head.peer->name = "ana";
  for (std::uint32_t i = 0; i < 5 * MetricsPage::kRequestsPerSecond; ++i) CHECK_FALSE(world.page.too_often(head));
  head.address = "10.0.0.8:5000";
  CHECK(world.page.too_often(head) == "'ana' asks for metrics more often than 20 times a second");
  head.peer->name = "bob";
  CHECK_FALSE(world.page.too_often(head));
}

TEST_CASE("a user of this machine who asks too often is told so, and takes nothing of another's") {
  World world;
  world.users = {{"127.0.0.1:5000", 1000}, {"127.0.0.1:5001", 1000}, {"127.0.0.1:6000", 1001}};
  for (std::uint32_t i = 0; i < 5 * MetricsPage::kRequestsPerSecond; ++i) CHECK(world.answered("127.0.0.1:5000"));
  CHECK_FALSE(world.answered("127.0.0.1:5001"));
  net::HttpRequest head;
  head.address = "127.0.0.1:5001";
  CHECK(world.page.too_often(head) == "user 1000 of this machine asks for metrics more often than 20 times a second");
  CHECK(world.answered("127.0.0.1:6000"));
  CHECK(world.answered("127.0.0.1:7000"));  // of whom nothing is known
}
