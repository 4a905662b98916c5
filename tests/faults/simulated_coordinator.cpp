#include "simulated_coordinator.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "jobs/search_worker.hpp"
#include "measurement_counts.hpp"
#include "seeded_runs.hpp"
#include "services.hpp"
#include "simulated_searches.hpp"
#include "state_store.hpp"
#include "wire/agent.pb.h"

namespace trimtab::test {

using namespace std::chrono_literals;
using namespace coordinator;

// What a process of the coordinator holds.
struct SimulatedCoordinator::Life {
  Life(const Clock& time, StateStore opened, CostDatabase database, const std::string& directory,
       SimulatedSearches played, PeerPort port)
      : clock(time),
        store(std::move(opened)),
        costs(std::move(database)),
        searches(std::move(played)),
        services{clock,
                 store,
                 costs,
                 searches,
                 members,
                 {},
                 directory + "/tables",
                 [this](const std::string& node, const wire::ToAgent& to) { return agents.send(node, to); },
                 {}},
        agents(services, jobs, std::move(port)) {}

  const Clock& clock;
  StateStore store;
  CostDatabase costs;
  SimulatedSearches searches;
  Membership members{clock};
  Services services;
  JobTable jobs{services.for_jobs};
  Agents agents;
};

SimulatedCoordinator::SimulatedCoordinator(VirtualTime& time, Random& random, SimulatedNetwork& network,
                                           GivenPlans& given)
    : time_(time), random_(random), network_(network), given_(given), machine_(random), clock_(time) {}
SimulatedCoordinator::~SimulatedCoordinator() = default;

void SimulatedCoordinator::boot() {
  clock_.restart();
  ++lives_;
  if (!behaves_ && random_.below(2) == 0) machine_.prepare_end(3000);
  act([this] { open(); });
  if (!life_) return time_.after(1s, [this, life = lives_] { life == lives_ ? boot() : void(); });
  network_.coordinator_back();
  tick();
}

void SimulatedCoordinator::open() {
  auto store = StateStore::open(machine_.disk.file("coordinator.db"));
  if (!store.ok()) return expect(machine_.may_fail(), "the coordinator's state opens: " + store.error().message);
  compare(*store);
  auto costs = CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kCreate);
  if (!costs.ok()) return expect(machine_.may_fail(), "the coordinator's costs open: " + costs.error().message);
  life_ = std::make_unique<Life>(clock_, std::move(store).value(), std::move(costs).value(), files_.path(),
                                 SimulatedSearches(time_, random_,
                                                   [this, life = lives_](const std::function<void()>& work) {
                                                     if (life_ && life == lives_) act(work);
                                                   }),
                                 // What a dying process would send does not get out.
                                 PeerPort{[this](std::uint64_t peer, std::string frame) {
                                            if (machine_.disk.is_cut()) return false;
                                            note_given(frame);
                                            return network_.send_to_agent(peer, std::move(frame));
                                          },
                                          [this](std::uint64_t peer) { network_.close_by_coordinator(peer); },
                                          {},
                                          [this] { commit_soon(); }});
  const Status restored = life_->jobs.restore();
  if (restored.ok()) return;
  expect(machine_.may_fail(), "the coordinator's jobs are taken up: " + restored.error().message);
  life_.reset();
}

void SimulatedCoordinator::note_given(const std::string& frame) {
  wire::ToAgent message;
  expect(message.ParseFromString(frame), "what is sent can be read");
  const JobRun* job = life_->jobs.find("train");
  if (job == nullptr) return;
  const std::int64_t run = job->run();
  if (message.has_plan_propose()) {
    given_.propose(run, message.plan_propose().epoch(), message.plan_propose().plan_json());
  }
  if (message.has_plan_commit()) given_.commit(run, message.plan_commit().epoch());
  if (!message.has_command() || !message.command().has_launch()) return;
  const wire::Launch& launch = message.command().launch();
  given_.launch(run, launch.launch(), launch.epoch(), launch.plan_json());
}

void SimulatedCoordinator::act(const std::function<void()>& work) {
  work();
  if (machine_.disk.is_cut()) die();
}

void SimulatedCoordinator::commit_soon() {
  time_.after(Nanoseconds(random_.between(0, 10'000'000)), [this, life = lives_] {
    if (life == lives_) act([this] { life_->agents.commit(); });
  });
}

void SimulatedCoordinator::kill() {
  if (life_) die();
}

void SimulatedCoordinator::lose_files() {
  if (!life_ || !machine_.remove_open({"coordinator.db", "costs.db"})) return;
  met("removed databases");
  const auto is_back = [](const DatabaseHealth& health) {
    return health.out_of_place.empty() && health.written_back > 0;
  };
  expect(is_back(life_->store.look_after()), "a state that was removed is written back");
  expect(is_back(life_->costs.look_after()), "costs that were removed are written back");
}

// Sometimes at once, sometimes another machine takes up the databases later.
void SimulatedCoordinator::die() {
  machine_.disk.cut();
  life_.reset();
  trace_.reset();  // who asks is told that it is not known
  probes_ = 0;
  network_.coordinator_gone();
  machine_.come_up();
  if (!behaves_) copy_or_set_back();
  if (!behaves_ && random_.below(6) == 0) flip_bit();
  ++lives_;
  const Nanoseconds away = Nanoseconds(random_.between(100'000'000, behaves_ ? 1'000'000'000 : 30'000'000'000));
  time_.after(away, [this, life = lives_] {
    if (life == lives_) boot();
  });
}

// Somebody restores a backup of costs.db.
void SimulatedCoordinator::copy_or_set_back() {
  const std::string database = machine_.disk.file("costs.db");
  const auto lot = random_.below(6);
  if (lot == 0) copy_ = machine_.disk.copy(database);
  if (lot != 1 || !copy_) return;
  const auto before = stored();
  met("older copy of the coordinator's costs");
  machine_.disk.set_back(database, *copy_);
  const auto after = stored();
  for (const auto& [subject, count] : before) {
    if (!after.contains(subject)) lost.insert(subject);
  }
  was_set_back = true;
}

void SimulatedCoordinator::flip_bit() {
  if (random_.below(2) == 0) {
    std::map<std::int64_t, std::string> states;
    if (before_flip_) return;
    const auto store = StateStore::open(machine_.disk.file("coordinator.db"));  // its log is copied into it
    if (!store.ok()) return;
    const auto runs = store->latest_runs();
    for (const StoredRun& run : runs.ok() ? *runs : std::vector<StoredRun>()) {
      const auto job = store->job(run.run);
      if (job.ok()) states[run.run] = to_json(job->state);
    }
    before_flip_ = std::move(states);
  }
  if (before_flip_) {
    if (!machine_.flip_bit_of("coordinator.db")) before_flip_.reset();
    return;
  }
  if (!CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kReadWrite).ok()) return;
  const auto before = stored();
  if (!machine_.flip_bit_of("costs.db")) return;
  const auto after = stored();
  for (const auto& [subject, count] : after) {
    expect(before.contains(subject) && before.at(subject) >= count,
           "a damaged database serves no wrong count: " + subject);
  }
  for (const auto& [subject, count] : before) {
    if (after.contains(subject)) continue;
    lost.insert(subject);
    met("cost that was damaged");
  }
  was_set_back = true;  // what is counted as lost then is lost
}

void SimulatedCoordinator::compare(StateStore& store) {
  const std::uint64_t apart = store.look_after().set_apart;
  const bool named = apart > std::exchange(set_apart_, apart);
  if (named) met("state with rows that were set apart");
  was_damaged = was_damaged || named;
  const auto before = std::exchange(before_flip_, std::nullopt);
  for (const auto& [run, state] : before ? *before : std::map<std::int64_t, std::string>()) {
    const auto job = store.job(run);
    const bool is_right = job.ok() && !job->is_lost && to_json(job->state) == state;
    expect(is_right || named || machine_.may_fail(), "a damaged state tells what it told, or names what is damaged");
    expect(!job.ok() || is_right || job->is_lost, "a damaged state tells nothing wrong");
    if (!is_right) met("job that was damaged");
  }
}

// Nothing where no database was made yet.
std::map<std::string, std::uint64_t> SimulatedCoordinator::stored() const {
  const auto database = CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kReadOnly);
  return database.ok() ? measurement_counts(*database) : std::map<std::string, std::uint64_t>();
}

void SimulatedCoordinator::behave() {
  behaves_ = true;
  machine_.calm();
}

void SimulatedCoordinator::tick() {
  time_.after(1s, [this, life = lives_] {
    if (life != lives_) return;
    act([this] {
      life_->agents.tick();
      life_->jobs.tick();
      if (!machine_.disk.is_cut()) submit();
      follow_trace();
      for (const auto& [tag, node] : wanted_) {
        if (!outputs.contains(tag) && !machine_.disk.is_cut()) order(tag, node);
      }
    });
    if (life == lives_) tick();
  });
}

void SimulatedCoordinator::trace() {
  const TuningState* present = job();
  if (trace_ || present == nullptr || is_final(present->phase) || present->nodes.empty()) return;
  std::vector<std::string> nodes;
  for (const NodeShare& share : present->nodes) nodes.push_back(share.node);
  const auto length = random_.between(1, 10);
  const bool by_steps = random_.below(2) == 0;
  const TraceRequest request =
      by_steps ? TraceRequest{0, static_cast<std::uint32_t>(length)} : TraceRequest{static_cast<double>(length), 0};
  const auto id = life_->services.traces.start({"train", "*"}, nodes, request, life_->services.clocks.latest());
  if (id.ok()) trace_ = Trace{*id, time_.now(), 0, {}};
}

void SimulatedCoordinator::probe() {
  const TuningState* present = job();
  if (probes_ > 1 || present == nullptr || present->nodes.empty()) return;
  ++probes_;
  act([this, present] {
    life_->services.probing.probe({"train", present->nodes, "", true}, [this](const HardwareProbed& probed) {
      expect(!probed.probes.empty() || !probed.error.empty(), "a probe ends with an answer, or says why there is none");
      met(probed.probes.empty() ? "probe without an answer" : "answered probe");
      --probes_;
    });
  });
}

// As `trimtab trace` does.
void SimulatedCoordinator::follow_trace() {
  // A node waits for steps for two minutes, and is lost after one at most.
  constexpr Nanoseconds kLongest = 200s;
  if (!trace_) return;
  life_->services.traces.wanted(trace_->id);
  const auto text = life_->services.traces.document(trace_->id);
  expect(text.has_value(), "a trace that somebody waits for is known");
  const auto document = nlohmann::json::parse(*text);
  fetch_trace(document.at("chunks").get<std::uint64_t>());
  if (document.at("state") != "done") {
    return expect(time_.now() - trace_->since < kLongest, "a trace ends: " + *text);
  }
  for (const auto& node : document.at("nodes")) {
    std::uint64_t records = 0;
    for (const auto& rank : node.at("ranks")) records += rank.at("records").get<std::uint64_t>();
    expect(trace_->records[node.at("node")] >= records, "what a node says it sent of a trace is there: " + *text);
  }
  met("trace");
  expect(life_->services.traces.finish(trace_->id), "a trace that has ended can be finished");
  trace_.reset();
}

void SimulatedCoordinator::fetch_trace(std::uint64_t chunks) {
  for (; trace_->fetched < chunks; ++trace_->fetched) {
    const auto frame = life_->services.traces.fetch(trace_->id, trace_->fetched);
    wire::FromAgent message;
    expect(frame.ok() && frame->has_value() && message.ParseFromString(**frame), "a chunk of a trace can be fetched");
    const wire::TraceChunk& chunk = message.trace_chunk();
    trace_->records[chunk.node()] += static_cast<std::uint64_t>(chunk.records_size());
  }
}

void SimulatedCoordinator::submit() {
  const TuningState* present = job();
  if (world_size_ == 0 || (present != nullptr && !is_final(present->phase))) return;
  Job job;
  job.name = "train";
  job.mode = JobMode::kAuto;
  job.world_size = world_size_;
  job.steps = 100'000;
  job.describe = {"describe"};
  job.benchmark = {"benchmark"};
  job.train = {"train"};
  if (submitted_) job.submit = {"submit", "{nodes}"};
  job.working_directory = "/";
  job.hang = 20s;
  job.trials.deadline = 8s;
  job.trials.overhead = 1;
  job.crashes.limit = 99;
  const auto handed_in = life_->jobs.submit(std::move(job), true);
  expect(handed_in.ok() || machine_.may_fail(),
         "a job can be handed in: " + (handed_in.ok() ? "" : handed_in.error().message));
}

void SimulatedCoordinator::order(Order order) {
  if (!life_) return;
  act([&] {
    JobRun* run = life_->jobs.find("train");
    if (run != nullptr && run->active()) (void)run->obey(order, {"somebody", "order", "train", run->run(), "", "*"});
  });
}

const TuningState* SimulatedCoordinator::job() const {
  const JobRun* run = life_ ? life_->jobs.find("train") : nullptr;
  return run == nullptr ? nullptr : &run->state();
}

// The simulation's own orders are no job's.
void SimulatedCoordinator::order(const std::string& tag, const std::string& node) {
  constexpr std::int64_t kRun = 1'000'000;
  const auto id = life_->store.command_id(kRun, tag, node);
  if (!id.ok()) return expect(machine_.may_fail(), "a command gets an id");
  const auto [known, is_new] = ids_.emplace(tag, *id);
  const bool is_renumbered = known->second != *id;
  expect(!is_renumbered || was_damaged, "a command keeps its id, unless that is set apart");
  known->second = *id;
  if (is_new || is_renumbered) expect(tags_.emplace(*id, tag).second, "an id is given once");
  wire::ToAgent message;
  message.mutable_command()->set_id(*id);
  Job job;
  job.name = tag;
  job.world_size = 1;
  job.steps = 1;
  job.describe = {"describe"};
  job.train = {"train"};
  job.working_directory = "/";
  message.mutable_command()->mutable_describe()->set_job_json(to_json(job));
  static_cast<void>(life_->agents.send(node, message));
}

void SimulatedCoordinator::received(SimulatedNetwork::Peer peer, const std::string& frame) {
  if (!life_) return;
  act([&] {
    life_->agents.message(peer, frame);
    wire::FromAgent message;
    if (message.ParseFromString(frame) && message.has_command_done() && !machine_.disk.is_cut()) {
      done(message.command_done());
    }
  });
}

void SimulatedCoordinator::done(const wire::CommandDone& done) {
  const auto tag = tags_.find(done.id());
  if (tag != tags_.end()) outputs.emplace(tag->second, done.output());
}

void SimulatedCoordinator::closed(SimulatedNetwork::Peer peer) {
  if (life_) life_->agents.closed(peer, "gone");
}

bool SimulatedCoordinator::idle() const {
  return life_ && outputs.size() == wanted_.size();
}

SimulatedNetwork::Peer SimulatedCoordinator::peer_of(const std::string& node) const {
  const Member* member = life_->members.by_node(node);
  return member == nullptr || member->lost ? 0 : member->peer;
}

std::uint64_t SimulatedCoordinator::batches_lost() const {
  return life_->services.counters.batches_lost;
}

std::map<std::string, std::uint64_t> SimulatedCoordinator::costs() const {
  return measurement_counts(life_->costs);
}

}  // namespace trimtab::test
