#include "net/local_user.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <cstring>

#include "base/descriptor.hpp"

namespace trimtab::net {

namespace {

struct End {
  boost::asio::ip::address address;
  std::uint16_t port = 0;
};

std::optional<End> end_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  boost::system::error_code no_address;
  End end{boost::asio::ip::make_address(host, no_address), 0};
  const long port = std::strtol(text.c_str() + colon + 1, nullptr, 10);
  if (no_address || !end.address.is_loopback() || port <= 0 || port > 65535) return std::nullopt;
  end.port = static_cast<std::uint16_t>(port);
  return end;
}

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

// About the client's own socket: for it the client is the source.
Question question_about(const End& client, const End& server) {
  Question question;
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = client.address.is_v4() ? AF_INET : AF_INET6;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = 1U << TCP_ESTABLISHED;
  question.body.id.idiag_sport = htons(client.port);
  question.body.id.idiag_dport = htons(server.port);
  write_address(client.address, question.body.id.idiag_src);
  write_address(server.address, question.body.id.idiag_dst);
  question.body.id.idiag_cookie[0] = question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

}  // namespace

std::optional<uid_t> local_user(const std::string& client, const std::string& server) {
  const auto from = end_of(client);
  const auto to = end_of(server);
  if (!from || !to || from->address.is_v4() != to->address.is_v4()) return std::nullopt;
  const Descriptor socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  const Question question = question_about(*from, *to);
  if (!socket || ::send(socket.get(), &question, sizeof(question), 0) != sizeof(question)) return std::nullopt;
  // The kernel has answered before send() returns.
  alignas(nlmsghdr) std::array<char, 4096> reply{};
  const ssize_t size = ::recv(socket.get(), reply.data(), reply.size(), 0);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(found)))) return std::nullopt;
  std::memcpy(&header, reply.data(), sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || header.nlmsg_len < NLMSG_LENGTH(sizeof(found))) return std::nullopt;
  std::memcpy(&found, reply.data() + NLMSG_HDRLEN, sizeof(found));
  // A connection that its user has closed is told as root's, and has no inode.
  if (found.idiag_inode == 0) return std::nullopt;
  return found.idiag_uid;
}

}  // namespace trimtab::net
