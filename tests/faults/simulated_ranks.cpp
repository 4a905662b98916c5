#include "simulated_ranks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "commands/scratch.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr Nanoseconds kSocketTime = 100us;

Nanoseconds step_time(const std::string& plan) {
  const auto named = json::parse(plan, nullptr, false);
  const std::int64_t ms = named.is_object() ? named.value("ms", 150) : 150;
  return std::chrono::milliseconds(ms);
}

// "n0,n2"
std::vector<std::size_t> nodes_in(const std::string& names) {
  std::vector<std::size_t> nodes;
  for (std::size_t at = 0; at < names.size();
       at = names.find(',', at) == std::string::npos ? names.size() : names.find(',', at) + 1) {
    nodes.push_back(std::stoul(names.substr(at + 1)));
  }
  return nodes;
}

std::uint64_t number_of(const agent::Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  expect(found != environment.end(), "a rank is told " + name);
  return std::stoull(found->second);
}

}  // namespace

class SimulatedRanks::Child final : public agent::HeldChild {
 public:
  Child(SimulatedRanks& ranks, pid_t pid) : ranks_(ranks), pid_(pid) {}
  ~Child() override {
    if (!released_) ranks_.drop(pid_);
  }
  [[nodiscard]] pid_t pid() const override { return pid_; }
  [[nodiscard]] std::uint64_t start_time() const override { return static_cast<std::uint64_t>(pid_); }
  [[nodiscard]] Status release() override {
    TRIMTAB_TRY_STATUS(ranks_.release(pid_));
    released_ = true;
    return {};
  }

 private:
  SimulatedRanks& ranks_;
  pid_t pid_;
  bool released_ = false;
};

class SimulatedRanks::Watch final : public agent::WatchedProcess {
 public:
  Watch(SimulatedRanks& ranks, std::size_t node, pid_t pid) : ranks_(ranks), node_(node), pid_(pid) {}
  ~Watch() override { ranks_.nodes_[node_].watches.erase(pid_); }
  void signal_group(int) const override { ranks_.signal(pid_); }
  void signal_one(pid_t, int) const override { ranks_.signal(pid_); }
  void kill_all() override { ranks_.signal(pid_); }
  void end_group_with_it() override {}
  void leave_group() override {}

 private:
  SimulatedRanks& ranks_;
  std::size_t node_;
  pid_t pid_;
};

class SimulatedRanks::OfNode final : public agent::Processes {
 public:
  OfNode(SimulatedRanks& ranks, std::size_t node, std::uint64_t life) : ranks_(ranks), node_(node), life_(life) {}
  [[nodiscard]] Result<std::unique_ptr<agent::HeldChild>> fork(const agent::ProcessRequest& request) override {
    return ranks_.fork(node_, life_, request);
  }
  [[nodiscard]] Result<std::unique_ptr<agent::WatchedProcess>> watch(
      pid_t pid, std::function<void(const agent::ProcessEnd&)> ended) override {
    if (!ranks_.processes_.contains(pid)) return unavailable("it has ended");
    ranks_.nodes_[node_].watches[pid] = std::move(ended);
    return std::unique_ptr<agent::WatchedProcess>(std::make_unique<Watch>(ranks_, node_, pid));
  }
  [[nodiscard]] std::optional<agent::ProcessStat> stat(pid_t pid) const override {
    if (!ranks_.processes_.contains(pid)) return std::nullopt;
    return agent::ProcessStat{'S', 1, pid, static_cast<std::uint64_t>(pid)};
  }
  [[nodiscard]] bool belongs_to(pid_t pid, pid_t ancestor) const override { return pid == ancestor; }

 private:
  SimulatedRanks& ranks_;
  std::size_t node_;
  std::uint64_t life_;
};

Nanoseconds SimulatedRanks::between(Nanoseconds low, Nanoseconds high) {
  return Nanoseconds(random_.between(low.count(), high.count()));
}

std::shared_ptr<agent::Processes> SimulatedRanks::processes(std::size_t node) {
  return std::make_shared<OfNode>(*this, node, ++nodes_[node].life);
}

Result<std::unique_ptr<agent::HeldChild>> SimulatedRanks::fork(std::size_t node, std::uint64_t life,
                                                               const agent::ProcessRequest& request) {
  if (nodes_[node].side.dies()) return unavailable("the agent is gone");
  if (!behaves_ && random_.below(40) == 0) {
    met("fork that failed");
    return unavailable("fork: no room");
  }
  Process process;
  process.node = node;
  process.agent_life = life;
  process.launcher = !request.environment.contains("TRIMTAB_RANK");
  fill(process, request.environment);
  if (process.launcher) submissions_[process.launch] = {nodes_in(request.arguments.at(1))};
  processes_[++last_pid_] = std::move(process);
  return std::unique_ptr<agent::HeldChild>(std::make_unique<Child>(*this, last_pid_));
}

void SimulatedRanks::fill(Process& process, const agent::Environment& environment) {
  process.launch = number_of(environment, "TRIMTAB_LAUNCH");
  process.world = static_cast<std::uint32_t>(number_of(environment, "TRIMTAB_WORLD_SIZE"));
  process.rank = agent::kLauncher;
  if (process.launcher) return;
  process.rank = static_cast<std::uint32_t>(number_of(environment, "TRIMTAB_RANK"));
  const auto plan = agent::read_file(environment.at("TRIMTAB_PLAN"));
  expect(plan.ok(), "a rank finds its plan");
  process.runs = {number_of(environment, "TRIMTAB_EPOCH"), *plan};
}

Status SimulatedRanks::release(pid_t pid) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) return unavailable("it ended before it began");
  Process& process = found->second;
  if (nodes_[process.node].side.dies()) return unavailable("the agent is gone");
  starts(process);
  time_.after(between(100ms, 2s), [this, pid] { begin(pid); });
  return {};
}

void SimulatedRanks::starts(Process& process) {
  Node& node = nodes_[process.node];
  const int starts = ++node.starts[{process.launch, process.rank}];
  expect(starts == 1, "a launch starts a rank once: launch " + std::to_string(process.launch));
  expect(process.launch > node.killed, "no launch begins that its node was told to end");
  for (const auto& [other, one] : processes_) {
    const bool same = one.released && one.rank == process.rank && one.node == process.node;
    expect(!same, "a rank of an earlier launch is gone before the next begins on its node");
  }
  if (!process.launcher) given_.check_runs(process.launch, process.runs.epoch(), process.runs.plan());
  met(process.launcher ? "launcher" : "launched rank");
  process.released = true;
}

void SimulatedRanks::drop(pid_t pid) {
  processes_.erase(pid);
}

void SimulatedRanks::signal(pid_t pid) {
  const auto found = processes_.find(pid);
  if (found == processes_.end() || found->second.ends || nodes_[found->second.node].side.dies()) return;
  found->second.ends = true;
  const bool launcher = found->second.launcher;
  time_.after(between(1ms, 2s), [this, pid, launcher, launch = found->second.launch] {
    if (launcher) cancel(launch);
    end(pid, 0, launcher ? 15 : 9);
  });
}

void SimulatedRanks::begin(pid_t pid) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  found->second.ready = true;
  if (!found->second.connects) connect(pid);
  if (found->second.launcher) return submit(pid);
  const std::uint64_t launch = found->second.launch;
  if (training_.insert(launch).second) train(launch);
}

void SimulatedRanks::connect(pid_t pid) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  Process& process = found->second;
  process.connects = true;
  if (process.peer == 0 && (process.ready || process.slot)) {
    process.peer = nodes_[process.node].side.connect(pid);
    if (process.peer != 0) say(pid, introduction(pid, process));
    if (process.peer != 0 && !process.state.empty()) tell_submission(process.launch, process.state);
  }
  time_.after(500ms, [this, pid] { connect(pid); });
}

std::string SimulatedRanks::introduction(pid_t pid, const Process& process) {
  json frame = {{"version", 1}, {"pid", pid}, {"job", "train"}};
  if (process.launcher || process.slot) {
    frame["type"] = process.launcher ? "launcher" : "slot";
    frame["launch"] = process.launch;
    frame["variant"] = "";
    if (process.slot) frame["local_rank"] = 0;
    return frame.dump();
  }
  frame["type"] = "hello";
  frame["rank"] = process.rank;
  frame["world_size"] = process.world;
  frame["epoch"] = process.runs.epoch();
  frame["step"] = std::max<std::int64_t>(steps_[process.launch], 0);
  return frame.dump();
}

void SimulatedRanks::say(pid_t pid, const std::string& frame) {
  const auto found = processes_.find(pid);
  if (found == processes_.end() || found->second.peer == 0) return;
  time_.after(kSocketTime, [this, node = found->second.node, peer = found->second.peer, frame] {
    nodes_[node].side.say(peer, frame);
  });
}

void SimulatedRanks::told(std::size_t node, Peer peer, const std::string& frame) {
  const auto found = std::ranges::find_if(
      processes_, [&](const auto& one) { return one.second.node == node && one.second.peer == peer; });
  if (found == processes_.end()) return;
  time_.after(kSocketTime, [this, pid = found->first, peer, frame] {
    const auto there = processes_.find(pid);
    if (there != processes_.end() && there->second.peer == peer) hear(pid, frame);
  });
}

void SimulatedRanks::hear(pid_t pid, const std::string& frame) {
  Process& process = processes_.at(pid);
  const json said = json::parse(frame);
  const std::string type = said.at("type");
  if (process.slot) return hear_as_slot(pid, process, type, frame);
  if (type == "stop") process.stop_step = said.at("step").get<std::int64_t>();
  if (!said.contains("epoch")) return;
  const auto epoch = said.at("epoch").get<std::uint64_t>();
  if (type == "plan_propose") return answer(pid, process, epoch, said.at("plan").dump());
  if (type == "plan_commit") process.runs.commit(epoch, said.at("step").get<std::int64_t>());
  if (type == "plan_cancel") process.runs.cancel(epoch);
}

void SimulatedRanks::answer(pid_t pid, Process& process, std::uint64_t epoch, const std::string& plan) {
  if (!process.runs.is_new(epoch)) return;
  if (!behaves_ && random_.below(20) == 0) {
    met("plan that a rank refuses");
    const json refusal = {{"type", "plan_refuse"}, {"epoch", epoch}, {"reason", "unsupported"}, {"message", "no"}};
    return say(pid, refusal.dump());
  }
  process.runs.accept(epoch, plan);
  say(pid, json{{"type", "plan_ack"}, {"epoch", epoch}, {"step", steps_[process.launch]}}.dump());
}

std::vector<pid_t> SimulatedRanks::members(std::uint64_t launch) const {
  std::vector<pid_t> found;
  for (const auto& [pid, process] : processes_) {
    if (process.launch == launch && process.released && !process.launcher) found.push_back(pid);
  }
  return found;
}

// Until none is left. While some are missing or not there yet the others wait, as in a collective.
void SimulatedRanks::train(std::uint64_t launch) {
  const std::vector<pid_t> ranks = members(launch);
  if (ranks.empty()) {
    training_.erase(launch);
    return;
  }
  const Process& one = processes_.at(ranks.front());
  const bool complete =
      ranks.size() == one.world && std::ranges::all_of(ranks, [this](pid_t pid) { return processes_.at(pid).ready; });
  const Nanoseconds next = complete ? step_time(one.runs.plan()) : Nanoseconds(200ms);
  if (complete) step(ranks);
  time_.after(next, [this, launch] { train(launch); });
}

void SimulatedRanks::step(const std::vector<pid_t>& ranks) {
  const std::uint64_t launch = processes_.at(ranks.front()).launch;
  std::int64_t& number = steps_.try_emplace(launch, saved_).first->second;
  const bool ends = std::ranges::all_of(ranks, [&](pid_t pid) {
    const std::int64_t stop = processes_.at(pid).stop_step;
    return stop >= 0 && number > stop;
  });
  if (ends) {
    for (const pid_t pid : ranks) {
      say(pid, json{{"type", "bye"}, {"step", number}}.dump());
      end(pid, 0, 0);
    }
    return;
  }
  if (!change_plan(ranks)) return;
  if (!behaves_ && random_.below(1000) == 0) {
    met("rank that crashed");
    return end(ranks[random_.below(ranks.size())], 1, 0);
  }
  const Process first = processes_.at(ranks.front());
  for (const pid_t pid : ranks) {
    const Process& process = processes_.at(pid);
    const bool is_one = process.runs.epoch() == first.runs.epoch() && process.runs.plan() == first.runs.plan();
    expect(is_one, "all ranks of a step run one plan");
    given_.check_runs(process.launch, process.runs.epoch(), process.runs.plan());
    const json done = {{"type", "step"},
                       {"step", number},
                       {"epoch", process.runs.epoch()},
                       {"wall_ns", step_time(process.runs.plan()).count()},
                       {"cpu_ns", 1},
                       {"loss", 1.0},
                       {"samples", "s" + std::to_string(number)},
                       {"peak_bytes", 1000}};
    say(pid, done.dump());
  }
  saved_ = ++number;
}

// The minimum of what the ranks offer, confirmed by all. False when the ranks do not go on.
bool SimulatedRanks::change_plan(const std::vector<pid_t>& ranks) {
  const std::int64_t number = steps_.at(processes_.at(ranks.front()).launch);
  std::vector<const SimulatedRank*> all;
  for (const pid_t pid : ranks) all.push_back(&processes_.at(pid).runs);
  const auto agreed = SimulatedRank::agreed(all, number);
  if (!agreed) return true;
  const auto lot = behaves_ ? 100 : random_.below(30);
  if (lot == 0) {
    met("rank that crashed");
    end(ranks.back(), 137, 0);
    return false;
  }
  const bool fails = lot == 1;
  if (fails) met("change of plan that failed");
  if (!fails) met("change of plan");
  for (const pid_t pid : ranks) {
    Process& process = processes_.at(pid);
    if (fails) {
      process.runs.fail(*agreed);
      say(pid, json{{"type", "plan_failed"},
                    {"epoch", *agreed},
                    {"step", number},
                    {"reason", "out_of_memory"},
                    {"message", "no room"}}
                   .dump());
      continue;
    }
    process.runs.enter(*agreed);
    say(pid,
        json{
            {"type", "plan_active"}, {"epoch", *agreed}, {"step", number}, {"switch_ns", 50'000'000}, {"peak_bytes", 1}}
            .dump());
  }
  return true;
}

void SimulatedRanks::end(pid_t pid, std::int32_t exit_code, std::int32_t signal) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  const Process process = found->second;
  processes_.erase(found);
  const bool clean = exit_code == 0 && signal == 0;
  if (const auto of = submissions_.find(process.launch); of != submissions_.end() && !process.launcher && !clean) {
    of->second.failed = true;
  }
  if (!clean && !process.launcher) leave_alone(process.launch);
  // Behind what it has said.
  time_.after(2 * kSocketTime,
              [this, pid, process, end = agent::ProcessEnd{true, exit_code, signal}] { tell_end(pid, process, end); });
}

void SimulatedRanks::tell_end(pid_t pid, const Process& process, const agent::ProcessEnd& end) {
  Node& node = nodes_[process.node];
  if (process.peer != 0) node.side.close(process.peer);
  const auto watch = node.watches.find(pid);
  if (watch == node.watches.end()) return;
  // Nobody tells who is not its parent.
  const agent::ProcessEnd told = process.agent_life == node.life ? end : agent::ProcessEnd{};
  const auto ended = watch->second;
  node.side.act([&] { ended(told); });
}

// Those that are left find out after a while, or never do.
void SimulatedRanks::leave_alone(std::uint64_t launch) {
  for (const pid_t pid : members(launch)) {
    if (random_.below(3) == 0) continue;
    time_.after(between(500ms, 10s), [this, pid] { end(pid, 1, 0); });
  }
}

void SimulatedRanks::agent_gone(std::size_t node) {
  for (auto& [pid, process] : processes_) {
    if (process.node == node) process.peer = 0;
  }
}

void SimulatedRanks::power_cut(std::size_t node) {
  std::set<std::uint64_t> launches;
  std::erase_if(processes_, [&](const auto& one) {
    if (one.second.node == node) launches.insert(one.second.launch);
    return one.second.node == node;
  });
  for (const std::uint64_t launch : launches) {
    if (const auto of = submissions_.find(launch); of != submissions_.end()) of->second.failed = true;
    leave_alone(launch);
  }
}

void SimulatedRanks::set_back(std::size_t node) {
  nodes_[node].starts.clear();
  nodes_[node].killed = 0;
}

void SimulatedRanks::killed(std::size_t node, std::uint64_t launch) {
  nodes_[node].killed = std::max(nodes_[node].killed, launch);
}

void SimulatedRanks::crash_one() {
  std::vector<pid_t> running;
  for (const auto& [pid, process] : processes_) {
    if (process.released) running.push_back(pid);
  }
  if (running.empty()) return;
  met("rank that crashed");
  end(running[random_.below(running.size())], 139, 0);
}

std::map<pid_t, std::uint32_t> SimulatedRanks::on_node(std::size_t node) const {
  std::map<pid_t, std::uint32_t> all;
  for (const auto& [pid, process] : processes_) {
    if (process.node == node && process.released && !process.launcher) all.emplace(pid, process.rank);
  }
  return all;
}

std::vector<SimulatedRanks::Alive> SimulatedRanks::alive() const {
  std::vector<Alive> all;
  for (const auto& [pid, process] : processes_) {
    if (process.released && !process.launcher)
      all.push_back({process.launch, process.rank, process.runs.epoch(), process.runs.plan()});
  }
  return all;
}

}  // namespace trimtab::test
