#include "silence_watch.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::net;

using Verdict = SilenceWatch::Verdict;

namespace {

TransportProgress progress(std::uint64_t acknowledged, std::uint64_t received, std::uint64_t waiting) {
  return {acknowledged, received, waiting};
}

}  // namespace

TEST_CASE("a peer of which nothing comes is asked once, and then gone") {
  SilenceWatch watch;
  CHECK(watch.look(progress(10, 20, 0)) == Verdict::kAlive);
  CHECK(watch.look(progress(10, 21, 0)) == Verdict::kAlive);
  CHECK(watch.look(progress(10, 21, 0)) == Verdict::kAsk);
  CHECK(watch.look(progress(10, 22, 0)) == Verdict::kAlive);
  CHECK(watch.look(progress(10, 22, 0)) == Verdict::kAsk);
  CHECK(watch.look(progress(10, 22, 0)) == Verdict::kGone);
}

TEST_CASE("on a slow link a peer that takes what waits for it is not silent") {
  SilenceWatch watch;
  for (std::uint64_t taken = 1; taken < 100; ++taken) CHECK(watch.look(progress(taken, 7, 5000)) == Verdict::kAlive);
  CHECK(watch.look(progress(99, 7, 5000)) == Verdict::kAsk);
  CHECK(watch.look(progress(99, 7, 5000)) == Verdict::kGone);
}

TEST_CASE("a process that is frozen is silent, although its kernel takes heartbeats") {
  SilenceWatch watch;
  CHECK(watch.look(progress(100, 7, 0)) == Verdict::kAlive);
  CHECK(watch.look(progress(150, 7, 0)) == Verdict::kAsk);
  CHECK(watch.look(progress(200, 7, 0)) == Verdict::kGone);
}

TEST_CASE("the kernel says what a connection has sent, received and holds") {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  REQUIRE(::bind(listener, generic, size) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  REQUIRE(::getsockname(listener, generic, &size) == 0);
  const int one = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(::connect(one, generic, size) == 0);
  const int other = ::accept(listener, nullptr, nullptr);
  REQUIRE(other >= 0);
  REQUIRE(::send(one, "12345", 5, 0) == 5);
  char bytes[5];
  REQUIRE(::recv(other, bytes, 5, MSG_WAITALL) == 5);
  CHECK(transport_progress(other).received == 5);
  CHECK(transport_progress(one).received == 0);
  for (int tries = 0; tries < 5000 && transport_progress(one).acknowledged < 5; ++tries) ::poll(nullptr, 0, 1);
  CHECK(transport_progress(one).acknowledged >= 5);
  CHECK(transport_progress(one).waiting == 0);
  CHECK(transport_progress(-1).received == 0);
  for (const int descriptor : {listener, one, other}) ::close(descriptor);
}
