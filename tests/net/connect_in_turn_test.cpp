// A host with several addresses, some of which swallow what is sent to them: a listener that accepts nobody, behind a
// queue that is full.

#include "stream.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/error.hpp>
#include <catch2/catch.hpp>
#include <vector>

using namespace trimtab::net;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// 127.0.0.`last`, one port for all of them.
tcp::endpoint place(int last, std::uint16_t port) {
  return {asio::ip::make_address("127.0.0." + std::to_string(last)), port};
}

class Listener {
 public:
  Listener(int last, std::uint16_t port, bool silent) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const tcp::endpoint address = place(last, port);
    REQUIRE(::bind(socket_, address.data(), static_cast<socklen_t>(address.size())) == 0);
    REQUIRE(::listen(socket_, silent ? 0 : 8) == 0);
    socklen_t size = sizeof bound_;
    REQUIRE(::getsockname(socket_, static_cast<sockaddr*>(static_cast<void*>(&bound_)), &size) == 0);
    if (silent) fill();
  }
  ~Listener() {
    ::close(socket_);
    for (const int waiting : waiting_) ::close(waiting);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  [[nodiscard]] std::uint16_t port() const { return ntohs(bound_.sin_port); }

 private:
  // The queue holds one more than it was asked for.
  void fill() {
    for (int i = 0; i < 3; ++i) {
      waiting_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      static_cast<void>(
          ::connect(waiting_.back(), static_cast<const sockaddr*>(static_cast<const void*>(&bound_)), sizeof bound_));
    }
  }

  int socket_;
  sockaddr_in bound_{};
  std::vector<int> waiting_;
};

struct Outcome {
  int calls = 0;
  boost::system::error_code failure;
  tcp::endpoint address;
};

Outcome connect(const std::vector<tcp::endpoint>& addresses, std::chrono::nanoseconds close_after = {}) {
  asio::io_context io{1};
  Stream stream(io);
  Outcome outcome;
  connect_in_turn(stream, std::make_shared<const Addresses>(addresses), 150ms,
                  [&](boost::system::error_code failure, const tcp::endpoint& address) {
                    outcome = {outcome.calls + 1, failure, address};
                    stream.expires_never();
                  });
  asio::steady_timer closing(io);
  if (close_after.count() > 0) {
    closing.expires_after(close_after);
    closing.async_wait([&](boost::system::error_code) { stream.close(); });
  }
  io.run();
  return outcome;
}

}  // namespace

TEST_CASE("an address that is silent or refuses does not keep a client from the next one") {
  const Listener good(1, 0, false);
  const Listener silent(2, good.port(), true);
  const auto refusing = place(3, good.port());
  for (const auto& first : {place(2, good.port()), refusing}) {
    const Outcome outcome = connect({first, place(1, good.port())});
    CHECK(outcome.calls == 1);
    CHECK_FALSE(outcome.failure);
    CHECK(outcome.address == place(1, good.port()));
  }
  const Outcome third = connect({refusing, place(2, good.port()), place(1, good.port())});
  CHECK_FALSE(third.failure);
}

TEST_CASE("where no address answers, the last one's failure is told, once") {
  const Listener silent(2, 0, true);
  const Outcome refused = connect({place(2, silent.port()), place(3, silent.port())});
  CHECK(refused.calls == 1);
  CHECK(refused.failure == asio::error::connection_refused);
  const Outcome timed_out = connect({place(3, silent.port()), place(2, silent.port())});
  CHECK(timed_out.calls == 1);
  CHECK(timed_out.failure == boost::beast::error::timeout);
}

TEST_CASE("a stream that is closed while it connects tries no other address") {
  const Listener good(1, 0, false);
  const Listener silent(2, good.port(), true);
  const Outcome outcome = connect({place(2, good.port()), place(1, good.port())}, 20ms);
  CHECK(outcome.calls == 1);
  CHECK(outcome.failure == asio::error::operation_aborted);
}
