#include "daemons/embedded.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

#include "daemons/embedded_commands.hpp"
#include "daemons/ended_jobs.hpp"
#include "daemons/state_lock.hpp"
#include "files.hpp"
#include "net/tokens.hpp"
#include "schema/api/status.hpp"
#include "schema/state_directory.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(25);
// Longer than an agent gives its ranks before it kills them.
constexpr Nanoseconds kStopPatience = std::chrono::seconds(12);
// For a coordinator to read that a dead agent's connection has closed.
constexpr Nanoseconds kDeparturePatience = std::chrono::seconds(10);

constexpr const char* kCoordinator = "coordinator";

constexpr std::size_t kLongestSocketPath = 107;  // sockaddr_un on Linux, less the final zero

// Asks `done` until it says yes or the time is over.
bool wait_until(const Clock& clock, Nanoseconds patience, const std::function<bool()>& done) {
  const Nanoseconds end = clock.monotonic() + patience;
  while (!done()) {
    if (clock.monotonic() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

std::string last_lines(const std::string& path) {
  constexpr std::size_t kShown = 5;
  const auto log = read_own_file(path);
  std::istringstream stream(log.ok() ? *log : "");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::string text;
  for (std::size_t i = lines.size() - std::min(lines.size(), kShown); i < lines.size(); ++i) text += "\n  " + lines[i];
  return text.empty() ? "\n  (the log is empty)" : text;
}

bool all_gone(const std::vector<UpProcess>& processes) {
  return std::ranges::none_of(processes, [](const UpProcess& one) { return is_alive(one.identity); });
}

std::string words(const UpProcess& process, const char* how) {
  return process.name + " (pid " + std::to_string(process.identity.pid) + ")" + how;
}

// One that up.json names may be anybody's where that file is not what `up` wrote.
bool is_daemon(const UpProcess& process) {
  return runs_program(process.identity, process.name == kCoordinator ? "trimtab-coordinator" : "trimtab-agent");
}

// Ends these and says whom; who is dead already, or no daemon of ours, is not mentioned.
std::vector<std::string> stop(const std::vector<UpProcess>& processes, const Clock& clock) {
  std::vector<UpProcess> alive;
  std::ranges::copy_if(processes, std::back_inserter(alive), is_daemon);
  for (const UpProcess& process : alive) send_signal(process.identity, SIGTERM);
  wait_until(clock, kStopPatience, [&] { return all_gone(alive); });
  std::vector<std::string> stopped;
  for (const UpProcess& process : alive) {
    const bool stubborn = is_alive(process.identity);
    if (stubborn) send_signal(process.identity, SIGKILL);
    stopped.push_back(words(process, stubborn ? ", killed: it did not end in time" : ""));
  }
  wait_until(clock, std::chrono::seconds(5), [&] { return all_gone(alive); });
  return stopped;
}

std::vector<std::string> stop_all(const UpState& state, const Clock& clock) {
  std::vector<UpProcess> agents;
  std::vector<UpProcess> coordinators;
  for (const UpProcess& process : state.processes) {
    (process.name == kCoordinator ? coordinators : agents).push_back(process);
  }
  std::vector<std::string> stopped = stop(agents, clock);
  const std::vector<std::string> rest = stop(coordinators, clock);
  stopped.insert(stopped.end(), rest.begin(), rest.end());
  return stopped;
}

Bytes machine_memory() {
  const auto pages = static_cast<Bytes>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<Bytes>(sysconf(_SC_PAGE_SIZE));
}

// The nodes whose agents are connected; none where the coordinator does not answer.
std::vector<std::string> connected_nodes(const CoordinatorClient& client) {
  const auto body = client.get("/v1/nodes", std::chrono::seconds(2));
  const auto all = body.ok() ? read_reply<api::Nodes>(*body) : body.error();
  std::vector<std::string> names;
  if (!all.ok()) return names;
  for (const api::Node& node : all->nodes) {
    if (node.state == "connected") names.push_back(node.name);
  }
  return names;
}

// One attempt to bring everything up, or what is missing of it; what it has started so far is in started().
class Bringer {
 public:
  Bringer(const UpOptions& options, const Clock& clock, UpState state = {})
      : options_(options), clock_(clock), end_(clock.monotonic() + options.deadline), state_(std::move(state)) {}

  Status run() {
    if (options_.owned) state_.owner = this_process();
    state_.host = host_name();
    for (std::uint32_t index = 0; index < options_.agents; ++index) {
      TRIMTAB_TRY_STATUS(make_socket_directory(agent_socket(options_.state, index)));
    }
    TRIMTAB_TRY_STATUS(options_.shared ? begin_shared() : begin_alone());
    TRIMTAB_TRY_STATUS(start_agents());
    TRIMTAB_TRY_STATUS(await_members());
    state_.devices = static_cast<std::int32_t>(options_.agents * options_.devices);
    return replace_file(up_file(options_.state), to_json(state_));
  }
  // The same for what has died of a complete state; what lives is left alone.
  Status repair() {
    await_departures();
    for (UpProcess& process : state_.processes) {
      if (!is_alive(process.identity)) TRIMTAB_TRY_STATUS(start(process));
    }
    TRIMTAB_TRY_STATUS(await_coordinator());
    return await_members();
  }
  [[nodiscard]] const UpState& state() const { return state_; }
  [[nodiscard]] const std::vector<UpProcess>& started() const { return started_; }

 private:
  Status start(UpProcess& process) {
    // Its state, which stands beside its log.
    TRIMTAB_TRY_STATUS(make_own_directories(options_.state, std::filesystem::path(process.log).replace_extension()));
    TRIMTAB_TRY(process.identity, start_in_background(process.command, process.log));
    started_.push_back(process);
    // Recorded at once: whatever happens to us, `down` finds it.
    return replace_file(up_file(options_.state), to_json(state_));
  }

  Status start(const std::string& name, const std::vector<std::string>& command, const std::string& log) {
    state_.processes.push_back({name, {}, log, command});
    return start(state_.processes.back());
  }

  Status begin_alone() {
    TRIMTAB_TRY_STATUS(make_tokens());
    TRIMTAB_TRY_STATUS(start_coordinator());
    return end_noted_jobs(options_.state, state_);
  }

  // Tokens and certificates are there; the coordinator is, too, where another node has started it.
  Status begin_shared() {
    state_.shared = options_.shared->coordinator;
    state_.port = state_.shared->port;
    return state_.port == 0 ? start_coordinator() : await_coordinator();
  }

  // New ones for each `up`.
  Status make_tokens() {
    net::Tokens tokens;
    TRIMTAB_TRY(const std::string person, net::new_token());
    TRIMTAB_TRY(const std::string agent, net::new_token());
    TRIMTAB_TRY_STATUS(tokens.add({"owner", net::Role::kOperate, net::kEveryTenant}, person));
    TRIMTAB_TRY_STATUS(tokens.add({"agents", net::Role::kAgent, net::kEveryTenant}, agent));
    TRIMTAB_TRY_STATUS(write_private_file(person_token(options_.state), person + "\n"));
    TRIMTAB_TRY_STATUS(write_private_file(agent_token(options_.state), agent + "\n"));
    return write_private_file(token_hashes(options_.state), tokens.text());
  }

  Status start_coordinator() {
    const std::string place = port_file(options_.state);
    remove_if_there(place);
    TRIMTAB_TRY_STATUS(start(kCoordinator, coordinator_command(options_), coordinator_log(options_.state)));
    TRIMTAB_TRY_STATUS(await("the coordinator to listen", [&] { return read_port(place); }));
    if (state_.shared) state_.shared->port = state_.port;
    // Started again, it has to be where the agents look for it.
    UpOptions found = options_;
    found.port = state_.port;
    state_.processes.front().command = coordinator_command(found);
    return await_coordinator();
  }

  Status await_coordinator() {
    return await("the coordinator to answer", [&] {
      return CoordinatorClient(embedded_address(options_.state, state_))
          .get("/v1/status", std::chrono::seconds(2))
          .ok();
    });
  }

  bool read_port(const std::string& path) {
    const auto text = read_own_file(path);
    if (!text.ok()) return false;
    std::from_chars(text->data(), text->data() + text->size(), state_.port);
    return state_.port != 0;
  }

  Status start_agents() {
    const Bytes share = machine_memory() / std::max(1U, options_.agents * options_.devices);
    const Bytes memory = options_.memory > 0 ? options_.memory : share;
    for (std::uint32_t index = 0; index < options_.agents; ++index) {
      TRIMTAB_TRY_STATUS(start(agent_process(node_name(options_, index)),
                               agent_command(options_, state_.port, index, memory, ::geteuid() == 0),
                               agent_log(options_.state, index)));
    }
    return {};
  }

  [[nodiscard]] Status make_socket_directory(const std::string& socket) const {
    const std::string directory = std::filesystem::path(socket).parent_path().string();
    TRIMTAB_TRY_STATUS(make_private_directories(directory));
    // In /tmp somebody else may have made it first, to catch the job's data.
    const Status own = check_own_state(directory);
    if (directory.starts_with(options_.state)) return own;
    if (!own.ok()) {
      return wrap("the path of " + options_.state + " leaves no room for a socket's name, and its place in /tmp is " +
                      "not yours. Name a state directory with a shorter path (--state)",
                  own.error());
    }
    chmod(directory.c_str(), 0700);
    return {};
  }

  Status await_members() {
    const CoordinatorClient client(embedded_address(options_.state, state_));
    return await("all agents to join", [&] {
      const std::vector<std::string> connected = connected_nodes(client);
      return std::ranges::all_of(state_.processes, [&](const UpProcess& process) {
        return process.name == kCoordinator ||
               std::ranges::find(connected, process.name, agent_process) != connected.end();
      });
    });
  }

  // Until the coordinator has seen the end of each agent that died. Before that, its word that all agents are connected
  // says nothing of those that are started again.
  void await_departures() {
    const CoordinatorClient client(embedded_address(options_.state, state_));
    wait_until(clock_, kDeparturePatience, [&] {
      const std::vector<std::string> connected = connected_nodes(client);
      return std::ranges::none_of(state_.processes, [&](const UpProcess& process) {
        return !is_alive(process.identity) &&
               std::ranges::find(connected, process.name, agent_process) != connected.end();
      });
    });
  }

  // Gives up early when a daemon has ended: nothing will come of waiting then.
  Status await(const std::string& what, const std::function<bool()>& done) {
    const UpProcess* dead = nullptr;
    const bool settled = wait_until(clock_, std::max(Nanoseconds(0), end_ - clock_.monotonic()), [&] {
      if (done()) return true;
      for (const UpProcess& process : state_.processes) {
        if (!is_alive(process.identity)) dead = &process;
      }
      return dead != nullptr;
    });
    if (dead != nullptr)
      return unavailable(dead->name + " ended at once; its log " + dead->log + ":" + last_lines(dead->log));
    if (settled) return {};
    const UpProcess& last = state_.processes.back();
    return unavailable("gave up waiting for " + what + "; the end of " + last.log + ":" + last_lines(last.log));
  }

  const UpOptions& options_;
  const Clock& clock_;
  Nanoseconds end_;
  UpState state_;
  std::vector<UpProcess> started_;
};

// An `up` that was killed half way has recorded no devices yet.
bool is_complete(const UpState& state) {
  return state.devices > 0 &&
         std::ranges::all_of(state.processes, [](const UpProcess& one) { return is_alive(one.identity); });
}

Result<UpOutcome> take_over(UpState state, const UpOptions& options) {
  const bool orphaned = state.owner.pid != 0 && !is_alive(state.owner);
  if (options.owned && state.owner.pid != 0 && !orphaned && state.owner != this_process()) {
    return unavailable("the daemons in " + options.state + " belong to another trimtab (pid " +
                       std::to_string(state.owner.pid) +
                       ") and go when it ends; wait for it, run 'trimtab up' to keep them, or name another --state");
  }
  if (state.owner.pid != 0) {
    state.owner = options.owned ? this_process() : ProcessIdentity{};
    TRIMTAB_TRY_STATUS(replace_file(up_file(options.state), to_json(state)));
  }
  return UpOutcome{std::move(state), true, {}, {}};
}

// After a complete start some of it has died, and not all: a reboot or `down` would have left nothing.
bool can_be_repaired(const UpState& state) {
  bool any_alive = false;
  for (const UpProcess& process : state.processes) {
    const bool alive = is_alive(process.identity);
    if (!alive && process.command.empty()) return false;
    any_alive = any_alive || alive;
  }
  return state.devices > 0 && any_alive;
}

Result<UpOutcome> repair(UpState state, const UpOptions& options, const Clock& clock) {
  TRIMTAB_TRY(UpOutcome outcome, take_over(std::move(state), options));
  Bringer bringer(options, clock, outcome.state);
  if (const Status status = bringer.repair(); !status.ok()) {
    stop(bringer.started(), clock);
    return wrap("part of what was up in " + options.state +
                    " has died and could not be started again; the rest was left as it is ('trimtab down' ends it)",
                status.error());
  }
  for (const UpProcess& process : bringer.started()) outcome.restarted.push_back(words(process, ""));
  outcome.state = bringer.state();
  return outcome;
}

// REQUIRES: the lock is held.
Result<std::vector<std::string>> stop_recorded(const std::string& directory, const Clock& clock) {
  const auto state = recorded_state(directory);
  if (!state) return std::vector<std::string>{};
  std::vector<std::string> stopped = stop_all(*state, clock);
  std::error_code failure;
  std::filesystem::remove(up_file(directory), failure);
  if (failure) return unavailable("cannot remove " + up_file(directory) + ": " + failure.message());
  return stopped;
}

}  // namespace

// The file, if there is a readable one in a directory of ours. One that no release can read is as good as none: what it
// named is unknown.
std::optional<UpState> recorded_state(const std::string& directory) {
  if (!check_own_state(directory).ok()) return std::nullopt;
  const auto text = read_own_file(up_file(directory));
  if (!text.ok()) return std::nullopt;
  auto state = parse_up_state(*text, up_file(directory));
  return state.ok() ? std::optional(std::move(state).value()) : std::nullopt;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

std::string agent_socket(const std::string& state_directory, std::uint32_t index) {
  std::string path = agent_directory(state_directory, index) + "/agent.sock";
  if (path.size() <= kLongestSocketPath) return path;
  // The user's id keeps people apart, the hash their state directories.
  return "/tmp/trimtab-" + std::to_string(getuid()) + "/" + std::to_string(std::hash<std::string>{}(state_directory)) +
         "-n" + std::to_string(index) + ".sock";
}

Address embedded_address(const std::string& state_directory, const UpState& state) {
  if (state.shared) return *state.shared;
  const std::string token = person_token(state_directory);
  return {"127.0.0.1", state.port, {}, is_there(token) ? token : ""};
}

bool is_usable(const UpState& state) {
  return is_complete(state) && (state.owner.pid == 0 || is_alive(state.owner));
}

std::optional<UpState> running_state(const std::string& state_directory) {
  auto state = recorded_state(state_directory);
  if (!state || state->processes.empty() || !is_alive(state->processes.front().identity)) return std::nullopt;
  return state;
}

Result<UpOutcome> bring_up(const UpOptions& options, const Clock& clock) {
  TRIMTAB_TRY(const Descriptor lock, lock_state(options.state, clock));
  UpOutcome outcome;
  if (auto recorded = recorded_state(options.state)) {
    if (is_complete(*recorded)) return take_over(std::move(*recorded), options);
    if (can_be_repaired(*recorded)) return repair(std::move(*recorded), options, clock);
    outcome.left_over = stop_all(*recorded, clock);
  }
  Bringer bringer(options, clock);
  if (const Status status = bringer.run(); !status.ok()) {
    stop_all(bringer.state(), clock);
    remove_if_there(up_file(options.state));
    return status.error();
  }
  outcome.state = bringer.state();
  return outcome;
}

Status release(const std::string& state_directory, const Clock& clock) {
  TRIMTAB_TRY([[maybe_unused]] const bool released, release_unused(state_directory, clock, [] { return false; }));
  return {};
}

Result<bool> release_unused(const std::string& state_directory, const Clock& clock,
                            const std::function<bool()>& is_used) {
  TRIMTAB_TRY(const Descriptor lock, lock_state(state_directory, clock));
  const auto state = recorded_state(state_directory);
  if (!state || state->owner != this_process() || is_used()) return false;
  TRIMTAB_TRY(const std::vector<std::string> ignored, stop_recorded(state_directory, clock));
  return true;
}

Status disown(const std::string& state_directory) {
  TRIMTAB_TRY(const Descriptor lock, lock_state(state_directory, SystemClock()));
  auto state = recorded_state(state_directory);
  if (!state || state->owner != this_process()) return {};
  state->owner = {};
  return replace_file(up_file(state_directory), to_json(*state));
}

Result<DownOutcome> bring_down(const std::string& state_directory, const Clock& clock) {
  TRIMTAB_TRY_STATUS(check_own_state(state_directory));
  if (!recorded_state(state_directory)) {
    const std::string file = up_file(state_directory);
    if (!is_there(file)) return DownOutcome{};  // asking for nothing to be up needs no directory
    return bad_input(file + " cannot be read, so which daemons are up is not known. 'pgrep -af " + state_directory +
                     "/' lists those that are: end them (kill), and remove the file");
  }
  TRIMTAB_TRY(const Descriptor lock, lock_state(state_directory, clock));
  DownOutcome outcome;
  if (const auto state = recorded_state(state_directory)) {
    outcome.jobs = end_jobs(state_directory, *state, clock);
    for (const UpProcess& process : state->processes) {
      if (is_alive(process.identity) && !is_daemon(process)) outcome.left_alone.push_back(words(process, ""));
    }
  }
  TRIMTAB_TRY(outcome.stopped, stop_recorded(state_directory, clock));
  return outcome;
}

}  // namespace trimtab::cli
