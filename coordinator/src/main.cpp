// trimtab-coordinator: reads its settings, starts the daemon, runs the loop until a signal.

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "accounts.hpp"
#include "coordinator/daemon.hpp"
#include "coordinator/settings.hpp"
#include "net/daemon.hpp"
#include "net/granting_file.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::coordinator;

constexpr const char* kProgram = "trimtab-coordinator";

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Status apply_file(Settings& settings, const std::string& path) {
  if (path.empty()) return {};
  const auto text = net::read_granting_file(path);
  if (!text.ok() && text.error().kind == ErrorKind::kBadInput) return text.error();
  if (!text.ok()) return bad_input("the configuration file " + path + " cannot be opened");
  return coordinator_settings().set_from_toml(settings, *text, path);
}

Result<Settings> read_settings(const std::string& config, const std::map<std::string, std::string>& flags) {
  Settings settings;
  TRIMTAB_TRY_STATUS(apply_file(settings, config));
  TRIMTAB_TRY_STATUS(coordinator_settings().set_from_environment(settings, environment));
  for (const auto& [name, value] : flags) {
    TRIMTAB_TRY_STATUS(coordinator_settings().set_from_flag(settings, name, value));
  }
  return settings;
}

// Connections beyond the descriptors that there are would keep out those that give way to nobody.
void fit_connections(Settings& settings) {
  const std::uint64_t allowed = net::allow_descriptors(settings.max_connections + kOtherDescriptors);
  const std::uint32_t fitting = connections_within(settings.max_connections, allowed);
  if (fitting == settings.max_connections) return;
  spdlog::warn(
      "max_connections is {}, but this process may have {} files open: {} connections are taken at a time. Raise its "
      "limit (ulimit -Hn, LimitNOFILE)",
      settings.max_connections, allowed, fitting);
  settings.max_connections = fitting;
}

int run(Settings settings, const net::ServiceVariables& manager) {
  ::umask(S_IRWXG | S_IRWXO);  // its databases name jobs, plans and commands
  const auto log = net::open_log_file(settings.log_file, settings.log_limit);
  if (!log.ok()) return net::report(kProgram, log.error());
  spdlog::set_default_logger(spdlog::stderr_color_mt("coordinator"));
  spdlog::set_level(spdlog::level::from_str(settings.log_level));
  fit_connections(settings);
  settings.system_memory = system_memory_limit();
  const SystemClock clock;
  const Status ended = net::run_daemon(
      manager, *log, [&](net::EventLoop& loop) { return Daemon::start(loop, clock, settings); },
      [](Daemon& daemon, int signal, const std::function<void()>& gone) {
        spdlog::info("signal {}: stopping; jobs go on and are taken up at the next start", signal);
        daemon.stop();
        gone();
      },
      [](const std::string& problem) {
        spdlog::warn("the service manager hears nothing of this daemon: {}", problem);
      });
  return ended.ok() ? 0 : net::report(kProgram, ended.error());
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGXFSZ, SIG_IGN);  // a database at its file's limit is an error of that write
  const net::ServiceVariables manager = net::take_service_variables();
  CLI::App app{"Trimtab's coordinator: one per cluster. Agents and people connect to its port."};
  app.set_version_flag("--version", TRIMTAB_RELEASE);
  std::string config;
  app.add_option("--config", config, "TOML file with the keys below, dashes as underscores");
  std::map<std::string, std::string> flags;
  for (const SettingFacts& one : coordinator_settings().facts()) {
    const auto keep = [&flags, name = one.name](const std::string& value) { flags[name] = value; };
    app.add_option_function<std::string>(flag_of(one.name), keep, help_of(one))->option_text(one.unit);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto settings = read_settings(config, flags);
  return settings.ok() ? run(*settings, manager) : net::report(kProgram, settings.error());
}
