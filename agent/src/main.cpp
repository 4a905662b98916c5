// trimtab-agent: the node daemon's program. Exit codes: 0 ended by a signal, 2 wrong usage or configuration, 3
// something outside failed.

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>

#include "agent/agent.hpp"
#include "net/daemon.hpp"
#include "net/granting_file.hpp"
#include "processes/child_process.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::agent;

constexpr const char* kProgram = "trimtab-agent";

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

Result<Configuration> load(const std::string& given, const std::map<std::string, std::string>& flags) {
  const auto variables = own_environment();
  std::optional<ConfigurationFile> file;
  constexpr const char* kDefaultFile = "/etc/trimtab/agent.toml";
  const std::string name = !given.empty() ? given : std::filesystem::exists(kDefaultFile) ? kDefaultFile : "";
  if (!name.empty()) {
    auto text = net::read_granting_file(name);
    if (!text.ok() && text.error().kind == ErrorKind::kBadInput) return text.error();
    if (!text.ok()) return bad_input("couldn't read the configuration file " + name);
    file = {name, std::move(text).value()};
  }
  return configure(default_configuration(::geteuid() == 0, variables, host_name()), file, variables, flags);
}

std::string program_directory() {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  return failure ? "." : program.parent_path().string();
}

int run(const Configuration& configuration, const net::ServiceVariables& manager) {
  keep_own_files_private();  // its databases and logs name jobs, plans and commands; ranks' files are their jobs'
  allow_all_descriptors();
  const bool ends_first = end_before_ranks();
  const auto log = net::open_log_file(configuration.log_file, configuration.log_limit);
  if (!log.ok()) return net::report(kProgram, log.error());
  spdlog::set_default_logger(spdlog::stderr_logger_mt(kProgram));
  spdlog::set_level(spdlog::level::from_str(configuration.log_level));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  if (!ends_first) spdlog::warn("/proc/self/oom_score_adj: not written; where memory runs out a rank may end first");
  const Status ended = net::run_daemon(
      manager, *log, [&](net::EventLoop& loop) { return Agent::start(loop, configuration, program_directory()); },
      [](Agent& agent, int signal, const std::function<void()>& gone) {
        spdlog::info("stops on signal {}", signal);
        agent.stop(gone);
      },
      [](const std::string& problem) { spdlog::warn("the service manager hears nothing of this agent: {}", problem); });
  return ended.ok() ? 0 : net::report(kProgram, ended.error());
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a database at its file's limit is an error of that write
  const net::ServiceVariables manager = net::take_service_variables();
  CLI::App app("Looks after the training processes of one node: measures, launches, reports to the coordinator.");
  app.set_version_flag("--version", TRIMTAB_RELEASE);
  std::string file;
  app.add_option("--config", file, "TOML file with the keys below; /etc/trimtab/agent.toml where there is one");
  std::map<std::string, std::string> flags;
  for (const SettingFacts& one : agent_settings().facts()) {
    const auto keep = [&flags, name = one.name](const std::string& text) { flags[name] = text; };
    if (one.unit.empty()) {
      app.add_flag_function(
          flag_of(one.name), [keep](std::int64_t) { keep("true"); }, help_of(one));
    } else {
      app.add_option_function<std::string>(flag_of(one.name), keep, help_of(one))->option_text(one.unit);
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stop) {
    return app.exit(stop) == 0 ? 0 : exit_code(ErrorKind::kBadInput);
  }
  const auto configuration = load(file, flags);
  return configuration.ok() ? run(*configuration, manager) : net::report(kProgram, configuration.error());
}
