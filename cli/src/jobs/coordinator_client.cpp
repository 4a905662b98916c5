#include "jobs/coordinator_client.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <thread>

#include "arguments.hpp"
#include "daemons/agent_states.hpp"
#include "daemons/embedded.hpp"
#include "net/host_text.hpp"
#include "net/http_client.hpp"
#include "net/tokens.hpp"
#include "schema/api/status.hpp"

namespace trimtab::cli {

namespace {

// A request that comes too often for the coordinator is made again.
constexpr int kPatientTries = 10;
constexpr Nanoseconds kRetryAfter = std::chrono::seconds(1);

std::string message_of(const net::HttpReply& reply) {
  const auto refusal = api::parse<api::Refusal>(reply.body);
  return refusal.ok() ? refusal->error : "HTTP status " + std::to_string(reply.status);
}

Error error_of(const net::HttpReply& reply) {
  const std::string message = "the coordinator refused: " + message_of(reply);
  if (reply.status == 409) return no(message);
  return reply.status < 500 ? bad_input(message) : unavailable(message);
}

// "ana@login1".
std::string actor() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  const bool named = ::gethostname(host.data(), host.size() - 1) == 0;
  return user_name(::geteuid()) + (named ? "@" + std::string(host.data()) : "");
}

}  // namespace

Error not_understood(const std::string& why) {
  const bool is_path = why.starts_with('$');
  return unavailable("the coordinator's answer cannot be understood: " + (is_path ? why : "it is " + why));
}

Result<Address> parse_address(std::string_view text) {
  Address address;
  std::string_view port = text;
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    address.host = host;
    port = text.substr(colon + 1);
  }
  address.port = parse_number<std::uint16_t>(port).value_or(0);
  if (address.port > 0 && !address.host.empty()) return address;
  return bad_input("--coordinator: expected HOST:PORT such as 127.0.0.1:7420, but found '" + std::string(text) + "'");
}

Result<Address> coordinator_address(const std::string& flag, const std::string& state_directory) {
  const auto state = state_directory.empty() ? std::nullopt : running_state(state_directory);
  if (flag.empty()) return state ? embedded_address(state_directory, *state) : Address{};
  TRIMTAB_TRY(Address address, parse_address(flag));
  if (net::is_loopback_host(address.host) && state && state->port == address.port)
    return embedded_address(state_directory, *state);
  return address;
}

Result<std::string> CoordinatorClient::get(const std::string& target, Nanoseconds timeout) const {
  return request("GET", target, "", timeout);
}

Result<std::string> CoordinatorClient::post(const std::string& target, const std::string& body,
                                            const std::string& why) const {
  const std::string signature = "?by=" + percent_encoded(actor()) + (why.empty() ? "" : "&why=" + percent_encoded(why));
  return request("POST", target + signature, body, std::chrono::seconds(30));
}

Result<std::string> CoordinatorClient::request(const std::string& method, const std::string& target,
                                               const std::string& body, Nanoseconds timeout) const {
  net::HttpEndpoint endpoint{address_.host, address_.port};
  if (!address_.tls.empty()) {
    TRIMTAB_TRY(endpoint.tls, net::Credentials::load(address_.tls, SystemClock().wall()));
  }
  if (!address_.token_file.empty()) {
    if (!endpoint.tls && !net::is_loopback_host(address_.host)) {
      return bad_input(address_.host +
                       " is another machine, and a token must not go there in the clear: give --tls-authority, "
                       "--tls-certificate and --tls-key");
    }
    TRIMTAB_TRY(endpoint.token, net::read_token(address_.token_file));
  }
  endpoint.listener = {address_.user, "--coordinator-user", !endpoint.token.empty()};
  TRIMTAB_TRY(net::HttpReply reply, net::http_request(endpoint, method, target, body, timeout));
  // More than a person may ask at once, such as the chunks of a long trace.
  for (int tries = 0; reply.status == 429 && tries < kPatientTries; ++tries) {
    std::this_thread::sleep_for(kRetryAfter);
    TRIMTAB_TRY(reply, net::http_request(endpoint, method, target, body, timeout));
  }
  if (reply.status >= 400) return error_of(reply);
  return std::move(reply.body);
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string target;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (plain) target += c;
    if (!plain) (target += '%') += std::string{kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return target;
}

std::string job_target(std::string_view name, std::string_view suffix) {
  return "/v1/jobs/" + percent_encoded(name) + std::string(suffix);
}

}  // namespace trimtab::cli
