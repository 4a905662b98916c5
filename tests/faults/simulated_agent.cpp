#include "simulated_agent.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "costs/collective_samples.hpp"
#include "measurement_counts.hpp"
#include "ranks/rank_news.hpp"
#include "records/activity_report.hpp"
#include "seeded_runs.hpp"
#include "simulated_probes.hpp"
#include "simulated_programs.hpp"

namespace trimtab::test {

using namespace std::chrono_literals;

namespace {

constexpr Bytes kLargeSpool = Bytes{64} << 20;
constexpr Bytes kSmallSpool = 4000;  // a few batches
constexpr Bytes kSmallQueue = 8000;  // some dozens of frames

const char* const kModel = R"({"schema":"trimtab.model/1","name":"m","global_batch":4,"dtype":"float32","operators":[
  {"name":"block0","kind":"block","layer":0,"cost_key":"block-h8","cut_before":true,"parameter_bytes":8,"activation_bytes":8,
   "output_bytes":8,"forward_flops":8}]})";

const char* const kJob = "train";
constexpr std::size_t kMostSteps = 60;  // some are dropped

}  // namespace

SimulatedAgent::Life::Life(SimulatedAgent& agent, agent::AgentDatabase opened)
    : state(std::move(opened)),
      news([this](const wire::FromAgent& message) { return conversation.send(message); }, {kMostSteps}),
      ranks(
          loop, agent::RankLedger(state.database), agent.scratch_.path(),
          [this](const agent::LedgerRank& rank) {
            agent::tell_end(rank, ranks.scratch(rank.id).log(rank.id.rank), news);
          },
          agent.ranks_.processes(agent.index_)),
      jobs(agent.scratch_.path(), sample_fingerprint()),
      traces({[this](const wire::FromAgent& message) { return conversation.send_trace(message); },
              [&agent](const std::string& job) {
                return job == kJob ? agent.rings() : std::vector<agent::TraceRecorder::Ring>();
              },
              [](net::LocalPeerId, std::uint64_t) {}, agent.clock_, agent.node()}),
      rings(agent.clock_, {}),
      sessions({ranks, news, rings, jobs,
                [&agent](const std::string& job) {
                  return agent::CostOwner{job, agent.fingerprint_};
                },
                agent.node(), agent.clock_}),
      commands(agent.runner_surroundings(*this), agent::CommandLedger(state.database)),
      probe(agent.probe_surroundings(*this)),
      retention({agent.scratch_.path(), Nanoseconds(0), {}, {}}, agent.clock_.monotonic(), agent.clock_.wall()),
      conversation(
          {agent.configuration_, agent.fingerprint_, Bytes{1} << 30, agent.clock_, state, costs, news, ranks, commands,
           sessions, traces, probe, retention, [] { return false; }, [&agent] { return agent.random_.next(); }},
          agent.port()) {}

SimulatedAgent::SimulatedAgent(std::size_t index, VirtualTime& time, Random& random, SimulatedNetwork& network,
                               SimulatedRanks& ranks, SimulatedCollectives& collectives)
    : index_(index),
      time_(time),
      random_(random),
      network_(network),
      ranks_(ranks),
      collectives_(collectives),
      machine_(random),
      clock_(time),
      spool_limit_(random.below(2) == 0 ? kSmallSpool : kLargeSpool),
      fingerprint_(to_json(sample_fingerprint())) {
  configuration_.node = node();
  configuration_.address = "10.0.0." + std::to_string(index_ + 1);
  if (random.below(2) == 0) configuration_.link_queue = kSmallQueue;
  ranks_.add_node(index, side_of_ranks());
}

std::function<void(const std::function<void()>&)> SimulatedAgent::later() {
  return [this, life = lives_](const std::function<void()>& work) {
    if (life_ && life == lives_) act(work);
  };
}

agent::CommandRunner::Surroundings SimulatedAgent::runner_surroundings(Life& life) {
  SimulatedPrograms::Agent programs;
  programs.act = later();
  programs.runs = [this](const std::string& job) { return describe(job); };
  programs.ended = [this](const std::string& job) { described(job); };
  programs.measures = [this] {
    return std::vector<Cost>{forward_cost(node() + "/" + std::to_string(++measured_), {1})};
  };
  return {life.loop,
          life.ranks,
          life.jobs,
          {},
          {"agent.sock", "", "", node()},
          scratch_.path(),
          Bytes{1} << 30,
          Nanoseconds(0),
          [&life](const wire::FromAgent& message) { return life.conversation.send(message); },
          [this, &life](const Job& job, const std::vector<Cost>& costs) {
            life.collected.add({job.name, fingerprint_}, costs);
            flush();
          },
          [&life](const agent::RankIdentity& id) {
            life.news.launched(id);
            life.sessions.launching(id.job);
          },
          [] { return false; },
          std::make_shared<SimulatedPrograms>(time_, random_, std::move(programs))};
}

agent::HardwareProbe::Surroundings SimulatedAgent::probe_surroundings(Life& life) {
  agent::HardwareProbe::Surroundings parts{
      life.loop,
      clock_,
      "coordinator",
      [&life](const std::string& job) {
        std::vector<agent::NetworkRank> of_job;
        for (const agent::LedgerRank& rank : life.ranks.all()) {
          const bool meant = !rank.ended && rank.id.job == job && rank.id.variant.empty();
          if (meant) of_job.push_back({rank.id.rank, rank.pid});
        }
        return of_job;
      },
      {},
      [&life](const wire::FromAgent& message) { return life.conversation.send(message); }};
  parts.work = std::make_shared<SimulatedProbes>(time_, random_, configuration_.address, later(), behaves_);
  return parts;
}

agent::CoordinatorPort SimulatedAgent::port() {
  agent::CoordinatorPort port;
  port.send = [this](std::string frame) {
    if (machine_.disk.is_cut()) return false;
    const std::size_t queued = network_.queued_by_agent(peer_) + frame.size();
    if (std::cmp_greater(queued, configuration_.link_queue)) {
      met("full queue to the coordinator");
      return false;
    }
    return network_.send_to_coordinator(peer_, std::move(frame));
  };
  port.queued_bytes = [this] { return network_.queued_by_agent(peer_); };
  port.drop = [this](const std::string& reason) {
    network_.close_by_agent(std::exchange(peer_, 0));
    life_->conversation.closed(reason);
  };
  port.beat_every = [this](Nanoseconds period) {
    ++beats_;
    if (period.count() > 0) beat(period, beats_);
  };
  return port;
}

void SimulatedAgent::beat(Nanoseconds period, std::uint64_t beats) {
  time_.after(period, [this, period, beats, life = lives_] {
    if (life != lives_ || beats != beats_) return;
    act([this] { life_->conversation.beat(); });
    if (life == lives_ && beats == beats_) beat(period, beats);
  });
}

SimulatedRanks::AgentSide SimulatedAgent::side_of_ranks() {
  SimulatedRanks::AgentSide side;
  side.connect = [this](pid_t pid) -> SimulatedRanks::Peer {
    if (!life_) return 0;
    // Numbers of an earlier life's connections are not used again.
    const SimulatedRanks::Peer peer = (lives_ << 32) + ++life_->last_local;
    life_->sessions.opened(peer, pid);
    return peer;
  };
  side.say = [this](SimulatedRanks::Peer peer, const std::string& frame) {
    if (!life_ || peer >> 32 != lives_) return;
    act([&] {
      life_->sessions.received(peer, frame, -1);
      told_step(peer, frame);
    });
  };
  side.close = [this](SimulatedRanks::Peer peer) {
    if (life_ && peer >> 32 == lives_) act([&] { life_->sessions.closed(peer); });
  };
  side.act = [this](const std::function<void()>& work) {
    if (life_) act(work);
  };
  side.dies = [this] { return machine_.disk.is_cut(); };
  return side;
}

void SimulatedAgent::boot() {
  clock_.restart();
  ++lives_;
  if (!behaves_ && random_.below(2) == 0) machine_.prepare_end(1500);
  act([this] { open(); });
  // A disk that is full at the start: systemd starts the daemon again.
  if (!life_) return time_.after(1s, [this, life = lives_] { life == lives_ ? boot() : void(); });
  every(2s, [this] {
    measure();
    tell_collectives();
    tell_activities();
  });
  every(500ms, [this] { connect(); });
  every(500ms, [this] {
    life_->probe.tick();
    trace();
  });
}

void SimulatedAgent::open() {
  auto state = agent::open_agent_database(machine_.disk.file("agent.db"), random_);
  if (!state.ok()) return expect(machine_.may_fail(), "an agent's database opens: " + state.error().message);
  compare(*state);
  auto life = std::make_unique<Life>(*this, std::move(state).value());
  auto costs = agent::CostStore::open(
      life->state.database, machine_.disk.file("costs.db"), life->state.instance, spool_limit_,
      [&to = *life](const wire::FromAgent& message) { return to.conversation.send_costs(message); });
  if (!costs.ok()) return expect(machine_.may_fail(), "an agent's costs open: " + costs.error().message);
  life->costs.emplace(std::move(costs).value());
  life->sessions.serve({[this](SimulatedRanks::Peer peer, std::string_view frame) {
                          if (!machine_.disk.is_cut()) ranks_.told(index_, peer, std::string(frame));
                        },
                        [](SimulatedRanks::Peer) { expect(false, "what a rank says is understood"); }});
  const Status adopted = life->ranks.adopt();
  if (!adopted.ok()) return expect(machine_.may_fail(), "an agent knows its ranks: " + adopted.error().message);
  life_ = std::move(life);
}

void SimulatedAgent::act(const std::function<void()>& work) {
  work();
  if (life_) settle();
  if (machine_.disk.is_cut()) die();
}

void SimulatedAgent::settle() {
  constexpr int kRounds = 4;  // work that posts work
  for (int i = 0; i < kRounds; ++i) {
    life_->loop.post([this] { life_->loop.stop(); });
    life_->loop.run();
  }
}

void SimulatedAgent::lose_files() {
  if (!life_ || !machine_.remove_open({"agent.db", "costs.db"})) return;
  met("removed databases");
  const auto is_back = [](const DatabaseHealth& health) {
    return health.out_of_place.empty() && health.written_back > 0;
  };
  expect(is_back(life_->state.database.look_after()), "an agent's database that was removed is written back");
  expect(is_back(life_->costs->look_after_costs()), "an agent's costs that were removed are written back");
}

void SimulatedAgent::kill() {
  if (life_) die();
}

void SimulatedAgent::die() {
  machine_.disk.cut();
  life_.reset();
  network_.agent_gone(index_);
  ranks_.agent_gone(index_);
  peer_ = 0;
  if (machine_.come_up() == PowerCutDisk::Loss::kUnsynced) ranks_.power_cut(index_);
  if (!behaves_) copy_or_set_back();
  if (!behaves_ && random_.below(6) == 0) flip_bit();
  ++lives_;
  const Nanoseconds away = Nanoseconds(random_.between(100'000'000, behaves_ ? 1'000'000'000 : 20'000'000'000));
  time_.after(away, [this, life = lives_] {
    if (life == lives_) boot();
  });
}

// As a virtual machine's snapshot.
void SimulatedAgent::copy_or_set_back() {
  const auto lot = random_.below(6);
  if (lot == 0) copy_ = Copy{machine_.disk.copy(machine_.disk.file("")), kept, perhaps_kept, recorded};
  if (lot != 1 || !copy_) return;
  met("older copy of an agent");
  ranks_.power_cut(index_);
  ranks_.set_back(index_);
  machine_.disk.set_back(machine_.disk.file(""), copy_->disk);
  for (std::set<std::string>* later : {&kept, &perhaps_kept}) unsure.merge(*later);
  kept = copy_->kept;
  perhaps_kept = copy_->perhaps_kept;
  for (const std::set<std::string>* earlier : {&kept, &perhaps_kept}) {
    for (const std::string& subject : *earlier) unsure.erase(subject);
  }
  recorded = copy_->recorded;
  set_back_ = true;
  before_flip_.reset();
  set_apart_ = 0;
}

void SimulatedAgent::flip_bit() {
  if (random_.below(3) == 0) {
    const auto counts = [this] {
      const auto own = CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kReadOnly);
      return own.ok() ? measurement_counts(*own) : std::map<std::string, std::uint64_t>();
    };
    if (!CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kReadWrite).ok()) return;
    const auto before = counts();
    if (!machine_.flip_bit_of("costs.db")) return;
    const auto after = counts();
    for (const auto& [subject, count] : before) {
      if (!after.contains(subject)) lost_own.insert(subject);
    }
    return;
  }
  if (before_flip_) return;
  std::optional<Spooled> spooled = spooled_now();
  if (spooled && machine_.flip_bit_of("agent.db")) before_flip_ = std::move(spooled);
}

// Nothing where it cannot be read now.
std::optional<SimulatedAgent::Spooled> SimulatedAgent::spooled_now() const {
  Migrations unchecked = agent::agent_migrations();
  unchecked.checked.clear();
  const auto database = Database::open(machine_.disk.file("agent.db"), DatabaseMode::kReadWrite, unchecked);
  if (!database.ok()) return std::nullopt;
  const auto rows = database->query_checked(agent::batch_rows());
  if (!rows.ok()) return std::nullopt;
  Spooled spooled;
  for (const Row& row : rows->rows) spooled.emplace(as_integer(row[0]), as_text(row[3]));
  return spooled;
}

void SimulatedAgent::compare(agent::AgentDatabase& state) {
  const std::uint64_t apart = state.database.look_after().set_apart;
  const bool named = apart > std::exchange(set_apart_, apart);
  if (named) met("agent with rows that were set apart");
  was_damaged = was_damaged || named;
  const auto before = std::exchange(before_flip_, std::nullopt);
  if (!before) return;
  const auto rows = state.database.query_checked(agent::batch_rows());
  if (!rows.ok()) return expect(machine_.may_fail(), "a spool can be read");
  Spooled after;
  for (const Row& row : rows->rows) after.emplace(as_integer(row[0]), as_text(row[3]));
  for (const auto& [id, payload] : after) {
    expect(before->contains(id) && before->at(id) == payload, "a damaged spool sends nothing wrong");
  }
  for (const auto& [id, payload] : *before) {
    if (after.contains(id)) continue;
    expect(named, "what is missing from a damaged spool is named");
    met("batch that was damaged");
    const auto batch = agent::decode_batch(payload);
    expect(batch.ok(), "a batch can be read");
    for (const Cost& cost : batch->costs) lost_spooled.insert(cost.key.subject);
  }
  for (auto one = recorded.begin(); one != recorded.end();) {
    const auto reply = agent::CommandLedger(state.database).reply(asked_.at(one->first));
    const bool is_there = !reply.ok() || *reply;
    expect(is_there || named, "a reply that is missing is named");
    expect(!reply.ok() || !*reply || (*reply)->output() == one->second, "a damaged reply is not told");
    if (!is_there) ++runs_lost[one->first];
    one = is_there ? std::next(one) : recorded.erase(one);
  }
}

void SimulatedAgent::behave() {
  behaves_ = true;
  machine_.calm();
}

void SimulatedAgent::every(Nanoseconds period, const std::function<void()>& work) {
  time_.after(period, [this, period, work, life = lives_] {
    if (life != lives_) return;
    act(work);
    if (life == lives_) every(period, work);
  });
}

void SimulatedAgent::connect() {
  if (peer_ != 0) return;
  peer_ = network_.connect(index_);
  if (peer_ != 0) life_->conversation.opened();
}

// Each rank on the node has one.
std::vector<agent::TraceRecorder::Ring> SimulatedAgent::rings() const {
  std::vector<agent::TraceRecorder::Ring> all;
  for (const auto& [pid, rank] : ranks_.on_node(index_)) {
    all.push_back({static_cast<net::LocalPeerId>(pid), {kJob, "", rank}, pid, false, {}});
  }
  return all;
}

// What the rings of this moment bring.
void SimulatedAgent::trace() {
  agent::TraceRecorder& traces = life_->traces;
  std::set<pid_t> present;
  for (const agent::TraceRecorder::Ring& ring : traces.running() > 0 ? rings() : decltype(rings())()) {
    present.insert(ring.pid);
    agent::RangeRecord record;
    record.name = "step";
    record.domain = "trimtab";
    record.end_ns = static_cast<std::uint64_t>(clock_.wall().count());
    record.begin_ns = record.end_ns - 1000;
    const agent::RangeRecord both[] = {record, record};
    traces.records(ring.peer, both);
  }
  for (const pid_t pid : std::exchange(life_->traced, present)) {
    if (!present.contains(pid)) traces.ring_ended(static_cast<net::LocalPeerId>(pid));
  }
  traces.tick();
}

// One in two periods something was measured; all that was is tried to be stored.
void SimulatedAgent::measure() {
  if (!behaves_ && random_.below(2) == 0) {
    const std::string subject = node() + "/" + std::to_string(++measured_);
    Cost cost = forward_cost(subject, {1});
    if (random_.below(3) != 0) cost.source.kind = CostSource::Kind::kTraining;
    life_->collected.add(agent::CostOwner{"job", to_json(sample_fingerprint())}, std::vector<Cost>{cost});
  }
  flush();
  life_->conversation.look_after();
  expect(life_->costs->spool().bytes() <= 2 * spool_limit_, "the spool is bounded");
  expect(life_->news.steps_waiting() <= kMostSteps, "steps that wait are bounded");
}

// What cannot be sent is dropped, as the rings' stamps are.
void SimulatedAgent::tell_collectives() {
  const auto rank = static_cast<std::uint32_t>(index_);
  const auto stamps = collectives_.take(rank);
  if (stamps.empty() || machine_.disk.is_cut()) return;
  const agent::CostOwner owner{kJob, fingerprint_};
  if (life_->conversation.send(agent::stamps_message(owner, rank, stamps))) collectives_.told(stamps);
}

void SimulatedAgent::tell_activities() {
  if (!connected() || machine_.disk.is_cut()) return;
  for (const agent::TraceRecorder::Ring& ring : rings()) {
    agent::RankActivity activity;
    activity.steps = activity.steps_measured = 1 + random_.below(1000);
    activity.step_seconds = 0.1;
    activity.computation = 1;
    wire::FromAgent message;
    *message.mutable_rank_activity() = agent::to_wire(ring.rank, activity);
    life_->conversation.send(message);
  }
}

// What a rank's ring would tell besides: of some steps.
void SimulatedAgent::told_step(SimulatedRanks::Peer peer, const std::string& frame) {
  const auto said = nlohmann::json::parse(frame);
  const auto step = said.value("step", std::int64_t{0});
  if (said.value("type", "") != "step" || step % 16 != 0 || machine_.disk.is_cut()) return;
  const auto epoch = said.value("epoch", std::uint64_t{0});
  const auto passes_ns = static_cast<std::uint64_t>(random_.between(1'000'000, 90'000'000));
  life_->sessions.passed(peer, {epoch, step, passes_ns, agent::StepTermTimes{passes_ns, 0, 1000, 2000, 3000}});
  if (step % 64 != 0) return;
  life_->sessions.pictured(peer, {epoch, step, static_cast<std::uint64_t>(clock_.wall().count()), "[]"});
}

void SimulatedAgent::flush() {
  life_->collected.flush([this](const agent::CostOrigin& origin, const std::vector<Cost>& part) {
    const bool stored = life_->costs->store(origin, part);
    expect(stored || machine_.may_fail() || spool_limit_ == kSmallSpool,
           "costs are stored on a disk with room and power, in a spool with room");
    for (const Cost& cost : part) {
      if (stored) (set_back_ ? unsure : kept).insert(cost.key.subject);
      if (!stored && machine_.may_have_stored()) perhaps_kept.insert(cost.key.subject);
    }
    return stored;
  });
}

void SimulatedAgent::received(SimulatedNetwork::Peer peer, const std::string& frame) {
  if (!life_ || peer != peer_) return;
  wire::ToAgent message;
  expect(message.ParseFromString(frame), "what the coordinator sends can be read");
  check(message);
  act([&] {
    life_->conversation.received(frame);
    obeyed(message);
  });
}

void SimulatedAgent::check(const wire::ToAgent& message) {
  const std::uint64_t coordinator = network_.coordinator_of(peer_);
  expect(coordinator >= served_, "no word of an earlier coordinator is acted on");
  served_ = coordinator;
  expect(message.batch_ack().refused().empty(), "no batch is refused");
  expect(!message.welcome().renew_instance() || copy_ || was_damaged,
         "an agent that was never set back is not taken for one");
  if (message.command().has_describe()) {
    const auto job = parse_job(message.command().describe().job_json(), "a described job");
    expect(job.ok(), "what is described is a job");
    asked_[job->name] = message.command();
  }
}

void SimulatedAgent::obeyed(const wire::ToAgent& message) {
  if (message.has_welcome()) {
    expect(connected() || machine_.may_fail(), "a welcome is followed on a disk with room and power");
    if (connected()) set_back_ = set_back_ && message.welcome().costs_wait();
  }
  if (message.command().has_kill() && !machine_.disk.is_cut()) {
    ranks_.killed(index_, message.command().kill().launch());
  }
}

void SimulatedAgent::closed(SimulatedNetwork::Peer peer) {
  if (peer != peer_) return;
  peer_ = 0;
  act([this] { life_->conversation.closed("it is closed"); });
}

// The job's model, or which run this is of a description that was wanted besides.
std::string SimulatedAgent::describe(const std::string& job) {
  if (job == kJob) return kModel;
  expect(!recorded.contains(job), "a command that was written down as done is not done again");
  return job + ", run " + std::to_string(++runs[job]);
}

void SimulatedAgent::described(const std::string& job) {
  if (job == kJob) return;
  const auto stored = agent::CommandLedger(life_->state.database).reply(asked_.at(job));
  const bool is_stored = stored.ok() && *stored;
  expect(is_stored || machine_.may_fail(), "a reply is written down on a disk with room and power");
  if (is_stored) {
    recorded[job] = (*stored)->output();
  } else {
    ++runs_lost[job];
  }
}

std::string SimulatedAgent::waits_for() const {
  if (!life_) return "a start";
  if (!connected()) return peer_ == 0 ? "a connection" : "a welcome";
  if (!life_->collected.empty()) return "room for costs: " + life_->costs->counters().last_error;
  if (life_->costs->spool().bytes() > 0) return "acknowledgements: " + life_->costs->counters().last_error;
  if (life_->traces.running() > 0) return "the end of a trace";
  return life_->commands.running() == 0 ? "" : "commands";
}

std::map<std::string, std::uint64_t> SimulatedAgent::own_costs() const {
  const auto own = CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kReadOnly);
  expect(own.ok(), "an agent's own costs can be read");
  return measurement_counts(*own);
}

}  // namespace trimtab::test
