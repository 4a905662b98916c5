#include "http/target.hpp"

#include <charconv>

#include "net/host_text.hpp"

namespace trimtab::net {

namespace {

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char character = text[i];
    if (character == '%') {
      const char* const digits = text.data() + i + 1;
      unsigned value = 0;
      if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
      character = static_cast<char>(value);
      i += 2;
    } else if (character == '+' && plus_is_space) {
      character = ' ';
    }
    if (character == '\0') return std::nullopt;
    decoded.push_back(character);
  }
  return decoded;
}

bool add_parameter(std::string_view pair, std::map<std::string, std::string>& query) {
  if (pair.empty()) return true;
  const auto equals = pair.find('=');
  const auto name = decode(pair.substr(0, equals), true);
  const auto value = decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true);
  if (!name || !value) return false;
  return query.emplace(*name, *value).second;
}

std::string_view without_port(std::string_view host) {
  const auto bracket = host.find(']');
  const auto colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  return host.substr(0, colon);
}

bool names_loopback(std::string_view host) {
  const auto name = without_port(host);
  return name == "[::1]" || is_loopback_host(name);
}

}  // namespace

std::optional<Target> parse_target(std::string_view target) {
  if (target.empty() || target.front() != '/') return std::nullopt;
  target = target.substr(0, target.find('#'));
  const auto question = target.find('?');
  auto path = decode(target.substr(0, question), false);
  if (!path) return std::nullopt;
  Target parsed{std::move(*path), {}};
  std::string_view rest = question == std::string_view::npos ? "" : target.substr(question + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    if (!add_parameter(rest.substr(0, end), parsed.query)) return std::nullopt;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return parsed;
}

std::optional<std::string> refusal(std::string_view host, std::string_view origin, bool on_loopback) {
  if (on_loopback && !host.empty() && !names_loopback(host)) {
    return "this daemon listens on a loopback address and answers only to localhost, not to '" + std::string(host) +
           "'";
  }
  if (origin.empty()) return std::nullopt;
  const auto scheme = origin.find("://");
  const auto from = scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
  if (from == host) return std::nullopt;
  return "requests from web pages of other origins ('" + std::string(origin) + "') are not served";
}

std::string bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return "";
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char letter = authorization[i];
    if ((letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter) != kScheme[i]) return "";
  }
  return std::string(authorization.substr(kScheme.size()));
}

}  // namespace trimtab::net
