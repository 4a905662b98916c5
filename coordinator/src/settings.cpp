#include "coordinator/settings.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "base/units.hpp"
#include "schema/nearest.hpp"

namespace trimtab::coordinator {
namespace {

Status number(const std::string& value, std::uint64_t high, std::uint64_t& out) {
  std::uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc{} || end != value.data() + value.size() || parsed > high) {
    return bad_input("a whole number of at most " + std::to_string(high) + " is needed");
  }
  out = parsed;
  return {};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

Status apply_listen(Settings& settings, const std::string& value) {
  const auto colon = value.rfind(':');
  if (colon == std::string::npos) return bad_input("HOST:PORT is needed, such as 127.0.0.1:7420");
  std::string host = value.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  std::uint64_t port = 0;
  if (!number(value.substr(colon + 1), 65535, port))
    return bad_input("a port from 0 (any free one) to 65535 is needed");
  if (!is_loopback(host)) {
    return bad_input(
        "only loopback addresses are allowed, because connections are not encrypted: TLS is not built into this "
        "release. "
        "Listen on 127.0.0.1 and reach it through an SSH tunnel");
  }
  settings.address = host == "localhost" ? "127.0.0.1" : host;
  settings.port = static_cast<std::uint16_t>(port);
  return {};
}

Status apply_state(Settings& settings, const std::string& value) {
  settings.state_directory = value;
  return {};
}

Status apply_log_level(Settings& settings, const std::string& value) {
  static constexpr const char* kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(std::begin(kLevels), std::end(kLevels), value) == std::end(kLevels)) {
    return bad_input("one of trace, debug, info, warn, error, off is needed");
  }
  settings.log_level = value;
  return {};
}

Status apply_port_file(Settings& settings, const std::string& value) {
  settings.port_file = value;
  return {};
}

Status apply_search_time(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(settings.search_time, parse_duration(value));
  return {};
}

Status apply_search_evaluations(Settings& settings, const std::string& value) {
  return number(value, std::numeric_limits<std::uint64_t>::max(), settings.search_evaluations);
}

Error unknown_key(std::string_view name, const std::string& place) {
  std::vector<std::string> known;
  for (const SettingKey& key : setting_keys()) known.emplace_back(key.name);
  return bad_input(place + ": unknown key '" + std::string(name) + "'; did you mean '" + nearest(name, known) + "'?");
}

std::string text_of(const toml::node& node) {
  if (const auto text = node.value<std::string>(); text && node.is_string()) return *text;
  std::ostringstream out;
  out << toml::node_view<const toml::node>(node);
  return out.str();
}

}  // namespace

const std::vector<SettingKey>& setting_keys() {
  static const std::vector<SettingKey> kKeys = {
      {"listen", "127.0.0.1:7420", "HOST:PORT to listen on, loopback only; port 0 takes any free one", apply_listen},
      {"state", "$XDG_STATE_HOME/trimtab", "directory of the state and the cost database", apply_state},
      {"log_level", "info", "trace, debug, info, warn, error or off", apply_log_level},
      {"port_file", "none", "file that the bound port is written to", apply_port_file},
      {"search_time", "5s", "the most time that one search takes", apply_search_time},
      {"search_evaluations", "200000", "the most plans that one search evaluates; 0 = no limit",
       apply_search_evaluations}};
  return kKeys;
}

Status apply_setting(Settings& settings, std::string_view name, const std::string& value, const std::string& place) {
  for (const SettingKey& key : setting_keys()) {
    if (key.name != name) continue;
    const Status applied = key.apply(settings, value);
    if (applied.ok()) return {};
    return bad_input(place + ": " + std::string(name) + " = '" + value + "': " + applied.error().message);
  }
  return unknown_key(name, place);
}

Status apply_toml(Settings& settings, std::string_view text, const std::string& source) {
  try {
    const toml::table table = toml::parse(text, source);
    for (const auto& [key, node] : table) {
      const std::string place = source + ":" + std::to_string(node.source().begin.line);
      TRIMTAB_TRY_STATUS(apply_setting(settings, key.str(), text_of(node), place));
    }
  } catch (const toml::parse_error& error) {
    return bad_input(source + ":" + std::to_string(error.source().begin.line) + ": " +
                     std::string(error.description()));
  }
  return {};
}

Status apply_environment(Settings& settings,
                         const std::function<std::optional<std::string>(const std::string&)>& lookup) {
  for (const SettingKey& key : setting_keys()) {
    std::string variable = "TRIMTAB_" + std::string(key.name);
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (const auto value = lookup(variable)) {
      TRIMTAB_TRY_STATUS(apply_setting(settings, key.name, *value, "environment variable " + variable));
    }
  }
  return {};
}

}  // namespace trimtab::coordinator
