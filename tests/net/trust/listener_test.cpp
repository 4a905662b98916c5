// Whose a listener on loopback is: with the kernel's own table, and with tables of which each look gets the next.

#include "trust/listener.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <vector>

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr UserNamespace kAll{};
constexpr uid_t kStranger = 4'000'011;

// A connection whose other end is accepted or waits to be.
struct Connected {
  explicit Connected(const std::string& address = "127.0.0.1", bool accept = true)
      : acceptor(io, tcp::endpoint(asio::ip::make_address(address), 0)), stream(io), accepted(io) {
    stream.socket().connect(acceptor.local_endpoint());
    if (accept) acceptor.accept(accepted);
  }

  // A row of the kernel's table for the other end.
  [[nodiscard]] std::string row(uid_t user, int inode) {
    std::array<char, 200> text{};
    std::snprintf(text.data(), text.size(), "0: 0100007F:%04X 0100007F:%04X 01 0:0 0:0 0 %u 0 %d 1\n",
                  stream.socket().remote_endpoint().port(), stream.socket().local_endpoint().port(), user, inode);
    return text.data();
  }

  std::string judge(const ListenerRule& rule, Nanoseconds patience = 5s, ReadSocketTable read = read_socket_table) {
    std::vector<std::string> said;
    judge_listener(
        stream, rule, patience, [&](const std::string& text) { said.push_back(text); }, std::move(read));
    io.restart();
    io.run();
    REQUIRE(said.size() == 1);
    return said.front();
  }

  asio::io_context io{1};
  asio::basic_socket_acceptor<tcp, asio::io_context::executor_type> acceptor;
  Stream stream;
  TcpSocket accepted;
};

// Each look at the first table gets the next text, then the last one again.
ReadSocketTable in_turn(std::vector<std::string> texts, int& looks) {
  return [texts = std::move(texts), &looks](const std::string& path) -> Result<std::string> {
    if (path.ends_with('6')) return std::string();
    const auto place = static_cast<std::size_t>(looks++);
    return texts[std::min(place, texts.size() - 1)];
  };
}

}  // namespace

TEST_CASE("the own user's listener is known by the kernel's table, of both families") {
  CHECK(Connected("127.0.0.1").judge({}).empty());
  CHECK(Connected("127.0.0.5").judge({}).empty());
  boost::system::error_code none;
  asio::io_context io{1};
  tcp::acceptor six(io);
  six.open(tcp::v6(), none);
  if (!none) six.bind({asio::ip::make_address("::1"), 0}, none);
  if (none) return;  // no IPv6 here
  CHECK(Connected("::1").judge({}).empty());
}

TEST_CASE("another user's listener is refused, with who it is, who was expected and what to set") {
  Connected connected;
  int looks = 0;
  const std::string said = connected.judge({}, 5s, in_turn({connected.row(kStranger, 9)}, looks));
  CHECK(said.find("the listener belongs to user 4000011, and expected was root") == 0);
  CHECK(said.find("trimtab-coordinator") != std::string::npos);
  CHECK(said.find("coordinator_user 4000011") != std::string::npos);
  CHECK(connected.judge({"4000011"}, 5s, in_turn({connected.row(kStranger, 9)}, looks)).empty());
}

TEST_CASE("a connection that is not accepted yet is looked at again, and is not taken for root's") {
  Connected connected;
  int looks = 0;
  const std::string waits = connected.row(0, 0);
  CHECK_FALSE(connected.judge({}, 5s, in_turn({"", waits, waits, connected.row(kStranger, 9)}, looks)).empty());
  CHECK(looks == 4);
  CHECK(Connected("127.0.0.1", false).judge({}, 5ms).find("it did not accept in 5") == 0);
}

TEST_CASE("a listener that has closed is not waited for") {
  Connected connected;
  connected.accepted.close();
  CHECK(connected.judge({}, 1h).find("it closed the connection") == 0);
}

TEST_CASE("where the table cannot be read, who would be obeyed or told a secret is refused") {
  Connected connected;
  const auto unreadable = [](const std::string& path) -> Result<std::string> { return unavailable("no " + path); };
  const std::string said = connected.judge({}, 5s, unreadable);
  CHECK(said.find("no /proc/net/tcp, so it cannot be seen whose the listener is") == 0);
  ListenerRule lenient;
  lenient.must_be_seen = false;
  CHECK(connected.judge(lenient, 5s, unreadable).empty());
  CHECK_FALSE(read_socket_table("/proc/net/no-such-table").ok());
}

TEST_CASE("root, the own user and the named one may listen, and nobody whom a container cannot tell apart") {
  CHECK(objection_to_listener(0, 1000, kAll, {}).empty());
  CHECK(objection_to_listener(1000, 1000, kAll, {}).empty());
  CHECK(objection_to_listener(1001, 1000, kAll, {"1001"}).empty());
  CHECK(objection_to_listener(1001, 1000, kAll, {"root"}).find("the listener belongs to ") == 0);
  CHECK(objection_to_listener(1001, 1000, kAll, {"no-such-user"}).find("no-such-user (unknown here)") !=
        std::string::npos);
  CHECK_THAT(objection_to_listener(1001, 0, kAll, {"no-such-user"}),
             Catch::Contains("expected was root or no-such-user (unknown here)"));
  CHECK_THAT(objection_to_listener(1001, 0, kAll, {"root"}), Catch::Contains("expected was root. Nothing was sent"));
  const UserNamespace container{false, 65534};
  CHECK(objection_to_listener(65534, 65534, container, {"65534"}).find("may be anybody") != std::string::npos);
  CHECK(objection_to_listener(1000, 1000, container, {}).empty());
}
