#include "net/daemon.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "loopback.hpp"

using namespace trimtab;
using namespace trimtab::net;

namespace {

// What a service manager listens on. `name` as in NOTIFY_SOCKET.
class Manager {
 public:
  explicit Manager(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.c_str(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    REQUIRE(::bind(socket_, generic, size) == 0);
  }
  ~Manager() { ::close(socket_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // The datagrams that have come.
  const std::vector<std::string>& heard() {
    char buffer[512];
    for (;;) {
      const ssize_t size = ::recv(socket_, buffer, sizeof buffer, 0);
      if (size < 0) return heard_;
      heard_.emplace_back(buffer, static_cast<std::size_t>(size));
    }
  }
  std::size_t beats() {
    const auto& all = heard();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), "WATCHDOG=1\n"));
  }

 private:
  int socket_;
  std::vector<std::string> heard_;
};

}  // namespace

TEST_CASE("a service manager hears when a daemon serves, reloads and stops, with a line for people") {
  const TemporaryDirectory directory;
  Manager manager(directory / "notify");
  EventLoop loop;
  ServiceNotice notice(loop, {directory / "notify", "", ""});
  CHECK(notice.problem().empty());
  CHECK(manager.heard().empty());
  notice.ready([] { return std::string("two\nlines"); });
  bool reloaded = false;
  notice.reload([&] {
    reloaded = true;
    CHECK(manager.heard().back().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  });
  CHECK(reloaded);
  notice.stopping();
  const auto& heard = manager.heard();
  REQUIRE(heard.size() == 4);
  CHECK(heard[0] == "READY=1\nSTATUS=two lines\n");
  CHECK(heard[2] == "READY=1\n");
  CHECK(heard[3] == "STOPPING=1\n");
  CHECK(notice.lost() == 0);
}

TEST_CASE("a watchdog gets beats while the loop turns, under an abstract name too") {
  const std::string name = "@trimtab-test-" + std::to_string(::getpid());
  Manager manager(name);
  EventLoop loop;
  ServiceNotice notice(loop, {name, "10000", std::to_string(::getpid())});
  const auto nothing = loop.after(std::chrono::milliseconds(30), [&] { loop.stop(); });
  loop.run();
  CHECK(manager.beats() == 0);  // it does not serve yet
  notice.ready({});
  CHECK(run_until(loop, [&] { return manager.beats() >= 4; }));
}

TEST_CASE("another process's watchdog is not fed") {
  const TemporaryDirectory directory;
  Manager manager(directory / "notify");
  EventLoop loop;
  ServiceNotice notice(loop, {directory / "notify", "1000", "1"});
  notice.ready({});
  const auto end = loop.after(std::chrono::milliseconds(30), [&] { loop.stop(); });
  loop.run();
  CHECK(manager.beats() == 0);
  CHECK(manager.heard().front() == "READY=1\n");
}

TEST_CASE("without a manager, with one that has gone or one that cannot be understood, a daemon runs all the same") {
  const TemporaryDirectory directory;
  EventLoop loop;
  ServiceNotice alone(loop, {});
  CHECK(alone.problem().empty());
  alone.ready([] { return std::string("never asked"); });
  ServiceNotice left(loop, {directory / "nobody", "", ""});
  left.ready({});
  left.stopping();
  CHECK(left.lost() == 2);
  CHECK(ServiceNotice(loop, {"vsock:2:1234", "", ""}).problem().find("'vsock:2:1234'") != std::string::npos);
  CHECK(ServiceNotice(loop, {"/" + std::string(200, 'x'), "", ""}).problem().find("shorter") != std::string::npos);
  CHECK(ServiceNotice(loop, {"/x", "soon", ""}).problem().find("'soon'") != std::string::npos);
  CHECK(ServiceNotice(loop, {"/x", "-1", ""}).problem().find("'-1'") != std::string::npos);
}

TEST_CASE("a service manager that reads nothing stops nobody") {
  const TemporaryDirectory directory;
  Manager manager(directory / "notify");
  EventLoop loop;
  ServiceNotice notice(loop, {directory / "notify", "", ""});
  for (int i = 0; i < 10'000; ++i) notice.stopping();
  CHECK(notice.lost() > 0);
}

TEST_CASE("what a daemon starts does not inherit its manager") {
  REQUIRE(::setenv("NOTIFY_SOCKET", "/x", 1) == 0);
  REQUIRE(::setenv("WATCHDOG_USEC", "5", 1) == 0);
  const ServiceVariables taken = take_service_variables();
  CHECK(taken.socket == "/x");
  CHECK(taken.watchdog_usec == "5");
  CHECK(taken.watchdog_pid.empty());
  CHECK(std::getenv("NOTIFY_SOCKET") == nullptr);
  CHECK(std::getenv("WATCHDOG_USEC") == nullptr);
}
