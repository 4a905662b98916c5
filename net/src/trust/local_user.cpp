#include "net/local_user.hpp"

#include <cstdlib>

#include "trust/socket_user.hpp"

namespace trimtab::net {

namespace {

using boost::asio::ip::tcp;

std::optional<tcp::endpoint> end_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  boost::system::error_code no_address;
  const auto address = boost::asio::ip::make_address(host, no_address);
  const long port = std::strtol(text.c_str() + colon + 1, nullptr, 10);
  if (no_address || !address.is_loopback() || port <= 0 || port > 65535) return std::nullopt;
  return tcp::endpoint(address, static_cast<std::uint16_t>(port));
}

}  // namespace

std::optional<uid_t> local_user(const std::string& client, const std::string& server) {
  const auto from = end_of(client);
  const auto to = end_of(server);
  if (!from || !to || from->protocol() != to->protocol()) return std::nullopt;
  const auto user = asked_holder(*from, *to);
  return user.ok() ? *user : std::nullopt;
}

}  // namespace trimtab::net
