// trimtab-coordinator: reads its settings, starts the daemon, runs the loop until a signal.

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/daemon.hpp"
#include "coordinator/settings.hpp"
#include "net/descriptor_limit.hpp"
#include "net/log_file.hpp"
#include "net/service_notice.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::coordinator;

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Status apply_file(Settings& settings, const std::string& path) {
  if (path.empty()) return {};
  std::ifstream file(path);
  if (!file) return bad_input("the configuration file " + path + " cannot be opened");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return coordinator_settings().set_from_toml(settings, text, path);
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

int report(const Error& error) {
  std::fprintf(stderr, "trimtab-coordinator: %s\n", error.message.c_str());
  return exit_code(error.kind);
}

void allow_connections(std::uint32_t connections) {
  constexpr std::uint64_t kOthers = 64;
  const std::uint64_t wanted = connections + kOthers;
  const std::uint64_t allowed = net::allow_descriptors(wanted);
  if (allowed >= wanted) return;
  spdlog::warn(
      "max_connections is {}, but this process may have {} files open: raise its limit (ulimit -Hn, LimitNOFILE)",
      connections, allowed);
}

Result<std::optional<net::LogFile>> log_file(const Settings& settings) {
  if (settings.log_file.empty()) return std::optional<net::LogFile>();
  TRIMTAB_TRY(net::LogFile file, net::LogFile::open(settings.log_file, settings.log_limit));
  return std::optional<net::LogFile>(std::move(file));
}

int run(const Settings& settings, const net::ServiceVariables& manager) {
  ::umask(S_IRWXG | S_IRWXO);  // its databases name jobs, plans and commands
  const auto log = log_file(settings);
  if (!log.ok()) return report(log.error());
  spdlog::set_default_logger(spdlog::stderr_color_mt("coordinator"));
  spdlog::set_level(spdlog::level::from_str(settings.log_level));
  allow_connections(settings.max_connections);
  const SystemClock clock;
  net::EventLoop loop;
  net::ServiceNotice notice(loop, manager);
  if (!notice.problem().empty()) spdlog::warn("the service manager hears nothing of this daemon: {}", notice.problem());
  std::unique_ptr<Daemon> daemon;
  // Before anybody can know that it runs; a signal that comes while it starts is answered when it has.
  loop.on_signals(false, [&](int signal) {
    if (signal == SIGHUP) return notice.reload([&] { daemon->reload(); });
    spdlog::info("signal {}: stopping; jobs go on and are taken up at the next start", signal);
    notice.stopping();
    daemon->stop();
    loop.stop();
  });
  auto started = Daemon::start(loop, clock, settings);
  if (!started.ok()) return report(started.error());
  daemon = std::move(started).value();
  notice.ready([&] { return daemon->status(); });
  net::EventLoop::Timer log_timer;
  if (*log) log_timer = loop.every(std::chrono::seconds(1), [&log] { (*log)->look(); });
  loop.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
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
  if (!settings.ok()) return report(settings.error());
  return run(*settings, manager);
}
