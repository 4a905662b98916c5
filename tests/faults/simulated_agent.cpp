#include "simulated_agent.hpp"

#include <utility>

#include "../coordinator/hello_message.hpp"
#include "hello_facts.hpp"
#include "measurement_counts.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

using namespace std::chrono_literals;

namespace {

constexpr Bytes kLargeSpool = Bytes{64} << 20;
constexpr Bytes kSmallSpool = 4000;  // a few batches

const char* const kModel = R"({"schema":"trimtab.model/1","name":"m","global_batch":4,"dtype":"float32","operators":[
  {"name":"block0","kind":"block","layer":0,"cost_key":"block-h8","cut_before":true,"parameter_bytes":8,"activation_bytes":8,
   "output_bytes":8,"forward_flops":8}]})";

// The simulation's own commands have a name; those of the job have a document.
std::string tag_of(const wire::Command& asked) {
  const std::string& said = asked.describe().job_json();
  return asked.has_describe() && !said.starts_with("{") ? said : "of the job " + std::to_string(asked.id());
}

}  // namespace

SimulatedAgent::Life::Life(SimulatedAgent& agent, agent::AgentDatabase opened)
    : state(std::move(opened)),
      news([&agent](const wire::FromAgent& message) { return agent.send(message); }),
      ranks(
          loop, agent::RankLedger(state.database), agent.scratch_.path(),
          [this](const agent::LedgerRank& rank) {
            wire::RankEvent event;
            event.mutable_exited()->set_exit_code(rank.exit_code);
            event.mutable_exited()->set_signal(rank.signal);
            news.tell(rank.id, rank.launch, std::move(event));
          },
          agent.ranks_.processes(agent.index_)),
      jobs(agent.scratch_.path(), sample_fingerprint()),
      rings(agent.clock_, {}),
      sessions({ranks, news, rings, jobs,
                [](const std::string& job) {
                  return agent::CostOrigin{job, to_json(sample_fingerprint()), false};
                },
                agent.node(), agent.clock_}),
      commands({loop,
                ranks,
                jobs,
                {},
                {"agent.sock", "", "", agent.node()},
                agent.scratch_.path(),
                Bytes{1} << 30,
                Nanoseconds(0),
                [&agent](const wire::FromAgent& message) { return agent.send(message); },
                [](const Job&, const std::vector<Cost>&) {},
                [this](const agent::RankIdentity& id) {
                  news.launched(id);
                  sessions.launching(id.job);
                },
                [] { return false; }},
               agent::CommandLedger(state.database)) {}

SimulatedAgent::SimulatedAgent(std::size_t index, VirtualTime& time, Random& random, SimulatedNetwork& network,
                               SimulatedRanks& ranks)
    : index_(index),
      time_(time),
      random_(random),
      network_(network),
      ranks_(ranks),
      machine_(random),
      clock_(time),
      spool_limit_(random.below(2) == 0 ? kSmallSpool : kLargeSpool) {
  ranks_.add_node(index, side_of_ranks());
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
    if (life_ && peer >> 32 == lives_) act([&] { life_->sessions.received(peer, frame, -1); });
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
  every(2s, [this] { measure(); });
  every(500ms, [this] { connect(); });
}

void SimulatedAgent::open() {
  auto state = agent::open_agent_database(machine_.disk.file("agent.db"), random_);
  if (!state.ok()) return expect(machine_.may_fail(), "an agent's database opens: " + state.error().message);
  auto life = std::make_unique<Life>(*this, std::move(state).value());
  auto costs = agent::CostStore::open(life->state.database, machine_.disk.file("costs.db"), life->state.instance,
                                      spool_limit_, [this](const wire::FromAgent& message) { return send(message); });
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

void SimulatedAgent::kill() {
  if (life_) die();
}

void SimulatedAgent::die() {
  machine_.disk.cut();
  life_.reset();
  network_.agent_gone(index_);
  ranks_.agent_gone(index_);
  peer_ = 0;
  welcome_ = false;
  if (machine_.come_up() == PowerCutDisk::Loss::kUnsynced) ranks_.power_cut(index_);
  if (!behaves_) copy_or_set_back();
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
  if (peer_ == 0) return;
  say_hello();
}

void SimulatedAgent::say_hello() {
  wire::FromAgent hello = hello_of(node(), life_->state.instance, to_json(sample_fingerprint()));
  hello.mutable_hello()->set_address("10.0.0." + std::to_string(index_ + 1));
  agent::say_ranks(life_->ranks.all(), *hello.mutable_hello());
  const Status said = agent::say_numbers(life_->state.database, *hello.mutable_hello());
  expect(said.ok() || machine_.may_fail(), "an agent's numbers can be read");
  network_.send_to_coordinator(peer_, hello.SerializeAsString());
}

bool SimulatedAgent::send(const wire::FromAgent& message) {
  return welcome_ && !machine_.disk.is_cut() && network_.send_to_coordinator(peer_, message.SerializeAsString());
}

// One in two periods something was measured; all that was is tried to be stored.
void SimulatedAgent::measure() {
  if (!behaves_ && random_.below(2) == 0) {
    const std::string subject = node() + "/" + std::to_string(++measured_);
    life_->collected.add({"job", to_json(sample_fingerprint()), random_.below(3) == 0}, {forward_cost(subject, {1})});
  }
  flush();
  if (!welcome_) return;
  wire::FromAgent beat;
  beat.mutable_heartbeat()->set_sent_ns(static_cast<std::uint64_t>(clock_.monotonic().count()));
  beat.mutable_heartbeat()->set_wall_ns(static_cast<std::uint64_t>(clock_.wall().count()));
  send(beat);
  life_->news.retry();
  life_->costs->look_after(clock_.monotonic());
  renew();
}

void SimulatedAgent::renew() {
  const auto prepare = [this](const std::string& instance, std::uint64_t batches) {
    return life_->costs->prepare_renewal(instance, batches);
  };
  const auto renewed = agent::renew_instance(life_->state, random_, prepare);
  expect(renewed.ok() || machine_.may_fail(), "an instance is renewed");
  if (!renewed.ok() || !*renewed) return;
  life_->costs->renew(life_->state.instance);
  network_.close_by_agent(std::exchange(peer_, 0));
  welcome_ = false;
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
  act([&] { dispatch(message); });
}

void SimulatedAgent::dispatch(const wire::ToAgent& message) {
  const std::uint64_t coordinator = network_.coordinator_of(peer_);
  expect(coordinator >= served_, "no word of an earlier coordinator is acted on");
  served_ = coordinator;
  switch (message.body_case()) {
    case wire::ToAgent::kWelcome:
      return welcomed(message.welcome());
    case wire::ToAgent::kBatchAck:
      expect(message.batch_ack().refused().empty(), "no batch is refused");
      return life_->costs->acknowledged(message.batch_ack().batch());
    case wire::ToAgent::kCommand:
      return command(message.command());
    case wire::ToAgent::kPlanPropose: {
      const auto& asked = message.plan_propose();
      return life_->sessions.propose(asked.job(), asked.epoch(), asked.plan_json(), asked.incumbent());
    }
    case wire::ToAgent::kPlanCommit: {
      const auto& asked = message.plan_commit();
      return life_->sessions.commit(asked.job(), asked.epoch(), asked.step());
    }
    case wire::ToAgent::kPlanCancel:
      return life_->sessions.cancel(message.plan_cancel().job(), message.plan_cancel().epoch());
    case wire::ToAgent::kStopJob:
      return life_->sessions.stop_job(message.stop_job().job(), message.stop_job().step());
    case wire::ToAgent::kRefused:
      network_.close_by_agent(std::exchange(peer_, 0));
      welcome_ = false;
      return;
    default:
      return;  // heartbeats, and what is not simulated
  }
}

void SimulatedAgent::closed(SimulatedNetwork::Peer peer) {
  if (peer != peer_) return;
  peer_ = 0;
  welcome_ = false;
}

void SimulatedAgent::welcomed(const wire::Welcome& welcome) {
  expect(!welcome.renew_instance() || copy_, "an agent that was never set back is not taken for one");
  const Status served = life_->commands.serve(welcome.coordinator());
  expect(served.ok() || machine_.may_fail(), "the ledger knows its coordinator");
  if (!served.ok()) return network_.close_by_agent(std::exchange(peer_, 0));
  const Status asked =
      welcome.renew_instance() ? agent::ask_renewal(life_->state.database, life_->costs->last_offered()) : Status();
  const auto last = agent::last_to_send(life_->state.database);
  expect((asked.ok() && last.ok()) || machine_.may_fail(), "a renewal is written down");
  if (!asked.ok() || !last.ok()) return network_.close_by_agent(std::exchange(peer_, 0));
  life_->costs->send_up_to(welcome.costs_wait() ? 0 : *last);
  set_back_ = set_back_ && welcome.costs_wait();
  welcome_ = true;
  life_->news.announce();
  life_->commands.link_opened();
  for (const auto& [id, done] : std::exchange(life_->unsent, {})) reply(done);
  life_->costs->link_opened();
}

void SimulatedAgent::command(const wire::Command& asked) {
  if (asked.has_describe() || asked.has_benchmark()) return run_apart(asked);
  life_->commands.run(asked);
  if (asked.has_kill() && !machine_.disk.is_cut()) ranks_.killed(index_, asked.kill().launch());
}

void SimulatedAgent::run_apart(const wire::Command& asked) {
  if (life_->running.contains(asked.id())) return;
  const auto known = agent::CommandLedger(life_->state.database).reply(asked);
  if (!known.ok()) return expect(machine_.may_fail(), "the ledger can be read");
  if (*known) return reply(**known);
  life_->running.insert(asked.id());
  time_.after(Nanoseconds(random_.between(0, 3'000'000'000)), [this, asked, life = lives_] {
    if (life == lives_) act([&] { finish(asked); });
  });
}

void SimulatedAgent::finish(const wire::Command& asked) {
  const std::string tag = tag_of(asked);
  wire::CommandDone done;
  done.set_id(asked.id());
  done.set_ok(true);
  const bool is_of_job = tag.starts_with("of the job");
  done.set_output(is_of_job ? kModel : tag + ", run " + std::to_string(++runs[tag]));
  expect(!recorded.contains(tag), "a command that was written down as done is not done again");
  const Status stored = agent::CommandLedger(life_->state.database).done(asked, done);
  expect(stored.ok() || machine_.may_fail(), "a reply is written down on a disk with room and power");
  if (stored.ok() && !is_of_job) recorded[tag] = done.output();
  if (!stored.ok()) ++runs_lost[tag];
  life_->running.erase(asked.id());
  if (!machine_.disk.is_cut()) reply(done);
}

void SimulatedAgent::reply(const wire::CommandDone& done) {
  wire::FromAgent message;
  *message.mutable_command_done() = done;
  if (!send(message)) life_->unsent[done.id()] = done;
}

std::string SimulatedAgent::waits_for() const {
  if (!life_) return "a start";
  if (!welcome_) return peer_ == 0 ? "a connection" : "a welcome";
  if (!life_->collected.empty()) return "room for costs: " + life_->costs->counters().last_error;
  if (life_->costs->spool().bytes() > 0) return "acknowledgements: " + life_->costs->counters().last_error;
  return life_->running.empty() ? "" : "commands";
}

std::map<std::string, std::uint64_t> SimulatedAgent::own_costs() const {
  const auto own = CostDatabase::open(machine_.disk.file("costs.db"), OpenMode::kReadOnly);
  expect(own.ok(), "an agent's own costs can be read");
  return measurement_counts(*own);
}

}  // namespace trimtab::test
