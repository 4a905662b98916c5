#include "daemons/users.hpp"

#include <filesystem>

#include "files.hpp"
#include "json_text.hpp"
#include "schema/state_directory.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr const char* kEnding = ".json";

std::string users_directory(const std::string& state_directory) {
  return state_directory + "/users";
}

std::string file_of(const std::string& state_directory, const ProcessIdentity& run) {
  return users_directory(state_directory) + "/" + std::to_string(run.pid) + "-" + std::to_string(run.start_time) +
         kEnding;
}

json process_json(const ProcessIdentity& process) {
  return {{"pid", process.pid}, {"start_time", process.start_time}};
}

ProcessIdentity process_of(const json& document) {
  return {document.at("pid"), document.at("start_time")};
}

bool lives(const DaemonUser& user) {
  return is_alive(user.run) || (user.command.pid != 0 && is_alive(user.command));
}

}  // namespace

std::string to_json(const DaemonUser& user) {
  return json_text({{"run", process_json(user.run)},
                    {"command", process_json(user.command)},
                    {"job", user.job},
                    {"step", user.step}}) +
         "\n";
}

Result<DaemonUser> parse_daemon_user(std::string_view text, std::string_view source) {
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return bad_input(std::string(source) + ": no JSON");
  try {
    return DaemonUser{process_of(document.at("run")), process_of(document.at("command")), document.at("job"),
                      document.at("step")};
  } catch (const json::exception& failure) {
    return bad_input(std::string(source) + ": not a file that 'trimtab run' wrote: " + failure.what());
  }
}

Status write_user(const std::string& state_directory, const DaemonUser& user) {
  TRIMTAB_TRY_STATUS(make_own_directories(state_directory, users_directory(state_directory)));
  return replace_file(file_of(state_directory, user.run), to_json(user));
}

void remove_user(const std::string& state_directory, const ProcessIdentity& run) {
  remove_if_there(file_of(state_directory, run));
}

std::vector<DaemonUser> living_users(const std::string& state_directory) {
  std::vector<DaemonUser> users;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(users_directory(state_directory), failure)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(kEnding)) continue;
    const auto text = read_own_file(path);
    const auto user = text.ok() ? parse_daemon_user(*text, path) : text.error();
    if (user.ok() && lives(*user)) {
      users.push_back(*user);
    } else {
      remove_if_there(path);
    }
  }
  return users;
}

bool may_have_users(const std::string& state_directory) {
  const std::string directory = users_directory(state_directory);
  return !is_there(directory) || !check_own_state(directory).ok() || !living_users(state_directory).empty();
}

}  // namespace trimtab::cli
