// Whose a connection over loopback is, by real sockets of several users.

#include "net/local_user.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "base/descriptor.hpp"

using namespace trimtab;
using namespace trimtab::net;

namespace {

std::string name_of(const sockaddr_in& end) {
  return "127.0.0.1:" + std::to_string(ntohs(end.sin_port));
}

struct Listener {
  Descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in end{};

  Listener() {
    end.sin_family = AF_INET;
    end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(end);
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&end), size) == 0);
    REQUIRE(::listen(socket.get(), 8) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&end), &size) == 0);
  }
};

// A process of this user that is connected until its input ends.
struct Client {
  int input[2] = {-1, -1};
  pid_t process = -1;

  Client(const Listener& listener, uid_t user) {
    REQUIRE(::pipe(input) == 0);
    process = ::fork();
    if (process == 0) {
      ::close(input[1]);
      // The kernel knows a socket by who has made it.
      const bool is_user = user == ::geteuid() || ::setuid(user) == 0;
      const int socket = is_user ? ::socket(AF_INET, SOCK_STREAM, 0) : -1;
      char byte = 0;
      if (::connect(socket, reinterpret_cast<const sockaddr*>(&listener.end), sizeof(listener.end)) == 0) {
        while (::read(input[0], &byte, 1) > 0) {
        }
      }
      ::_exit(0);
    }
    ::close(input[0]);
  }
  ~Client() { end(); }
  void end() {
    if (process < 0) return;
    ::close(input[1]);
    ::waitpid(std::exchange(process, -1), nullptr, 0);
  }
};

}  // namespace

TEST_CASE("a connection over loopback is its user's until it is closed", "[local_user]") {
  const uid_t user = ::geteuid() == 0 ? 4321 : ::geteuid();
  const Listener listener;
  Client client(listener, user);
  sockaddr_in other{};
  socklen_t size = sizeof(other);
  const Descriptor accepted(::accept(listener.socket.get(), reinterpret_cast<sockaddr*>(&other), &size));
  REQUIRE(accepted);
  if (!local_user(name_of(other), name_of(listener.end))) {
    WARN("this kernel tells nobody of sockets by sock_diag: nothing was shown");
    return;
  }
  CHECK(local_user(name_of(other), name_of(listener.end)) == user);
  CHECK_FALSE(local_user(name_of(other), "127.0.0.1:1"));
  client.end();
  CHECK_FALSE(local_user(name_of(other), name_of(listener.end)));
}

TEST_CASE("of what is no connection over loopback nobody is told", "[local_user]") {
  for (const char* end :
       {"", ":", "10.0.0.7:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", "[::1]:9"}) {
    INFO(end);
    CHECK_FALSE(local_user(end, "127.0.0.1:7421"));
    CHECK_FALSE(local_user("127.0.0.1:7421", end));
  }
}
