#include "simulated_agent.hpp"

#include <utility>

#include "../coordinator/hello_message.hpp"
#include "measurement_counts.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

using namespace std::chrono_literals;

namespace {

constexpr Bytes kLargeSpool = Bytes{64} << 20;
constexpr Bytes kSmallSpool = 4000;  // a few batches

}  // namespace

SimulatedAgent::SimulatedAgent(std::size_t index, VirtualTime& time, Random& random, SimulatedNetwork& network)
    : index_(index),
      time_(time),
      random_(random),
      network_(network),
      machine_(random),
      clock_(time),
      spool_limit_(random.below(2) == 0 ? kSmallSpool : kLargeSpool) {}

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
  auto life = std::make_unique<Life>(Life{std::move(state).value(), {}, {}, {}, {}});
  auto costs = agent::CostStore::open(life->state.database, machine_.disk.file("costs.db"), life->state.instance,
                                      spool_limit_, [this](const wire::FromAgent& message) { return send(message); });
  if (!costs.ok()) return expect(machine_.may_fail(), "an agent's costs open: " + costs.error().message);
  life->costs.emplace(std::move(costs).value());
  life_ = std::move(life);
}

void SimulatedAgent::act(const std::function<void()>& work) {
  work();
  if (machine_.disk.is_cut()) die();
}

void SimulatedAgent::kill() {
  if (life_) die();
}

void SimulatedAgent::die() {
  machine_.disk.cut();
  life_.reset();
  network_.agent_gone(index_);
  peer_ = 0;
  welcome_ = false;
  machine_.come_up();
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
  wire::FromAgent hello = hello_of(node(), life_->state.instance, to_json(sample_fingerprint()));
  const auto numbers = agent::batch_numbers(life_->state.database);
  expect(numbers.ok() || machine_.may_fail(), "an agent's numbers can be read");
  if (numbers.ok()) {
    hello.mutable_hello()->set_held_from(numbers->held_from);
    hello.mutable_hello()->set_last_batch(numbers->last);
    hello.mutable_hello()->set_acknowledged_by(numbers->coordinator);
  }
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
  act([&] {
    if (message.has_welcome()) return welcomed(message.welcome());
    if (message.has_batch_ack()) {
      expect(message.batch_ack().refused().empty(), "no batch is refused");
      return life_->costs->acknowledged(message.batch_ack().batch());
    }
    if (message.has_command()) return command(message.command());
    if (!message.has_refused()) return;
    network_.close_by_agent(std::exchange(peer_, 0));
    welcome_ = false;
  });
}

void SimulatedAgent::closed(SimulatedNetwork::Peer peer) {
  if (peer != peer_) return;
  peer_ = 0;
  welcome_ = false;
}

void SimulatedAgent::welcomed(const wire::Welcome& welcome) {
  expect(!welcome.renew_instance() || copy_, "an agent that was never set back is not taken for one");
  const auto served = agent::CommandLedger(life_->state.database).serve(welcome.coordinator());
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
  for (const auto& [id, done] : std::exchange(life_->unsent, {})) reply(done);
  life_->costs->link_opened();
}

void SimulatedAgent::command(const wire::Command& asked) {
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
  const std::string& tag = asked.describe().job_json();
  wire::CommandDone done;
  done.set_id(asked.id());
  done.set_ok(true);
  done.set_output(tag + ", run " + std::to_string(++runs[tag]));
  expect(!recorded.contains(tag), "a command that was written down as done is not done again");
  const Status stored = agent::CommandLedger(life_->state.database).done(asked, done);
  expect(stored.ok() || machine_.may_fail(), "a reply is written down on a disk with room and power");
  if (stored.ok()) recorded[tag] = done.output();
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
