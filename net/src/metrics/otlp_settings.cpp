#include "net/otlp_settings.hpp"

#include <algorithm>
#include <charconv>

#include "net/host_text.hpp"

namespace trimtab::net {

namespace {

constexpr std::string_view kDefaultTarget = "/v1/metrics";

bool take(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

// What is wrong with it, or nothing.
std::string read_host(std::string_view place, OtlpEndpoint& into) {
  const bool bracketed = place.starts_with('[');
  const auto end = bracketed ? place.find(']') : place.find(':');
  if (bracketed && end == std::string_view::npos) return "its address has no closing bracket";
  into.host = place.substr(bracketed ? 1 : 0, bracketed ? end - 1 : end);
  if (into.host.empty()) return "it names no host";
  std::string_view rest = end == std::string_view::npos ? "" : place.substr(bracketed ? end + 1 : end);
  into.port = into.tls ? 443 : 80;
  if (rest.empty()) return "";
  const bool colon = take(rest, ":");
  const auto [stop, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), into.port);
  const bool good = colon && failure == std::errc() && stop == rest.data() + rest.size() && into.port > 0;
  return good ? "" : "its port must be a number from 1 to 65535";
}

std::string read_url(std::string_view url, OtlpEndpoint& into) {
  const auto unprintable = [](char one) { return one <= ' ' || one > '~'; };
  if (std::ranges::any_of(url, unprintable)) return "it has a blank or another character that no URL has";
  into.tls = take(url, "https://");
  if (!into.tls && !take(url, "http://")) return "it begins with neither http:// nor https://";
  const auto path = std::min(url.find_first_of("/?#"), url.size());
  into.target = url.substr(path);
  if (into.target.find('#') != std::string::npos) return "it has a fragment (#)";
  if (into.target.empty() || into.target == "/") into.target = kDefaultTarget;
  if (into.target.front() == '?') into.target.insert(0, kDefaultTarget);
  const std::string_view place = url.substr(0, path);
  if (place.find('@') != std::string_view::npos) return "it has a user's name: a secret goes into otlp_token_file";
  return read_host(place, into);
}

}  // namespace

Result<std::optional<OtlpEndpoint>> parse_otlp_endpoint(const std::string& url) {
  if (url.empty()) return std::optional<OtlpEndpoint>();
  OtlpEndpoint endpoint;
  const std::string objection = read_url(url, endpoint);
  if (objection.empty()) return std::optional(endpoint);
  return bad_input("needs a URL such as http://127.0.0.1:4318/v1/metrics, but " + objection);
}

std::string to_string(const OtlpEndpoint& endpoint) {
  return (endpoint.tls ? "https://" : "http://") + authority(endpoint.host, endpoint.port) +
         endpoint.target.substr(0, endpoint.target.find('?'));
}

Status check_otlp(const OtlpSettings& settings) {
  if (!settings.endpoint || settings.endpoint->tls) return {};
  if (!settings.authority.empty()) {
    return bad_input("otlp_authority is for a collector under TLS, but otlp_endpoint is " +
                     to_string(*settings.endpoint) + ": make it https://, or leave otlp_authority out");
  }
  if (is_loopback_host(settings.endpoint->host)) return {};
  const std::string shown = settings.token_file.empty() ? "metrics, which name jobs," : "metrics and otlp_token_file";
  return bad_input(
      shown + " would be shown to the whole network on the way to " + to_string(*settings.endpoint) +
      ": make otlp_endpoint https://, or name a collector on this machine (127.0.0.1) that passes them on");
}

}  // namespace trimtab::net
