#include "net/certificates.hpp"

#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "net/tokens.hpp"
#include "trust/certificate_text.hpp"

namespace trimtab::net {

namespace {

constexpr long kX509v3 = 2;  // counts from 0
constexpr int kSerialBits = 159;
constexpr Nanoseconds kClocksDiffer = std::chrono::minutes(10);
constexpr Nanoseconds kDay = std::chrono::hours(24);
constexpr Nanoseconds kLongest = kDay * 36'500;
constexpr std::size_t kMostHosts = 64;

Error failed(const std::string& action) {
  return unavailable("couldn't " + action + ": " + openssl_error());
}

bool plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string::npos;
}

bool is_address(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

// What OpenSSL's configuration language gives a meaning of its own must not get into it.
bool plain_host(const std::string& host) {
  if (is_address(host)) return true;
  return !host.empty() && host.size() <= 253 &&
         host.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-*") ==
             std::string::npos;
}

Status check(const CertificateRequest& request) {
  if (!plain_name(request.name)) {
    return bad_input(
        "a certificate's name has 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-' and does not begin with "
        "'.', but it is '" +
        request.name + "'");
  }
  for (const std::string& host : request.hosts) {
    if (!plain_host(host)) return bad_input("a host is a DNS name or an IP address, but it is '" + host + "'");
  }
  if (request.hosts.size() > kMostHosts) {
    return bad_input("a certificate has at most " + std::to_string(kMostHosts) + " hosts");
  }
  if (request.kind == CertificateKind::kCoordinator && request.hosts.empty()) {
    return bad_input("a coordinator's certificate needs the hosts that agents and people connect to");
  }
  if (!request.tenant.empty() && request.kind != CertificateKind::kNode) {
    return bad_input("a tenant is named in a node's certificate alone: a person's is in the line of their token");
  }
  if (!request.tenant.empty() && request.tenant != kEveryTenant && !is_tenant_name(request.tenant)) {
    return bad_input("a tenant has 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', or is '*' for all, but it is '" +
                     request.tenant + "'");
  }
  if (request.valid_for < kDay || request.valid_for > kLongest) {
    return bad_input("a certificate is valid for 1 to 36500 days");
  }
  return {};
}

bool set_part(X509_NAME* name, const char* part, std::string_view text) {
  return X509_NAME_add_entry_by_txt(name, part, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool set_time(ASN1_TIME* field, Nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  return ASN1_TIME_set(field, static_cast<std::time_t>(seconds)) != nullptr;
}

bool set_serial(X509* certificate) {
  const OpensslHandle<BIGNUM> number(BN_new());
  return number && BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OpensslHandle<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

std::string asked_names(const CertificateRequest& request) {
  std::string text = request.tenant.empty() ? "" : "URI:" + tenant_uri(request.tenant);
  for (const std::string& host : request.hosts) {
    text += (text.empty() ? "" : ",") + std::string(is_address(host) ? "IP:" : "DNS:") + host;
  }
  return text;
}

bool add_purpose(X509* certificate, X509* issuer, const CertificateRequest& request) {
  const auto add = [&](int kind, const std::string& value) { return add_extension(certificate, issuer, kind, value); };
  if (request.kind == CertificateKind::kAuthority) {
    return add(NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add(NID_key_usage, "critical,keyCertSign,cRLSign");
  }
  // A node with hosts serves its metrics. Nobody takes it for a coordinator: clients look at the kind.
  const bool serves = !request.hosts.empty() && request.kind != CertificateKind::kPerson;
  return add(NID_basic_constraints, "critical,CA:FALSE") && add(NID_key_usage, "critical,digitalSignature") &&
         add(NID_ext_key_usage, serves ? "serverAuth,clientAuth" : "clientAuth") &&
         add(NID_authority_key_identifier, "keyid:always");
}

struct Issuer {
  X509* certificate;  // nullptr: itself
  EVP_PKEY* key;
};

bool fill(X509* certificate, EVP_PKEY* key, const CertificateRequest& request, const Issuer& issuer, Nanoseconds end) {
  X509* signer = issuer.certificate != nullptr ? issuer.certificate : certificate;
  X509_NAME* subject = X509_get_subject_name(certificate);
  const std::string names = asked_names(request);
  return X509_set_version(certificate, kX509v3) == 1 && set_serial(certificate) && set_part(subject, "O", "trimtab") &&
         set_part(subject, "OU", to_string(request.kind)) && set_part(subject, "CN", request.name) &&
         X509_set_issuer_name(certificate, X509_get_subject_name(signer)) == 1 &&
         set_time(X509_getm_notBefore(certificate), request.now - kClocksDiffer) &&
         set_time(X509_getm_notAfter(certificate), end) && X509_set_pubkey(certificate, key) == 1 &&
         add_extension(certificate, signer, NID_subject_key_identifier, "hash") &&
         add_purpose(certificate, signer, request) &&
         (names.empty() || add_extension(certificate, signer, NID_subject_alt_name, names)) &&
         X509_sign(certificate, issuer.key, EVP_sha256()) > 0;
}

std::string taken(BIO* writer) {
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(writer, &bytes);
  return {bytes, static_cast<std::size_t>(length)};
}

Result<Certificate> to_pem(X509* certificate, EVP_PKEY* key) {
  const OpensslHandle<BIO> certificate_text(BIO_new(BIO_s_mem()));
  const OpensslHandle<BIO> key_text(BIO_new(BIO_s_secmem()));
  if (!certificate_text || !key_text || PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return failed("write the certificate");
  }
  return Certificate{taken(certificate_text.get()), taken(key_text.get())};
}

Result<Certificate> make(const CertificateRequest& request, Issuer issuer, Nanoseconds latest_end) {
  const OpensslHandle<EVP_PKEY> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  const OpensslHandle<X509> certificate(X509_new());
  if (!key || !certificate) return failed("make a key");
  if (issuer.key == nullptr) issuer.key = key.get();
  const Nanoseconds end = std::min(request.now + request.valid_for, latest_end);
  if (!fill(certificate.get(), key.get(), request, issuer, end)) return failed("make the certificate");
  return to_pem(certificate.get(), key.get());
}

std::vector<std::string> hosts_of(const X509* certificate) {
  std::vector<std::string> hosts;
  const auto names = alternative_names(certificate);
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (tenant_of(*name)) continue;
    const OpensslHandle<BIO> text(BIO_new(BIO_s_mem()));
    if (!text || GENERAL_NAME_print(text.get(), const_cast<GENERAL_NAME*>(name)) != 1) continue;
    const std::string printed = taken(text.get());  // "DNS:host", "IP Address:10.0.0.1"
    const auto colon = printed.find(':');
    hosts.push_back(colon == std::string::npos ? printed : printed.substr(colon + 1));
  }
  return hosts;
}

// "*" is no pattern of the shell's then.
std::string shell_word(const std::string& plain) {
  return plain.find('*') == std::string::npos ? plain : '"' + plain + '"';
}

}  // namespace

Result<Certificate> make_authority(const CertificateRequest& request) {
  CertificateRequest own = request;
  own.kind = CertificateKind::kAuthority;
  TRIMTAB_TRY_STATUS(check(own));
  return make(own, {nullptr, nullptr}, Nanoseconds::max());
}

Result<Certificate> issue_certificate(const Certificate& authority, const CertificateRequest& request) {
  if (request.kind == CertificateKind::kAuthority) return bad_input("an authority signs no other authority");
  TRIMTAB_TRY_STATUS(check(request));
  TRIMTAB_TRY(const auto certificates, read_certificates(authority.certificate, "the authority's certificate"));
  TRIMTAB_TRY(const auto key, read_key(authority.key, "the authority's key"));
  X509* signer = certificates.front().get();
  if (X509_check_private_key(signer, key.get()) != 1) {
    ERR_clear_error();
    return bad_input("the authority's key is not that of its certificate");
  }
  const Nanoseconds end = time_of(X509_get0_notAfter(signer));
  if (end <= request.now) {
    return no("the authority has expired (" + date_text(end) +
              "): make a new one with 'trimtab cert init --dir NEW_CA_DIRECTORY'");
  }
  return make(request, {signer, key.get()}, end);
}

Result<CertificateDescription> describe_certificate(std::string_view pem, const std::string& source) {
  TRIMTAB_TRY(const auto certificates, read_certificates(pem, source));
  const X509* first = certificates.front().get();
  CertificateDescription description;
  description.owner = identity_of(first);
  std::array<char, 256> issuer{};
  X509_NAME_get_text_by_NID(X509_get_issuer_name(first), NID_commonName, issuer.data(), issuer.size());
  description.issuer = issuer.data();
  description.serial = description.owner.serial;
  description.valid_from = time_of(X509_get0_notBefore(first));
  description.hosts = hosts_of(first);
  return description;
}

std::string issue_command(const PeerIdentity& owner, const std::vector<std::string>& hosts) {
  const bool issued = owner.kind && *owner.kind != CertificateKind::kAuthority;
  const std::string name = plain_name(owner.name) ? owner.name : "NAME";
  std::string command = "'trimtab cert issue " + std::string(issued ? to_string(*owner.kind) : "KIND") + " " + name;
  if (owner.tenant && owner.kind == CertificateKind::kNode) {
    const bool plain = *owner.tenant == kEveryTenant || is_tenant_name(*owner.tenant);
    command += " --tenant " + (plain ? shell_word(*owner.tenant) : "TENANT");
  }
  for (const std::string& host : hosts) command += " --host " + (plain_host(host) ? shell_word(host) : "HOST");
  if (hosts.empty() && owner.kind == CertificateKind::kCoordinator) command += " --host HOST";
  return command + " --dir CA_DIRECTORY --out " + name + "'";
}

}  // namespace trimtab::net
