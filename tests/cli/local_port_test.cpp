#include "local_port.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "base/descriptor.hpp"

using namespace trimtab;

TEST_CASE("a port on which somebody listens is passed over") {
  const Descriptor listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  REQUIRE(bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(listening.get(), 1) == 0);
  socklen_t size = sizeof address;
  REQUIRE(getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::uint16_t taken = ntohs(address.sin_port);
  CHECK_FALSE(cli::port_free(taken));
  CHECK(cli::free_port_from(taken) != taken);
}
