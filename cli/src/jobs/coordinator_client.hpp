#pragma once

// The coordinator's HTTP API, from the command line's side: blocking calls with deadlines.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "net/credentials.hpp"
#include "net/listener_rule.hpp"
#include "schema/api/fields.hpp"

namespace trimtab::cli {

// A coordinator's answer as a document of schema/api. It comes from a network: whatever it is, the one who reads it
// gets an error (kUnavailable) that can be shown. Missing members keep their defaults: an older coordinator is no
// error. Pure.
[[nodiscard]] Error not_understood(const std::string& why);
template <typename Document>
[[nodiscard]] Result<Document> read_reply(std::string_view body) {
  auto document = api::parse<Document>(body);
  if (!document.ok()) return not_understood(document.error().message);
  return document;
}

struct Address {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7420;
  net::CredentialFiles tls = {};                 // all empty = no TLS
  std::string token_file = {};                   // empty = no token
  std::string user = net::kPackagedCoordinator;  // whose it may be on this machine, beside root's and one's own
};
// "host:7420", "7420" or "[::1]:7420".
[[nodiscard]] Result<Address> parse_address(std::string_view text);

// Where to find the coordinator: `flag` if given, else the one that `up` started in this state directory and that is
// alive, else the default port of this machine. An empty directory: none can be up. The one that is up is asked with
// its own token.
[[nodiscard]] Result<Address> coordinator_address(const std::string& flag, const std::string& state_directory);

class CoordinatorClient {
 public:
  explicit CoordinatorClient(Address address) : address_(std::move(address)) {}

  // The body of a good reply. The coordinator's own refusals come as errors with its words: 404 and 400 are bad input,
  // 409 is a no; no connection and 5xx are kUnavailable.
  [[nodiscard]] Result<std::string> get(const std::string& target,
                                        Nanoseconds timeout = std::chrono::seconds(10)) const;
  template <typename Document>
  [[nodiscard]] Result<Document> read(const std::string& target) const {
    TRIMTAB_TRY(const std::string body, get(target));
    return read_reply<Document>(body);
  }
  // Signed with who runs this command and, where it is given, why: the coordinator's audit log keeps both.
  [[nodiscard]] Result<std::string> post(const std::string& target, const std::string& body,
                                         const std::string& why = "") const;
  [[nodiscard]] const Address& address() const { return address_; }

 private:
  [[nodiscard]] Result<std::string> request(const std::string& method, const std::string& target,
                                            const std::string& body, Nanoseconds timeout) const;
  Address address_;
};

// As it may stand in a path or a query.
[[nodiscard]] std::string percent_encoded(std::string_view text);
// "/v1/jobs/NAME" + suffix, the name percent-encoded.
[[nodiscard]] std::string job_target(std::string_view name, std::string_view suffix = "");

}  // namespace trimtab::cli
