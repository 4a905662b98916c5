#include "trust/socket_user.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/descriptor.hpp"
#include "trust/socket_table.hpp"

namespace trimtab::net {

namespace {

using boost::asio::ip::tcp;

constexpr std::array kTables{"/proc/net/tcp", "/proc/net/tcp6"};

void write_address(const boost::asio::ip::address& address, __be32 (&to)[4]) {
  std::memset(to, 0, sizeof(to));
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

Question question_about(const tcp::endpoint& local, const tcp::endpoint& remote) {
  Question question;
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = local.address().is_v4() ? AF_INET : AF_INET6;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.id.idiag_sport = htons(local.port());
  question.body.id.idiag_dport = htons(remote.port());
  write_address(local.address(), question.body.id.idiag_src);
  write_address(remote.address(), question.body.id.idiag_dst);
  question.body.id.idiag_cookie[0] = question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

Error unanswered(int failure) {
  return unavailable(std::string("the kernel answers no questions about sockets (sock_diag: ") +
                     std::strerror(failure) + ")");
}

template <typename Part>
Part part_of(const std::array<char, 4096>& reply, std::size_t at) {
  Part part{};
  std::memcpy(&part, reply.data() + at, sizeof(part));
  return part;
}

SocketEnd end_of(const tcp::endpoint& endpoint) {
  using boost::asio::ip::make_address_v6;
  const auto address = endpoint.address();
  const auto six = address.is_v4() ? make_address_v6(boost::asio::ip::v4_mapped, address.to_v4()) : address.to_v6();
  SocketEnd end{{}, endpoint.port()};
  std::ranges::copy(six.to_bytes(), end.address.begin());
  return end;
}

// Nothing where this kernel has no table of that name: one without IPv6 has the first alone.
Result<std::string> read_table(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream && errno == ENOENT && path == kTables[1]) return std::string();
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (stream.is_open() && !stream.bad()) return text;
  return unavailable("couldn't read " + path + ": " + std::strerror(errno));
}

}  // namespace

Result<std::optional<uid_t>> asked_holder(const tcp::endpoint& local, const tcp::endpoint& remote) {
  const Descriptor socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  const Question question = question_about(local, remote);
  if (!socket || ::send(socket.get(), &question, sizeof(question), 0) != sizeof(question)) return unanswered(errno);
  // The kernel has answered before send() returns.
  std::array<char, 4096> reply{};
  const ssize_t size = ::recv(socket.get(), reply.data(), reply.size(), 0);
  if (size < 0) return unanswered(errno);
  const auto type = part_of<nlmsghdr>(reply, 0).nlmsg_type;
  if (type == NLMSG_ERROR && size >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(int)))) {
    const int failure = -part_of<int>(reply, NLMSG_HDRLEN);
    return failure == ENOENT ? Result<std::optional<uid_t>>(std::nullopt) : unanswered(failure);
  }
  if (type != SOCK_DIAG_BY_FAMILY || size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) {
    return unanswered(EBADMSG);
  }
  const auto found = part_of<inet_diag_msg>(reply, NLMSG_HDRLEN);
  // Where there is no such connection, the kernel tells of who listens at the local end.
  if (found.idiag_inode == 0 || found.idiag_state == TCP_LISTEN) return std::optional<uid_t>();
  return std::optional<uid_t>(found.idiag_uid);
}

Result<std::optional<uid_t>> listed_holder(const tcp::endpoint& local, const tcp::endpoint& remote) {
  for (const char* path : kTables) {
    TRIMTAB_TRY(const std::string table, read_table(path));
    if (const auto user = socket_user(table, end_of(local), end_of(remote))) return user;
  }
  return std::optional<uid_t>();
}

Result<std::optional<uid_t>> socket_holder(const tcp::endpoint& local, const tcp::endpoint& remote) {
  const auto asked = asked_holder(local, remote);
  return asked.ok() ? asked : listed_holder(local, remote);
}

}  // namespace trimtab::net
