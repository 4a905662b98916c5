#include "run/watching.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "daemons/embedded.hpp"
#include "daemons/keeper.hpp"
#include "daemons/state_lock.hpp"
#include "daemons/users.hpp"
#include "files.hpp"
#include "run/job_name.hpp"
#include "run/node_state.hpp"
#include "schema/api/status.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(3);
// The first node of several starts a coordinator, and a shared file system shows its files late.
constexpr Nanoseconds kNodesPatience = std::chrono::seconds(10);
constexpr Nanoseconds kAnswer = std::chrono::seconds(1);
constexpr Nanoseconds kGoingPatience = std::chrono::seconds(3);
constexpr Nanoseconds kPoll = std::chrono::milliseconds(25);

std::set<std::string> active_jobs(const Address& address) {
  std::set<std::string> names;
  const auto body = CoordinatorClient(address).get("/v1/status", kAnswer);
  const auto cluster = body.ok() ? read_reply<api::ClusterStatus>(*body) : body.error();
  if (!cluster.ok()) return names;
  for (const api::JobSummary& job : cluster->jobs) {
    if (job.active) names.insert(job.name);
  }
  return names;
}

bool leads_of(const LaunchFacts& facts) {
  return facts.step.empty() || facts.rank.rank == 0;
}

// Daemons that a person names.
Result<Watch> named_watch(const WatchRequest& request, const LaunchFacts& facts) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(request.session));
  const auto state = state_directory(request.session.state);
  Watch watch;
  watch.coordinator = client.address();
  TRIMTAB_TRY([[maybe_unused]] const std::string answer, client.get("/v1/status", kAnswer));
  TRIMTAB_TRY(watch.socket, agent_socket_here(request.socket, state.ok() ? *state : "", request.variables));
  // The processes of one launch cannot agree on a free name here, so it is the launch's own.
  watch.job = facts.step.empty() ? free_job_name(request.job, active_jobs(watch.coordinator))
                                 : job_name_of({request.job + "-" + facts.step});
  watch.leads = leads_of(facts);
  return watch;
}

// Brings this run into the users of a state directory, and starts who brings the daemons up where nobody has.
class Joining {
 public:
  Joining(const WatchRequest& request, const LaunchFacts& facts, const NodeState& node, const Clock& clock)
      : request_(request),
        facts_(facts),
        node_(node),
        clock_(clock),
        end_(clock.monotonic() + (node.several() ? kNodesPatience : kPatience)) {}

  Result<Watch> run() {
    TRIMTAB_TRY_STATUS(join());
    auto watch = await();
    if (!watch.ok()) remove_user(node_.state, user_.run);
    return watch;
  }

 private:
  [[nodiscard]] Nanoseconds left() const { return std::max(Nanoseconds(0), end_ - clock_.monotonic()); }

  Status join() {
    TRIMTAB_TRY(const Descriptor lock, lock_state(node_.state, clock_, left()));
    user_ = {this_process(), {}, name(), facts_.step};
    TRIMTAB_TRY_STATUS(write_user(node_.state, user_));
    const auto state = recorded_state(node_.state);
    if ((state && is_usable(*state)) || is_alive(recorded_keeper(node_.state))) return {};
    const auto keeper = start_keeper(node_, user_.job);
    if (keeper.ok()) return record_keeper(node_.state, *keeper);
    remove_user(node_.state, user_.run);
    return keeper.error();
  }

  // What the other processes of this launch call it; else one that nobody uses.
  std::string name() {
    std::set<std::string> taken;
    for (const DaemonUser& user : living_users(node_.state)) {
      if (!facts_.step.empty() && user.step == facts_.step) return user.job;
      taken.insert(user.job);
    }
    if (const auto state = running_state(node_.state)) taken.merge(active_jobs(embedded_address(node_.state, *state)));
    return free_job_name(request_.job, taken);
  }

  Result<Watch> await() {
    while (true) {
      const bool keeper_lives = is_alive(recorded_keeper(node_.state));
      if (const auto state = recorded_state(node_.state); state && is_usable(*state)) return watch(*state);
      if (!keeper_lives) return unavailable(why("the daemons ended at once"));
      if (clock_.monotonic() >= end_) return unavailable(why("the daemons did not start in time"));
      std::this_thread::sleep_for(kPoll);
    }
  }

  [[nodiscard]] std::string why(const std::string& otherwise) const {
    std::string last = last_line(keeper_log(node_.state));
    if (last.starts_with("trimtab: ")) last = last.substr(9);
    return last.empty() ? otherwise + " (" + node_.waits_for() + ")" : last;
  }

  Result<Watch> watch(const UpState& state) {
    Watch found;
    TRIMTAB_TRY(found.socket, agent_socket_here(agent_socket(node_.state, 0), node_.state, request_.variables));
    found.coordinator = embedded_address(node_.state, state);
    found.job = user_.job;
    found.state = node_.state;
    found.step = facts_.step;
    found.note = node_.note;
    found.leads = leads_of(facts_) && node_.leads();
    // On the first node the name stands in the folder, too, once its coordinator runs.
    if (node_.several() && !node_.first) {
      TRIMTAB_TRY(found.job, node_.told_job());
    }
    return found;
  }

  const WatchRequest& request_;
  const LaunchFacts& facts_;
  const NodeState& node_;
  const Clock& clock_;
  Nanoseconds end_;
  DaemonUser user_;
};

// What cannot be read for want of descriptors would be taken for gone, and other runs' daemons with it.
Status check_descriptors() {
  constexpr std::size_t kNeeded = 24;
  std::vector<Descriptor> free;
  for (std::size_t found = 0; found < kNeeded; ++found) {
    free.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (free.back().get() >= 0) continue;
    return unavailable("watching needs " + std::to_string(kNeeded) + " free file descriptors, found " +
                       std::to_string(found) + ": raise the limit (ulimit -n)");
  }
  return {};
}

}  // namespace

Result<Watch> begin_watch(const WatchRequest& request, const Clock& clock) {
  TRIMTAB_TRY_STATUS(check_descriptors());
  const LaunchFacts facts = launch_facts(request.variables);
  if (!request.session.coordinator.empty() || !request.socket.empty()) return named_watch(request, facts);
  TRIMTAB_TRY(const NodeState node, node_state(request, facts));
  return Joining(request, facts, node, clock).run();
}

void tell_command(const Watch& watch, pid_t command) {
  if (watch.state.empty()) return;
  // Should this fail, the daemons go with this run: no reason to disturb the command.
  [[maybe_unused]] const Status written =
      write_user(watch.state, {this_process(), process_identity(command), watch.job, watch.step});
}

void end_watch(const Watch& watch, const Clock& clock) {
  if (watch.state.empty()) return;
  remove_user(watch.state, this_process());
  const ProcessIdentity keeper = recorded_keeper(watch.state);
  const Nanoseconds end = clock.monotonic() + kGoingPatience;
  while (is_alive(keeper) && living_users(watch.state).empty() && clock.monotonic() < end) {
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace trimtab::cli
