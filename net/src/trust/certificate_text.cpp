#include "trust/certificate_text.hpp"

#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace trimtab::net {

namespace {

constexpr std::string_view kTenantUri = "trimtab:tenant:";

constexpr std::array<std::pair<CertificateKind, std::string_view>, 4> kKinds{
    {{CertificateKind::kAuthority, "authority"},
     {CertificateKind::kCoordinator, "coordinator"},
     {CertificateKind::kNode, "node"},
     {CertificateKind::kPerson, "person"}}};

// The last part of that kind, as everywhere; empty where there is none or where it is no text.
std::string subject_part(const X509* certificate, int part) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  int last = -1;
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, part, at)) >= 0;) last = at;
  if (last < 0) return "";
  unsigned char* bytes = nullptr;
  const int length = ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last)));
  if (length < 0) return "";
  std::string text(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
  OPENSSL_free(bytes);
  return text;
}

std::string serial_of(const X509* certificate) {
  const OpensslHandle<BIGNUM> number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* digits = number ? BN_bn2hex(number.get()) : nullptr;
  std::string text = digits == nullptr ? "" : digits;
  OPENSSL_free(digits);
  return text;
}

// The first, where somebody's own authority has given several.
std::optional<std::string> tenant_among(const GENERAL_NAMES* names) {
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    if (auto tenant = tenant_of(*sk_GENERAL_NAME_value(names, i))) return tenant;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(CertificateKind kind) {
  for (const auto& [known, text] : kKinds) {
    if (known == kind) return text;
  }
  return "unknown";
}

std::optional<CertificateKind> parse_certificate_kind(std::string_view text) {
  for (const auto& [kind, known] : kKinds) {
    if (known == text) return kind;
  }
  return std::nullopt;
}

Result<std::vector<OpensslHandle<X509>>> read_certificates(std::string_view pem, const std::string& source) {
  const auto reader = memory_reader(pem);
  std::vector<OpensslHandle<X509>> found;
  while (X509* next = PEM_read_bio_X509(reader.get(), nullptr, no_passphrase, nullptr)) found.emplace_back(next);
  const unsigned long code = ERR_peek_last_error();
  const bool at_end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
  const std::string reason = openssl_error();
  if (!at_end) return bad_input(source + ": a PEM certificate is needed, but it cannot be read: " + reason);
  if (found.empty()) return bad_input(source + ": a PEM certificate is needed, but there is none");
  return found;
}

Result<OpensslHandle<EVP_PKEY>> read_key(std::string_view pem, const std::string& source) {
  const auto reader = memory_reader(pem);
  OpensslHandle<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader.get(), nullptr, no_passphrase, nullptr));
  if (key) return key;
  return bad_input(source + ": a PEM key without a passphrase is needed, but it cannot be read: " + openssl_error());
}

OpensslHandle<GENERAL_NAMES> alternative_names(const X509* certificate) {
  OpensslHandle<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(const_cast<X509*>(certificate), NID_subject_alt_name, nullptr, nullptr)));
  if (!names) ERR_clear_error();
  return names;
}

std::string tenant_uri(std::string_view tenant) {
  return std::string(kTenantUri) + std::string(tenant);
}

std::optional<std::string> tenant_of(const GENERAL_NAME& name) {
  if (name.type != GEN_URI) return std::nullopt;
  const ASN1_IA5STRING* uri = name.d.uniformResourceIdentifier;
  const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                              static_cast<std::size_t>(ASN1_STRING_length(uri)));
  if (!text.starts_with(kTenantUri) || text.size() == kTenantUri.size()) return std::nullopt;
  return std::string(text.substr(kTenantUri.size()));
}

PeerIdentity identity_of(const X509* certificate) {
  PeerIdentity identity;
  identity.name = subject_part(certificate, NID_commonName);
  identity.kind = parse_certificate_kind(subject_part(certificate, NID_organizationalUnitName));
  identity.expires = time_of(X509_get0_notAfter(certificate));
  identity.tenant = tenant_among(alternative_names(certificate).get());
  identity.serial = serial_of(certificate);
  return identity;
}

Nanoseconds time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return Nanoseconds(0);
  // Nanoseconds end in 2262: "99991231235959Z" means never.
  constexpr std::time_t kLatest = 9'000'000'000;
  return std::chrono::seconds(std::min<std::time_t>(::timegm(&parts), kLatest));
}

std::string date_text(Nanoseconds time) {
  const auto seconds = static_cast<std::time_t>(std::chrono::duration_cast<std::chrono::seconds>(time).count());
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return text.data();
}

}  // namespace trimtab::net
