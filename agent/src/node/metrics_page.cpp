#include "node/metrics_page.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <array>
#include <filesystem>

#include "base/check.hpp"
#include "commands/scratch.hpp"
#include "schema/durable_file.hpp"

namespace trimtab::agent {

std::string MetricsPage::caller(const net::HttpRequest& head) const {
  if (head.peer) return "'" + head.peer->name + "'";
  if (const auto user = user_of_(head.address)) return "user " + std::to_string(*user) + " of this machine";
  return "address " + head.address.substr(0, head.address.rfind(':'));
}

std::optional<std::string> MetricsPage::too_often(const net::HttpRequest& head) {
  const std::string whom = caller(head);
  if (rate_.take(whom, clock_.monotonic())) return std::nullopt;
  return whom + " asks for metrics more often than " + std::to_string(kRequestsPerSecond) + " times a second";
}

const std::string& MetricsPage::text() {
  const Nanoseconds now = clock_.monotonic();
  if (made_ && now - *made_ < kKept) return text_;
  text_ = make_();
  made_ = now;
  return text_;
}

namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kShownBytes = 8;  // of 32: enough to tell a node's jobs apart

// Of a quoted text that begins at `begin`, the place of the quote that ends it.
std::size_t end_of_value(const std::string& labels, std::size_t begin) {
  std::size_t at = begin;
  while (at < labels.size() && labels[at] != '"') at += labels[at] == '\\' ? 2 : 1;
  TRIMTAB_ASSERT(at < labels.size(), "the value of a label ends");
  return at;
}

}  // namespace

Result<OpaqueJobs> OpaqueJobs::open(const std::string& path) {
  std::error_code unreadable;
  if (std::filesystem::exists(path, unreadable)) {
    TRIMTAB_TRY(std::string key, read_file(path));
    if (key.size() == kKeyBytes) return OpaqueJobs(std::move(key));
  }
  std::string key(kKeyBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) {
    return unavailable("the key of the metrics' labels needs random bytes, and the system gives none");
  }
  TRIMTAB_TRY_STATUS(write_durably(path, key, 0600));
  return OpaqueJobs(std::move(key));
}

void OpaqueJobs::hide(std::vector<net::Metric>& metrics) const {
  for (net::Metric& metric : metrics) metric.labels = hidden(metric.labels);
}

std::string OpaqueJobs::hidden(const std::string& labels) const {
  constexpr std::string_view kName = "job=\"";
  std::string text;
  // Each label begins behind '{' or ',', and its value may hold either.
  for (std::size_t at = 0; at < labels.size();) {
    const std::size_t value = labels.find("=\"", at);
    if (value == std::string::npos) return text + labels.substr(at);
    const std::size_t end = end_of_value(labels, value + 2);
    const std::string_view label = std::string_view(labels).substr(at + 1, value + 2 - at - 1);
    const bool is_job = label == kName;
    text += is_job ? labels.substr(at, value + 2 - at) + label_of(labels.substr(value + 2, end - value - 2)) + '"'
                   : labels.substr(at, end + 1 - at);
    at = end + 1;
  }
  return text;
}

std::string OpaqueJobs::label_of(const std::string& job) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), reinterpret_cast<const unsigned char*>(job.data()),
           job.size(), digest.data(), &length);
  TRIMTAB_ASSERT(made != nullptr && length >= kShownBytes, "an HMAC of SHA-256 has 32 bytes");
  constexpr const char* kDigits = "0123456789abcdef";
  std::string label = "job-";
  for (std::size_t i = 0; i < kShownBytes; ++i) label += {kDigits[digest[i] >> 4U], kDigits[digest[i] & 15U]};
  return label;
}

}  // namespace trimtab::agent
