#include "daemons/up_state.hpp"

#include <cstdlib>
#include <filesystem>

#include "json_text.hpp"
#include "schema/json_nesting.hpp"
#include "schema/state_directory.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

ProcessIdentity identity_of(const json& document) {
  return {document.at("pid"), document.at("start_time")};
}

json shared_json(const Address& address) {
  return {{"host", address.host},
          {"port", address.port},
          {"authority", address.tls.authority},
          {"certificate", address.tls.certificate},
          {"key", address.tls.key},
          {"token", address.token_file}};
}

Address shared_address(const json& document) {
  return {document.at("host"),
          document.at("port"),
          {document.at("authority"), document.at("certificate"), document.at("key")},
          document.at("token")};
}

Result<std::string> default_directory() {
  if (std::string directory = environment("TRIMTAB_STATE"); !directory.empty()) return directory;
  return user_state_directory(environment("XDG_STATE_HOME"), environment("HOME"));
}

}  // namespace

std::string to_json(const UpState& state) {
  json processes = json::array();
  for (const UpProcess& process : state.processes) {
    processes.push_back({{"name", process.name},
                         {"pid", process.identity.pid},
                         {"start_time", process.identity.start_time},
                         {"log", process.log},
                         {"command", process.command}});
  }
  json document = {{"schema", "trimtab.up/1"},
                   {"port", state.port},
                   {"devices", state.devices},
                   {"owner", {{"pid", state.owner.pid}, {"start_time", state.owner.start_time}}},
                   {"processes", processes}};
  if (!state.host.empty()) document["host"] = state.host;
  if (state.shared) document["shared"] = shared_json(*state.shared);
  return json_text(document, 2) + "\n";
}

Result<UpState> parse_up_state(std::string_view text, std::string_view source) {
  if (!json_nested_within(text)) return bad_input(std::string(source) + ": " + json_nesting_refusal());
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return bad_input(std::string(source) + ": no JSON");
  try {
    if (document.at("schema") != "trimtab.up/1") return bad_input(std::string(source) + ": written by another release");
    UpState state{
        document.at("port"), document.at("devices"), identity_of(document.at("owner")), {}, document.value("host", "")};
    if (document.contains("shared")) state.shared = shared_address(document.at("shared"));
    for (const json& process : document.at("processes")) {
      state.processes.push_back({process.at("name"), identity_of(process), process.at("log"),
                                 process.value("command", std::vector<std::string>{})});
    }
    return state;
  } catch (const json::exception& failure) {
    return bad_input(std::string(source) + ": not a file that 'trimtab up' wrote: " + failure.what());
  }
}

Result<std::string> state_directory(const std::string& flag) {
  std::error_code failure;
  TRIMTAB_TRY(const std::filesystem::path path, flag.empty() ? default_directory() : Result<std::string>(flag));
  const std::filesystem::path absolute = std::filesystem::absolute(path, failure);
  return (failure ? path : absolute).lexically_normal().string();
}

std::string up_file(const std::string& state_directory) {
  return state_directory + "/up.json";
}

}  // namespace trimtab::cli
