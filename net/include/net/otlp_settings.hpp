#pragma once

// Where a daemon posts its metrics, as both daemons' settings say it. Plain values and pure functions.

#include <cstdint>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::net {

struct OtlpEndpoint {
  bool tls = false;
  std::string host;
  std::uint16_t port = 0;
  std::string target;  // path and query
};

struct OtlpSettings {
  std::optional<OtlpEndpoint> endpoint;  // nothing: off
  Nanoseconds period = std::chrono::seconds(15);
  std::string authority;   // PEM file: who signs the collector's certificate; empty = the system's authorities
  std::string token_file;  // shown as "Authorization: Bearer ..."; empty = none
};

// "https://HOST:PORT/PATH"; PORT is 80 or 443 and PATH /v1/metrics where they are left out. Empty: nothing.
[[nodiscard]] Result<std::optional<OtlpEndpoint>> parse_otlp_endpoint(const std::string& url);
// For messages: without the query, which may hold a key.
[[nodiscard]] std::string to_string(const OtlpEndpoint& endpoint);

// What no key can see by itself: metrics and a token go over https or to this machine alone, an authority is for https.
[[nodiscard]] Status check_otlp(const OtlpSettings& settings);

}  // namespace trimtab::net
