#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "arguments.hpp"
#include "daemons/embedded.hpp"
#include "doctor/gpu.hpp"
#include "doctor/job_commands.hpp"
#include "doctor/looks.hpp"
#include "doctor/services.hpp"
#include "doctor/tenants.hpp"
#include "files.hpp"
#include "host/fingerprint_probe.hpp"
#include "host/release_library.hpp"
#include "host/sampler.hpp"
#include "json_text.hpp"
#include "local_port.hpp"
#include "net/http_client.hpp"
#include "schema/job.hpp"
#include "schema/state_directory.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string job;
  SessionFlags session;
  std::string configuration = "/etc/trimtab";
  std::string metrics_port;
  bool json = false;
};

// What /proc/cpuinfo or /proc/meminfo says after "name:".
std::string proc_field(const std::string& path, const std::string& name) {
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && line.starts_with(name)) return line.substr(std::min(colon + 2, line.size()));
  }
  return "";
}

Bytes available_memory() {
  return std::strtoll(proc_field("/proc/meminfo", "MemAvailable").c_str(), nullptr, 10) * 1024;
}

// The directory, or the nearest one above that exists: what decides whether it can be made.
std::string existing_parent(fs::path path) {
  while (!is_there(path) && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

PortState port_state(std::uint16_t port) {
  if (port_free(port)) return PortState::kFree;
  // A coordinator that asks for a token is one, too.
  const auto reply = net::http_request({"127.0.0.1", port}, "GET", "/v1/status", "", std::chrono::seconds(2));
  const bool answers = reply.ok() && (reply->status == 200 || reply->status == 401);
  return answers ? PortState::kOurs : PortState::kTaken;
}

std::string environment(const std::optional<Job>& job, const std::string& name) {
  if (job && job->environment.contains(name)) return job->environment.at(name);
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

std::vector<Check> installation_checks(const Scope& scope) {
  const std::string programs = program_directory();
  std::vector<Check> checks;
  const auto add_program = [&](bool needed, const char* name) {
    const std::string path = programs + "/" + name;
    if (needed) checks.push_back(check_program(name, path, access(path.c_str(), X_OK) == 0));
  };
  add_program(scope.coordinator_program, "trimtab-coordinator");
  add_program(scope.agent_program, "trimtab-agent");
  const std::string inject = host::release_library(programs, "libtrimtab-inject.so").string();
  checks.push_back(check_library("recorder library", inject, access(inject.c_str(), R_OK) == 0,
                                 "nothing is measured inside running jobs"));
  if (checks.back().health != Health::kOk) checks.back().remains = Detail::kOff;
  const std::string shim = host::release_library(programs, "libtrimtab-nvtx.so").string();
  checks.push_back(
      check_library("NVTX shim", shim, access(shim.c_str(), R_OK) == 0,
                    "the Python client writes its ranges without NVTX; build with the NVTX headers to have it"));
  return checks;
}

// Where `trimtab up` writes.
std::vector<Check> up_checks(const Result<std::string>& state) {
  const Status own = state.ok() ? check_own_state(*state) : Status(state.error());
  if (!own.ok()) return {{"state directory", Health::kFail, own.error().message, "set HOME, or give --state DIR"}};
  const std::string parent = existing_parent(*state);
  const std::string sockets = existing_parent(fs::path(agent_socket(*state, 0)).parent_path());
  return {check_directory("state directory", *state, access(parent.c_str(), W_OK | X_OK) == 0),
          check_directory("socket directory", sockets, access(sockets.c_str(), W_OK | X_OK) == 0)};
}

std::vector<Check> machine_checks(const Arguments& arguments, const std::optional<Job>& job, const Scope& scope) {
  const auto state = state_directory(arguments.session.state);
  const std::string parent = state.ok() ? existing_parent(*state) : "/";
  const std::int32_t ranks = job ? job->world_size : 1;
  std::error_code failure;
  const fs::space_info space = fs::space(parent, failure);
  std::vector<Check> checks{check_cores(std::thread::hardware_concurrency(), ranks),
                            check_memory(available_memory(), job ? job->memory_limit : 0, ranks),
                            check_disk(parent, failure ? 0 : static_cast<Bytes>(space.available))};
  if (scope.up_directories) append(checks, up_checks(state));
  if (scope.up_port) checks.push_back(check_port(7420, port_state(7420)));
  return checks;
}

// A command of the job's interpreter, as its ranks run it.
CommandOutcome ask_interpreter(const std::optional<Job>& job, const std::string& program, Nanoseconds patience) {
  const std::string interpreter = job ? interpreter_of(*job).name : Interpreter{}.name;
  const std::vector<std::string> command{interpreter, "-c", program};
  return run_command(job ? as_rank(*job, command) : command, SystemClock(), patience);
}

Check torch_check(const std::optional<Job>& job, Health without) {
  const Interpreter interpreter = job ? interpreter_of(*job) : Interpreter{};
  const CommandOutcome torch =
      ask_interpreter(job, "import torch; print('torch', torch.__version__)", std::chrono::seconds(60));
  const bool guessed = job && !interpreter.named;
  Check check = check_torch(interpreter.name, torch, guessed ? Health::kWarn : without);
  if (guessed && check.health != Health::kOk) {
    check.found = "not looked for: the job's commands name no interpreter (" + check.found + ")";
    check.remedy = "where train is a shell script, see that the interpreter that it chooses has PyTorch";
  }
  return check;
}

std::vector<Check> job_checks(const std::optional<Job>& job, const Scope& scope) {
  std::vector<Check> checks;
  if (job) checks.push_back(check_train(*job));
  if (scope.without_torch) checks.push_back(torch_check(job, *scope.without_torch));
  checks.push_back(check_openblas(environment(job, "OPENBLAS_CORETYPE"), proc_field("/proc/cpuinfo", "flags")));
  checks.push_back(check_threads(environment(job, "OMP_NUM_THREADS")));
  checks.push_back(check_turned_off(environment(job, "TRIMTAB")));
  return checks;
}

// Where PyTorch's own packages keep CUDA's libraries.
std::vector<std::string> package_directories(const std::optional<Job>& job) {
  const CommandOutcome found =
      ask_interpreter(job, "import sysconfig; print(sysconfig.get_paths()['purelib'])", std::chrono::seconds(20));
  if (found.exit_code != 0 || found.output.empty()) return {};
  const std::string packages = found.output.substr(0, found.output.find('\n'));
  return {packages + "/nvidia/cuda_cupti/lib", packages + "/nvidia/nccl/lib", packages + "/nvidia/cu13/lib",
          packages + "/torch/lib"};
}

constexpr Nanoseconds kNvmlLimit = std::chrono::seconds(10);

// What PCIe links say of themselves now.
host::Samples link_samples(const std::string& nvml) {
  static const SystemClock clock;  // a read that hangs outlives the sampler
  auto sources = host::host_sources("/", nvml);
  std::erase_if(sources, [](const auto& one) { return one->name() != "gpu" && one->name() != "pci"; });
  host::Sampler sampler(std::move(sources), std::chrono::hours(1), clock);
  (void)sampler.refresh(kNvmlLimit);
  return sampler.samples();
}

std::vector<Check> profiling_checks(const std::optional<Job>& job) {
  host::ProfilingInput input;
  const std::string chosen = environment(std::nullopt, "TRIMTAB_NVML");  // the agent's key
  const std::string nvml = chosen.empty() ? host::kNvmlLibrary : chosen;
  host::ProbeInput probe = host::probe_input(host::read_gpu_inventory(nvml, kNvmlLimit));
  input.gpus = std::move(probe.gpus);
  if (input.gpus.access != host::GpuAccess::kUnreadable) input.samples = link_samples(nvml);
  input.environment = std::move(probe.environment);
  if (job) {
    for (const auto& [name, value] : job->environment) input.environment[name] = value;
  }
  if (input.gpus.access != host::GpuAccess::kAbsent) {
    input.library_directories = package_directories(job);
  }
  return gpu_checks(host::read_profiling_facts(input), input.environment);
}

nlohmann::json check_json(const Check& check) {
  nlohmann::json object{
      {"name", check.name}, {"health", to_string(check.health)}, {"found", check.found}, {"remedy", check.remedy}};
  if (check.remains) object["remains"] = to_string(*check.remains);
  return object;
}

void print(const std::vector<Check>& checks, bool as_json, Console& console) {
  const Detail detail = remaining_detail(checks);
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Check& check : checks) list.push_back(check_json(check));
    console.out << json_text({{"health", to_string(overall(checks))}, {"detail", to_string(detail)}, {"checks", list}},
                             2)
                << "\n";
    return;
  }
  TextTable table({"health", "check", "found"});
  for (const Check& check : checks) {
    table.add({std::string(to_string(check.health)), check.name, check.found});
    if (check.health != Health::kOk && check.remains) {
      table.add({"", "", "   measured here: " + std::string(to_string(*check.remains))});
    }
    if (!check.remedy.empty()) table.add({"", "", "-> " + check.remedy});
  }
  console.out << table.str() << "\ndetail that remains on this node: " << to_string(detail) << "\n";
}

// Nothing where nothing was given.
Result<std::optional<std::uint16_t>> parse_port(const std::string& text) {
  if (text.empty()) return std::optional<std::uint16_t>();
  TRIMTAB_TRY(const auto port, parse_count("--metrics-port", text));
  if (port > 65535) return bad_input("--metrics-port: expected at most 65535, but found " + text);
  return std::optional(static_cast<std::uint16_t>(port));
}

// Of daemons that are here, or that are named.
std::vector<Check> service_checks(const Arguments& arguments, std::optional<std::uint16_t> metrics_port) {
  std::vector<Check> checks = configuration_checks(arguments.configuration);
  append(checks, tenant_checks(arguments.configuration));
  const SystemClock clock;
  std::vector<FirstLook> looks =
      look_at_agents(find_agents(arguments.configuration, metrics_port), arguments.session.tls, clock);
  const auto coordinator = find_coordinator(arguments.session, arguments.configuration);
  if (coordinator) looks.push_back(look_at_coordinator(*coordinator, clock));
  append(checks, look_again(std::move(looks), clock, [](Nanoseconds time) { std::this_thread::sleep_for(time); }));
  return checks;
}

Result<int> doctor(const Arguments& arguments, Console& console) {
  std::optional<Job> job;
  if (!arguments.job.empty()) {
    TRIMTAB_TRY(job, load_job(arguments.job));
  }
  TRIMTAB_TRY(const auto port, parse_port(arguments.metrics_port));
  const Scope scope =
      scope_of(configured_services(arguments.configuration), job.has_value(), !arguments.session.state.empty());
  std::vector<Check> checks = installation_checks(scope);
  append(checks, machine_checks(arguments, job, scope));
  append(checks, job_checks(job, scope));
  append(checks, profiling_checks(job));
  append(checks, service_checks(arguments, port));
  print(checks, arguments.json, console);
  return overall(checks) == Health::kFail ? 1 : 0;
}

}  // namespace

void add_doctor(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(
      root, "doctor",
      "Say what is missing on this machine, and what restricts profiling (exit 1: something needed is missing)",
      "trimtab doctor --job job.toml");
  add_value(verb, "job,--job", arguments->job, "FILE", "job.toml, to check its interpreter and environment");
  add_coordinator_flags(verb, arguments->session);
  add_value(verb, "--configuration", arguments->configuration, "DIR",
            "Where agent.toml, agent-USER.toml and coordinator.toml are", Need::kHasDefault);
  add_value(verb, "--metrics-port", arguments->metrics_port, "N",
            "Of this machine's agent (default: that of agent.toml, else 7421); 0 = do not ask it");
  add_action(verb, selection, arguments, doctor);
}

}  // namespace trimtab::cli
