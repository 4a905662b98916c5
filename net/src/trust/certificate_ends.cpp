#include "net/certificate_ends.hpp"

#include <algorithm>

#include "trust/certificate_text.hpp"

namespace trimtab::net {

std::vector<Metric> certificate_ends(const std::string& prefix, const Credentials* tls) {
  if (tls == nullptr) return {};
  const auto gauge = [&prefix](const char* name, const char* help, Nanoseconds end) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end).count();
    return Metric{prefix + name, false, help, static_cast<double>(seconds), ""};
  };
  return {gauge("_certificate_expires_seconds", "Unix time at which the daemon's own certificate ends.",
                tls->own().expires),
          gauge("_authority_expires_seconds", "Unix time at which the authority that signed it ends.",
                tls->authority_expires())};
}

std::optional<std::string> EndNotice::next(const Credentials& tls, Nanoseconds now) {
  const std::pair ends(tls.own().expires, tls.authority_expires());
  if (std::min(ends.first, ends.second) - now > kSoon || ends == told_) return std::nullopt;
  told_ = ends;
  // One that ends with its authority cannot be issued for longer.
  const bool by_this_authority = ends.second - now > kSoon;
  return "the certificate '" + tls.own().name + "' ends on " + date_text(ends.first) + ", its authority on " +
         date_text(ends.second) + ": " +
         (by_this_authority ? "issue a new one ('trimtab doctor' says how), which is read without a restart"
                            : "make a new authority, and certificates of it (docs/operating.md, 'A certificate ends')");
}

}  // namespace trimtab::net
