#pragma once

// One side's half of mutual TLS: the authority that it trusts, its own certificate and the key to it, from PEM files
// that are read again without a restart. TLS 1.3 only; no session is resumed, so each connection is verified anew.
// Used on one thread (the loop's).

#include <unistd.h>

#include <memory>

#include "net/certificates.hpp"
#include "net/metric_text.hpp"

namespace trimtab::net {

struct CredentialFiles {
  std::string authority;    // certificates of one or more authorities
  std::string certificate;  // one's own, and what lies between it and the authority
  std::string key;          // others must not be able to read it

  [[nodiscard]] bool empty() const { return authority.empty() && certificate.empty() && key.empty(); }
};

class Credentials final {
 public:
  // The error names the file and what is wrong with it: unreadable, no PEM, a key of another certificate, a key that
  // everybody can read, an authority that somebody else may write (net/granting_file.hpp), expired, not signed by that
  // authority. `now` is the wall clock. `user` is the one that reads the files: another one than this process's where
  // somebody looks at them in a daemon's place.
  [[nodiscard]] static Result<std::shared_ptr<Credentials>> load(const CredentialFiles& files, Nanoseconds now,
                                                                 uid_t user = ::geteuid());
  ~Credentials();

  // Reads the files again where one of them has changed, or in any case. True: the next connection uses the new ones.
  // After an error the old ones stay in use, and the same files are not complained of again.
  [[nodiscard]] Result<bool> reload(Nanoseconds now, bool in_any_case = false);

  // Of the own certificate.
  [[nodiscard]] const PeerIdentity& own() const;
  // Since the Unix epoch: when the authority that signed it ends, or, before that, one that stands between them.
  [[nodiscard]] Nanoseconds authority_expires() const;

  // For net's own sources: the OpenSSL contexts in use.
  struct Contexts;
  [[nodiscard]] std::shared_ptr<Contexts> contexts() const;

 private:
  struct Implementation;
  explicit Credentials(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

// Until when the certificates last that a daemon runs with: gauges for its page of metrics, and a line for its log two
// weeks before an end. Both are told of what is in memory; no file is read.
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
