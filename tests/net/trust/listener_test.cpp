// Whose a listener on loopback is: as the kernel says, and with answers of which each look gets the next.

#include "trust/listener.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
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

  [[nodiscard]] tcp::endpoint here() { return stream.socket().local_endpoint(); }
  [[nodiscard]] tcp::endpoint there() { return stream.socket().remote_endpoint(); }

  std::string judge(const ListenerRule& rule, Nanoseconds patience = 5s, SocketHolder holder = socket_holder) {
    std::vector<std::string> said;
    judge_listener(
        stream, rule, patience, [&](const std::string& text) { said.push_back(text); }, std::move(holder));
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

using Holder = std::optional<uid_t>;

// Each look gets the next answer, then the last one again.
SocketHolder in_turn(std::vector<Holder> holders, int& looks) {
  return [holders = std::move(holders), &looks](const tcp::endpoint&, const tcp::endpoint&) -> Result<Holder> {
    const auto place = static_cast<std::size_t>(looks++);
    return holders[std::min(place, holders.size() - 1)];
  };
}

// Whether the kernel is asked or its tables are read, where it does both.
void check_holder(const tcp::endpoint& local, const tcp::endpoint& remote, const Holder& expected) {
  const auto listed = listed_holder(local, remote);
  REQUIRE(listed.ok());
  CHECK(*listed == expected);
  const auto asked = asked_holder(local, remote);
  if (!asked.ok()) WARN("nothing was shown of questions to the kernel: " + asked.error().message);
  if (asked.ok()) CHECK(*asked == expected);
}

}  // namespace

TEST_CASE("the own user's listener is known, of both families") {
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
  const std::string said = connected.judge({}, 5s, in_turn({kStranger}, looks));
  CHECK(said.find("the listener belongs to user 4000011, and expected was root") == 0);
  CHECK(said.find("trimtab-coordinator") != std::string::npos);
  CHECK(said.find("coordinator_user 4000011") != std::string::npos);
  CHECK(connected.judge({"4000011"}, 5s, in_turn({kStranger}, looks)).empty());
}

TEST_CASE("a connection that is not accepted yet is looked at again, and is not taken for root's") {
  Connected connected;
  int looks = 0;
  CHECK_FALSE(connected.judge({}, 5s, in_turn({Holder(), Holder(), kStranger}, looks)).empty());
  CHECK(looks == 3);
  CHECK(Connected("127.0.0.1", false).judge({}, 5ms).find("it did not accept in 5") == 0);
}

TEST_CASE("a listener that has closed is not waited for") {
  Connected connected;
  connected.accepted.close();
  CHECK(connected.judge({}, 1h).find("it closed the connection") == 0);
}

TEST_CASE("where the kernel does not say, who would be obeyed or told a secret is refused") {
  Connected connected;
  const auto silent = [](const tcp::endpoint&, const tcp::endpoint&) -> Result<Holder> {
    return unavailable("couldn't read /proc/net/tcp");
  };
  const std::string said = connected.judge({}, 5s, silent);
  CHECK(said.find("couldn't read /proc/net/tcp, so it cannot be seen whose the listener is") == 0);
  ListenerRule lenient;
  lenient.must_be_seen = false;
  CHECK(connected.judge(lenient, 5s, silent).empty());
}

TEST_CASE("a socket is held from when it is accepted until it is closed, and is not its listener") {
  Connected connected("127.0.0.1", false);
  check_holder(connected.there(), connected.here(), std::nullopt);
  connected.acceptor.accept(connected.accepted);
  check_holder(connected.there(), connected.here(), ::geteuid());
  check_holder(connected.there(), {connected.here().address(), 1}, std::nullopt);
  const auto here = connected.here();
  const auto there = connected.there();
  connected.accepted.close();
  check_holder(there, here, std::nullopt);
}

TEST_CASE("a listener of both families holds a connection of IPv4") {
  boost::system::error_code none;
  asio::io_context io{1};
  asio::basic_socket_acceptor<tcp, asio::io_context::executor_type> both(io);
  both.open(tcp::v6(), none);
  if (!none) both.set_option(asio::ip::v6_only(false), none);
  if (!none) both.bind({asio::ip::address_v6::any(), 0}, none);
  if (none) return;  // no IPv6 here
  both.listen();
  Stream stream(io);
  stream.socket().connect({asio::ip::make_address("127.0.0.1"), both.local_endpoint().port()});
  TcpSocket accepted(io);
  both.accept(accepted);
  check_holder(stream.socket().remote_endpoint(), stream.socket().local_endpoint(), ::geteuid());
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
