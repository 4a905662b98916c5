#include "loopback.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

namespace trimtab::net {

void while_loop_runs(EventLoop& loop, const std::function<void()>& client) {
  bool late = false;
  const auto watchdog = loop.after(std::chrono::seconds(20), [&] {
    late = true;
    loop.stop();
  });
  std::thread thread([&] {
    client();
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  thread.join();
  REQUIRE_FALSE(late);
}

bool run_until(EventLoop& loop, const std::function<bool()>& done, Nanoseconds limit) {
  bool late = false;
  const auto watchdog = loop.after(limit, [&] {
    late = true;
    loop.stop();
  });
  const auto look = loop.every(std::chrono::milliseconds(1), [&] {
    if (done()) loop.stop();
  });
  loop.run();
  return !late;
}

namespace {

void give_up_after_a_while(int descriptor) {
  const timeval limit{15, 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

template <typename Address>
const sockaddr* generic(const Address& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

}  // namespace

RawClient RawClient::tcp(std::uint16_t port) {
  RawClient client;
  client.descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  give_up_after_a_while(client.descriptor_);
  client.connected_ = ::connect(client.descriptor_, generic(address), sizeof address) == 0;
  return client;
}

RawClient RawClient::unix_socket(const std::string& path) {
  RawClient client;
  client.descriptor_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof(address.sun_path) - 1));
  give_up_after_a_while(client.descriptor_);
  client.connected_ = ::connect(client.descriptor_, generic(address), sizeof address) == 0;
  return client;
}

RawClient::RawClient(RawClient&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}

RawClient::~RawClient() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RawClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool RawClient::send_with_descriptors(std::string_view bytes, const std::vector<int>& descriptors) const {
  std::string copy(bytes);
  iovec part{copy.data(), copy.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 16)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
  return ::sendmsg(descriptor_, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(copy.size());
}

std::string RawClient::read_all() const {
  std::string all;
  std::array<char, 4096> bytes{};
  while (true) {
    const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (count <= 0) return all;
    all.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

std::string RawClient::read_exactly(std::size_t count) const {
  std::string bytes(count, '\0');
  const ssize_t got = ::recv(descriptor_, bytes.data(), count, MSG_WAITALL);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

void RawClient::shut_down_sending() const {
  ::shutdown(descriptor_, SHUT_WR);
}

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "trimtab-net-XXXXXX").string();
  REQUIRE(::mkdtemp(path_.data()) != nullptr);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace trimtab::net
