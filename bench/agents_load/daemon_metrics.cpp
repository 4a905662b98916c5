#include "daemon_metrics.hpp"

#include <cstdlib>
#include <sstream>

#include "net/http_client.hpp"

namespace trimtab::load {

std::optional<double> ask_metric(std::uint16_t port, const std::string& name) {
  net::HttpEndpoint endpoint;
  endpoint.port = port;
  const auto reply = net::http_request(endpoint, "GET", "/metrics", "", std::chrono::seconds(10));
  if (!reply.ok()) return std::nullopt;
  std::istringstream lines(reply->body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " ")) return std::strtod(line.c_str() + name.size(), nullptr);
  }
  return std::nullopt;
}

}  // namespace trimtab::load
