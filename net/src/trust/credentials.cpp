#include "net/credentials.hpp"

#include <openssl/ssl.h>

#include <algorithm>

#include "trust/certificate_text.hpp"
#include "trust/tls.hpp"
#include "trust/watched_file.hpp"

namespace trimtab::net {

namespace {

using Certificates = std::vector<OpensslHandle<X509>>;

struct LoadedCredentials {
  Certificates authority;
  Certificates certificate;
  OpensslHandle<EVP_PKEY> key;
};

// The earliest of what signed the certificate that has been verified; the last of them is the one that is trusted.
Nanoseconds end_of_signers(const OpensslHandle<X509_STORE_CTX>& verified) {
  const auto* chain = X509_STORE_CTX_get0_chain(verified.get());
  const int last = sk_X509_num(chain) - 1;
  Nanoseconds end = time_of(X509_get0_notAfter(sk_X509_value(chain, last)));
  for (int i = 1; i < last; ++i) end = std::min(end, time_of(X509_get0_notAfter(sk_X509_value(chain, i))));
  return end;
}

Status check_end(std::string_view certificate, const std::string& source, Nanoseconds now) {
  TRIMTAB_TRY(const CertificateDescription own, describe_certificate(certificate, source));
  if (own.owner.expires > now) return {};
  return bad_input(source + " expired on " + date_text(own.owner.expires) + ": issue a new one with " +
                   issue_command(own.owner, own.hosts));
}

// The own certificate as others will judge it; when those end that signed it.
Result<Nanoseconds> check_signed(const LoadedCredentials& loaded, const CredentialFiles& files, Nanoseconds now) {
  const OpensslHandle<X509_STORE> store(X509_STORE_new());
  const OpensslHandle<X509_STORE_CTX> context(X509_STORE_CTX_new());
  STACK_OF(X509)* between = sk_X509_new_null();
  for (const auto& one : loaded.authority) X509_STORE_add_cert(store.get(), one.get());
  for (const auto& one : loaded.certificate) sk_X509_push(between, one.get());
  X509_STORE_CTX_init(context.get(), store.get(), loaded.certificate.front().get(), between);
  X509_STORE_CTX_set_time(context.get(), 0, std::chrono::duration_cast<std::chrono::seconds>(now).count());
  const bool trusted = X509_verify_cert(context.get()) == 1;
  const Nanoseconds end = trusted ? end_of_signers(context) : Nanoseconds(0);
  const char* why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  sk_X509_free(between);
  ERR_clear_error();
  if (trusted) return end;
  return bad_input(files.certificate + " must be signed by the authority in " + files.authority + ", but: " + why);
}

bool use(SSL_CTX* context, const LoadedCredentials& loaded) {
  if (SSL_CTX_use_certificate(context, loaded.certificate.front().get()) != 1) return false;
  for (std::size_t i = 1; i < loaded.certificate.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, loaded.certificate[i].get()) != 1) return false;
  }
  if (SSL_CTX_use_PrivateKey(context, loaded.key.get()) != 1) return false;
  X509_STORE* trusted = SSL_CTX_get_cert_store(context);
  for (const auto& one : loaded.authority) {
    if (X509_STORE_add_cert(trusted, one.get()) != 1) return false;
    // Servers say whom they trust, so that a browser offers the right certificate.
    if (SSL_CTX_add_client_CA(context, one.get()) != 1) return false;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  return SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1;
}

}  // namespace

struct Credentials::Implementation {
  Implementation(const CredentialFiles& names, uid_t reader)
      : files(names),
        user(reader),
        watched{WatchedFile(names.authority), WatchedFile(names.certificate), WatchedFile(names.key)} {}

  [[nodiscard]] bool changed() const { return watched[0].changed() || watched[1].changed() || watched[2].changed(); }

  Status read(Nanoseconds now) {
    // All three are read before any is judged: changed() compares with these very files.
    const auto authority = watched[0].read(WatchedFile::Kind::kGrants, user);
    const auto certificate = watched[1].read(WatchedFile::Kind::kPlain);
    const auto key = watched[2].read(WatchedFile::Kind::kSecret);
    TRIMTAB_TRY_STATUS(status_of(authority));
    TRIMTAB_TRY_STATUS(status_of(certificate));
    TRIMTAB_TRY_STATUS(status_of(key));
    LoadedCredentials loaded;
    TRIMTAB_TRY(loaded.authority, read_certificates(*authority, files.authority));
    TRIMTAB_TRY(loaded.certificate, read_certificates(*certificate, files.certificate));
    TRIMTAB_TRY(loaded.key, read_key(*key, files.key));
    if (X509_check_private_key(loaded.certificate.front().get(), loaded.key.get()) != 1) {
      ERR_clear_error();
      return bad_input(files.key + " is not the key to the certificate " + files.certificate);
    }
    TRIMTAB_TRY_STATUS(check_end(*certificate, files.certificate, now));
    TRIMTAB_TRY(const Nanoseconds end_of_authority, check_signed(loaded, files, now));
    auto fresh = std::make_shared<Contexts>();
    if (!use(fresh->server.native_handle(), loaded) || !use(fresh->client.native_handle(), loaded)) {
      return bad_input(files.certificate + " cannot be used: " + openssl_error());
    }
    contexts = std::move(fresh);
    own = identity_of(loaded.certificate.front().get());
    authority_expires = end_of_authority;
    return {};
  }

  static Status status_of(const Result<std::string>& text) { return text.ok() ? Status{} : Status(text.error()); }

  CredentialFiles files;
  uid_t user;
  std::array<WatchedFile, 3> watched;
  std::shared_ptr<Contexts> contexts;
  PeerIdentity own;
  Nanoseconds authority_expires{0};
};

Credentials::Credentials(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Credentials::~Credentials() = default;

Result<std::shared_ptr<Credentials>> Credentials::load(const CredentialFiles& files, Nanoseconds now, uid_t user) {
  if (files.authority.empty() || files.certificate.empty() || files.key.empty()) {
    return bad_input("TLS needs three files: the authority's certificate, an own certificate and the key to it");
  }
  auto implementation = std::make_unique<Implementation>(files, user);
  TRIMTAB_TRY_STATUS(implementation->read(now));
  return std::shared_ptr<Credentials>(new Credentials(std::move(implementation)));
}

Result<bool> Credentials::reload(Nanoseconds now, bool in_any_case) {
  if (!in_any_case && !implementation_->changed()) return false;
  TRIMTAB_TRY_STATUS(implementation_->read(now));
  return true;
}

const PeerIdentity& Credentials::own() const {
  return implementation_->own;
}

Nanoseconds Credentials::authority_expires() const {
  return implementation_->authority_expires;
}

std::shared_ptr<Credentials::Contexts> Credentials::contexts() const {
  return implementation_->contexts;
}

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
