#pragma once

// Until when the certificates last that a daemon runs with: gauges for its page of metrics, and a line for its log two
// weeks before an end. Both are told of what is in memory; no file is read.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "net/credentials.hpp"
#include "net/metric_text.hpp"

namespace trimtab::net {

// `<prefix>_certificate_expires_seconds` and `<prefix>_authority_expires_seconds`, Unix time; none without TLS.
[[nodiscard]] std::vector<Metric> certificate_ends(const std::string& prefix, const Credentials* tls);

// When a daemon says that its certificates end soon: once, and again when it has others that do.
class EndNotice final {
 public:
  static constexpr Nanoseconds kSoon = std::chrono::hours(24 * 14);

  // The line to log, if there is one. Cheap enough for every few seconds.
  [[nodiscard]] std::optional<std::string> next(const Credentials& tls, Nanoseconds now);

 private:
  std::pair<Nanoseconds, Nanoseconds> told_{0, 0};  // the ends of the certificate and of its authority
};

}  // namespace trimtab::net
