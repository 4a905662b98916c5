// trimtab-agent: the node daemon's program. Exit codes: 0 ended by a signal, 2 wrong usage or configuration, 3
// something outside failed.

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include "agent/agent.hpp"
#include "agent/configuration.hpp"
#include "net/log_file.hpp"
#include "net/service_notice.hpp"
#include "processes/child_process.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::agent;

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

struct CommandLine {
  std::string file;
  std::map<std::string, std::string> flags;
};

void add_options(CLI::App& app, CommandLine& line) {
  app.add_option("--config", line.file, "TOML file with the keys below; /etc/trimtab/agent.toml where there is one");
  for (const SettingFacts& one : agent_settings().facts()) {
    const auto keep = [&line, name = one.name](const std::string& text) { line.flags[name] = text; };
    const auto given = [keep](std::int64_t) { keep("true"); };
    if (one.unit.empty()) {
      app.add_flag_function(flag_of(one.name), given, help_of(one));
    } else {
      app.add_option_function<std::string>(flag_of(one.name), keep, help_of(one))->option_text(one.unit);
    }
  }
}

Result<Configuration> load(const CommandLine& line) {
  const auto variables = environment();
  std::optional<ConfigurationFile> file;
  constexpr const char* kDefaultFile = "/etc/trimtab/agent.toml";
  const std::string name = !line.file.empty() ? line.file : std::filesystem::exists(kDefaultFile) ? kDefaultFile : "";
  if (!name.empty()) {
    std::ifstream stream(name, std::ios::binary);
    if (!stream) return bad_input("couldn't read the configuration file " + name);
    file = {name, {std::istreambuf_iterator<char>(stream), {}}};
  }
  return configure(default_configuration(::geteuid() == 0, variables, host_name()), file, variables, line.flags);
}

std::string program_directory() {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  return failure ? "." : program.parent_path().string();
}

int fail(const Error& error) {
  fmt::print(stderr, "trimtab-agent: {}\n", error.message);
  return exit_code(error.kind);
}

Result<std::optional<net::LogFile>> log_file(const Configuration& configuration) {
  if (configuration.log_file.empty()) return std::optional<net::LogFile>();
  TRIMTAB_TRY(net::LogFile file, net::LogFile::open(configuration.log_file, configuration.log_limit));
  return std::optional<net::LogFile>(std::move(file));
}

int run(const Configuration& configuration, const net::ServiceVariables& manager) {
  keep_own_files_private();  // its databases and logs name jobs, plans and commands; ranks' files are their jobs'
  allow_all_descriptors();
  const bool ends_first = end_before_ranks();
  const auto log = log_file(configuration);
  if (!log.ok()) return fail(log.error());
  spdlog::set_default_logger(spdlog::stderr_logger_mt("trimtab-agent"));
  spdlog::set_level(spdlog::level::from_str(configuration.log_level));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  if (!ends_first) spdlog::warn("/proc/self/oom_score_adj: not written; where memory runs out a rank may end first");
  net::EventLoop loop;
  net::ServiceNotice notice(loop, manager);
  if (!notice.problem().empty()) spdlog::warn("the service manager hears nothing of this agent: {}", notice.problem());
  std::unique_ptr<Agent> agent;
  // Before anybody can know that it runs; a signal that comes while it starts is answered when it has.
  loop.on_signals(/*with_child_signal=*/false, [&](int number) {
    if (number == SIGHUP) return notice.reload([&] { agent->reload(); });
    spdlog::info("stops on signal {}", number);
    notice.stopping();
    agent->stop([&] { loop.stop(); });
  });
  auto started = Agent::start(loop, configuration, program_directory());
  if (!started.ok()) return fail(started.error());
  agent = std::move(started).value();
  notice.ready([&] { return agent->status(); });
  net::EventLoop::Timer log_timer;
  if (*log) log_timer = loop.every(std::chrono::seconds(1), [&log] { (*log)->look(); });
  loop.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const net::ServiceVariables manager = net::take_service_variables();
  CLI::App app("Looks after the training processes of one node: measures, launches, reports to the coordinator.");
  app.set_version_flag("--version", TRIMTAB_RELEASE);
  CommandLine line;
  add_options(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stop) {
    return app.exit(stop) == 0 ? 0 : exit_code(ErrorKind::kBadInput);
  }
  const auto configuration = load(line);
  if (!configuration.ok()) return fail(configuration.error());
  return run(*configuration, manager);
}
