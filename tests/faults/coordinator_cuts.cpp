// The coordinator's databases: acknowledged batches, transitions of jobs with their audit entries, ids of commands.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "costs/cost_intake.hpp"
#include "machine.hpp"
#include "needs.hpp"
#include "power_cuts.hpp"
#include "seeded_runs.hpp"
#include "state_store.hpp"
#include "wire/agent.pb.h"

namespace trimtab::test {

namespace {

using coordinator::Counters;
using coordinator::StateStore;
using coordinator::Transition;
using coordinator::TuningState;

constexpr std::uint64_t kAgents = 3;
using AgentBatch = std::pair<std::uint64_t, std::uint64_t>;  // agent, number

std::string instance(std::uint64_t agent) {
  return "agent-" + std::to_string(agent);
}

class CoordinatorLives {
 public:
  explicit CoordinatorLives(std::uint64_t seed) : random_(seed), machine_(random_) {}

  void run() {
    for (std::uint64_t lives = 2 + random_.below(3); lives > 0; --lives) {
      // Some live long enough that batches are folded.
      const std::uint64_t length = random_.below(8) == 0 ? 3000 : 300;
      machine_.prepare_end(length);
      const bool can_write = !machine_.may_fail();
      live(length / 5);
      stop();
      machine_.come_up();
      if (can_write) put_older_costs();
      look();
      stop();
      older_ = machine_.disk.copy(costs_path());
    }
  }

 private:
  [[nodiscard]] std::string costs_path() const { return machine_.disk.file("costs.db"); }

  std::vector<std::string> contents_of(const PowerCutDisk::Copy& files) {
    machine_.disk.set_back(costs_path(), files);
    const auto costs = CostDatabase::open(costs_path(), OpenMode::kCreate);
    expect(costs.ok(), "a database with its own log, or with none, opens");
    return costs.ok() ? contents(*costs) : std::vector<std::string>();
  }
  // Somebody puts the costs as they were before this life in their place, and leaves their log. Then all is put back.
  void put_older_costs() {
    const PowerCutDisk::Copy now = machine_.disk.copy(costs_path());
    const auto log = now.find(costs_path() + "-wal");
    if (older_.empty() || log == now.end() || log->second.empty()) return;
    PowerCutDisk::Copy mixed = now;
    mixed[costs_path()] = older_.at(costs_path());
    machine_.disk.set_back(costs_path(), mixed);
    std::optional<std::vector<std::string>> found;
    if (const auto costs = CostDatabase::open(costs_path(), OpenMode::kCreate); costs.ok()) found = contents(*costs);
    met(found ? "older file that is the log's" : "older file beside a log");
    if (found && *found != contents_of(older_)) {
      expect(*found == contents_of(now), "no log is read into another file than its own");
    }
    machine_.disk.set_back(costs_path(), now);
  }
  bool start() {
    auto store = StateStore::open(machine_.disk.file("coordinator.db"));
    auto costs = CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kCreate);
    if (!store.ok() || !costs.ok()) {
      expect(machine_.may_fail(), "the databases open: " + (store.ok() ? costs.error() : store.error()).message);
      return false;
    }
    store_ = std::make_unique<StateStore>(std::move(store).value());
    costs_ = std::make_unique<CostDatabase>(std::move(costs).value());
    if (run_ == 0) add_job();
    if (run_ == 0 || !find_transitions()) stop();
    return store_ != nullptr;
  }
  // A transition that failed may be there after a start: the next one counts on from it.
  bool find_transitions() {
    const auto runs = store_->latest_runs();
    const auto stored = runs.ok() && runs->size() == 1 ? store_->job(runs->front().run) : bad_input("no job is there");
    if (!runs.ok() || (!stored.ok() && stored.error().kind != ErrorKind::kBadInput)) {
      failed();
      return false;
    }
    expect(stored.ok(), "the job is there");
    if (!stored.ok()) return false;
    const std::uint64_t saved = stored->state.last_epoch;
    expect(saved == transitions_ || saved == transitions_ + 1, "the last transition that was saved is there");
    transitions_ = saved;
    return true;
  }
  void stop() {
    store_.reset();
    costs_.reset();
  }

  void live(std::uint64_t length) {
    for (std::uint64_t tries = 0; tries < length && !machine_.disk.is_cut(); ++tries) {
      if (!store_ && !start()) continue;
      act();
      if (random_.below(80) == 0) stop();
    }
  }

  void act() {
    switch (random_.below(8)) {
      case 0:
        return ask_command_id();
      case 1:
        return save_transition();
      default:
        return take_group();
    }
  }

  void failed() const { expect(machine_.may_fail(), "nothing fails on a disk with room and power"); }

  void add_job() {
    TuningState state;
    state.job.name = "gpt";
    const auto added = store_->add_job(state, 1);
    if (!added.ok()) return failed();
    run_ = *added;
  }

  // State, note and audit entry say the same number, because they are one transaction.
  void save_transition() {
    Transition transition;
    transition.state_changed = true;
    const std::string text = std::to_string(transitions_ + 1);
    transition.notes.push_back({"plan", text});
    transition.audit.push_back({"somebody", "approve", "gpt", run_, text});
    TuningState state;
    state.job.name = "gpt";
    state.last_epoch = transitions_ + 1;
    if (!store_->save(run_, state, transition, 1).ok()) return failed();
    ++transitions_;
  }

  void ask_command_id() {
    const std::string tag = "launch/" + std::to_string(random_.below(30));
    const auto id = store_->command_id(run_, tag, "n0");
    if (!id.ok()) return failed();
    const auto known = commands_.find(tag);
    if (known != commands_.end()) return expect(known->second == *id, "a command keeps its id");
    expect(given_.insert(*id).second, "an id is given once");
    commands_[tag] = *id;
  }

  // A batch's costs have the batch's number as their value, so that the sum tells which batches are in it.
  static wire::CostBatch batch(std::uint64_t agent, std::uint64_t number) {
    wire::CostBatch made;
    made.set_batch(number);
    made.set_fingerprint_json(to_json(sample_fingerprint()));
    const auto add = [&](const char* source) {
      const Cost cost = forward_cost(instance(agent) + source, {static_cast<std::int64_t>(number)});
      wire::CostEntry& entry = *made.add_entries();
      entry.set_key_json(to_json(cost.key));
      entry.set_statistics(cost.statistics.encode());
      entry.set_source(source);
    };
    if (number % 5 != 0) add("passive");
    if (number % 3 == 0) add("active");
    return made;
  }

  // As an agent does: the next one, or one again whose acknowledgement it has not seen.
  AgentBatch some_batch() {
    const std::uint64_t agent = random_.below(kAgents);
    const bool again = random_.below(5) == 0 && !acknowledged_[agent].empty();
    const std::uint64_t number = again ? 1 + random_.below(*acknowledged_[agent].rbegin()) : next_[agent] + 1;
    if (number > next_[agent]) next_[agent] = number;
    return {agent, number};
  }
  // Committed together, as those of several agents are.
  void take_group() {
    std::set<AgentBatch> group;
    for (std::uint64_t size = 1 + random_.below(4); size > 0; --size) group.insert(some_batch());
    take(group);
  }
  void take(const std::set<AgentBatch>& group) {
    std::vector<CostBatch> parts;
    std::vector<std::size_t> ends;
    for (const auto& [agent, number] : group) {
      const auto read = reader_.read(instance(agent), batch(agent, number), counters_);
      parts.insert(parts.end(), read.parts.begin(), read.parts.end());
      ends.push_back(parts.size());
    }
    const auto stored = costs_->add_batches(parts);
    if (!stored.ok()) {
      if (machine_.may_have_stored()) {
        for (const auto& [agent, number] : group) unsure_[agent].insert(number);
      }
      return failed();
    }
    std::size_t part = 0;
    auto end = ends.begin();
    for (const AgentBatch& one : group) {
      bool is_new = false;
      for (; part < *end; ++part) is_new = is_new || (*stored)[part];
      ++end;
      acknowledge(one, is_new);
    }
  }
  void acknowledge(const AgentBatch& one, bool stored_now) {
    const auto& [agent, number] = one;
    const bool is_new = acknowledged_[agent].insert(number).second;
    const bool unsure = unsure_[agent].contains(number);
    expect(!stored_now || is_new, "a batch that was acknowledged is not new when it comes again");
    expect(stored_now || !is_new || unsure, "a batch that was never sent is new");
    unsure_[agent].erase(number);
  }

  void look() {
    expect(start(), "the coordinator starts again");
    expect(store_->look_after().set_apart + costs_->look_after().set_apart == 0, "nothing is said to be missing");
    look_at_state();
    // The agents send all that was not acknowledged again. Half a mixed batch may be there from before.
    for (std::uint64_t agent = 0; agent < kAgents; ++agent) {
      for (std::uint64_t number = 1; number <= next_[agent]; ++number) {
        if (acknowledged_[agent].contains(number)) continue;
        unsure_[agent].insert(number);
        take({{agent, number}});
      }
      look_at_costs(agent);
    }
  }

  void look_at_state() {
    const auto audit = store_->audit("gpt", 0, 10'000);
    expect(audit.ok() && audit->size() == transitions_, "each transition has one entry in the audit log");
    const auto notes = store_->events(run_, 0, 10'000);
    expect(notes.ok() && notes->size() == transitions_, "and one note");
    for (const auto& [tag, id] : commands_) {
      const auto owner = store_->command_owner(id);
      expect(owner.ok() && owner->has_value() && (*owner)->tag == tag, "an id that was given belongs to its command");
    }
  }

  void look_at_costs(std::uint64_t agent) {
    for (const char* source : {"passive", "active"}) {
      Statistics expected;
      for (std::uint64_t number = 1; number <= next_[agent]; ++number) {
        const bool has = source[0] == 'p' ? number % 5 != 0 : number % 3 == 0;
        if (has) expected.add(static_cast<std::int64_t>(number));
      }
      const CostKey key = canonical(forward_key(instance(agent) + source));
      const auto all = costs_->costs(hash(sample_fingerprint()), {key.kind});
      expect(all.ok(), "costs can be read");
      Statistics found;
      for (const Cost& cost : *all) {
        if (cost.key == key) found = cost.statistics;
      }
      expect(found == expected, "each batch counts once");
    }
  }

  Random random_;
  Machine machine_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<CostDatabase> costs_;
  Counters counters_;
  coordinator::BatchReader reader_;
  PowerCutDisk::Copy older_;  // of the costs, before this life
  std::int64_t run_ = 0;
  std::uint64_t transitions_ = 0;
  std::map<std::string, std::uint64_t> commands_;
  std::set<std::uint64_t> given_;
  std::map<std::uint64_t, std::uint64_t> next_;  // by agent: the last number that it has sent
  std::map<std::uint64_t, std::set<std::uint64_t>> acknowledged_;
  std::map<std::uint64_t, std::set<std::uint64_t>> unsure_;  // sent and not acknowledged before a cut, or not synced
};

}  // namespace

void coordinator_cuts(std::uint64_t seed) {
  CoordinatorLives(seed).run();
}

}  // namespace trimtab::test
