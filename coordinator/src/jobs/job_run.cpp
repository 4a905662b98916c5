#include "jobs/job_run.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "agents/hardware_probing.hpp"
#include "agents/wire_commands.hpp"
#include "api/live_ranks.hpp"
#include "base/check.hpp"
#include "costs/nccl_tables.hpp"
#include "jobs/cost_needs.hpp"
#include "jobs/held_memory.hpp"
#include "jobs/loop_time.hpp"
#include "jobs/search_worker.hpp"
#include "tuning/elastic/joining_nodes.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// Of a trial's deadline, by which the answer is no longer waited for.
constexpr double kProbingShare = 0.7;
constexpr Nanoseconds kCalmPatience = std::chrono::minutes(10);
// People's orders that wait for the disk at a time.
constexpr std::size_t kMostOrders = 100;
// All but kernels and ranges, which are many in a long job and price no plan.
std::vector<CostKind> priced_kinds() {
  std::vector<CostKind> kinds;
  for (int i = 0; i < static_cast<int>(CostKind::kRange); ++i) kinds.push_back(static_cast<CostKind>(i));
  return kinds;
}

// Empty where the cluster has no such node.
std::string fingerprint_of(const Cluster& cluster, const std::string& node) {
  const auto found = std::ranges::find(cluster.nodes, node, &Node::name);
  return found == cluster.nodes.end() ? "" : found->fingerprint;
}

// Of which adopted plan a job's timelines are; empty = there are none.
std::string adopted_in(const std::string& timelines_json) {
  const auto timelines = api::parse<api::Timelines>(timelines_json);
  return timelines.ok() ? timelines->adopted_hash : "";
}

}  // namespace

JobRun::JobRun(std::int64_t run, TuningState state, StoredDocuments documents, const JobNeeds& services)
    : run_(run),
      services_(services),
      tuning_(std::move(state)),
      facts_(services.costs, tuning_.state()),
      timelines_json_(std::move(documents.timelines_json)),
      card_(name(), tuning_.state().world_size(), std::move(documents.card_json)),
      timed_step_(tuning_.state().step),
      priced_(adopted_in(timelines_json_)),
      reported_(!priced_.empty()),
      held_bytes_(coordinator::held_bytes(tuning_.state())),
      self_(std::make_shared<JobRun*>(this)) {}

JobRun::~JobRun() {
  *self_ = nullptr;
  services_.members.hold(run_, "", {});
}

// From its placement to its end, halted too: it may go on. What a scheduler starts is on the scheduler's devices.
void JobRun::hold_devices() {
  const bool holds = active() && state().job.submit.empty() && !state().watched;
  services_.members.hold(run_, name(), holds ? state().nodes : std::vector<NodeShare>{});
}

void JobRun::begin() {
  take(tuning_.begin(now()));
  drain();
  tick();
}

void JobRun::resume() {
  if (active()) take(tuning_.resume(now()));
  drain();
  follow_holds();
  hold_devices();
}

void JobRun::shelve() {
  TRIMTAB_ASSERT(!active() && unstored_.empty(), "what is left to the database is there");
  shelved_gain_ = told_gain(state());
  tuning_.change_what_is_over(let_documents_go);
  timelines_json_ = {};
  measured_ = {};
  shelved_ = true;
  held_bytes_ = coordinator::held_bytes(state());
}

bool JobRun::may_be_shelved() const {
  const bool waits = !unstored_.empty() || !actions_.empty() || !events_.empty() || !meeting_later_.empty() ||
                     !numbered_later_.empty() || probing_.has_value();
  return !active() && !shelved_ && !waits && report_complete();
}

void JobRun::feed(Event event) {
  if (shelved_) return;
  // An answer to a command that is over would wait for nothing, and it may be large.
  const auto* done = std::get_if<CommandFinished>(&event);
  if (done != nullptr && !is_outstanding(done->tag)) return;
  if (!events_.push(std::move(event))) ++services_.counters.steps_dropped;
  if (storage_failure_.empty()) drain();
}

bool JobRun::is_outstanding(const std::string& tag) const {
  return std::ranges::any_of(state().outstanding, [&](const auto& one) { return one.tag.text == tag; });
}

Status JobRun::obey(Order order, AuditEntry entry) {
  if (!storage_failure_.empty() && unstored_.audit.size() >= kMostOrders) {
    return unavailable("the state of job " + name() + " cannot be stored (" + storage_failure_ + "), and " +
                       std::to_string(kMostOrders) + " orders wait for it already: make room, then ask again");
  }
  unstored_.audit.push_back(std::move(entry));
  feed(order);
  if (storage_failure_.empty()) drain(true);  // it is stored when it is answered
  return {};
}

void JobRun::tick() {
  drain();
  hold_devices();
  if (!storage_failure_.empty()) return;  // what follows would only wait
  follow_holds();
  number_late();
  send_late();
  if (active()) feed(Tick{});
  if (!meeting_later_.empty() && meeting_place("")) {
    for (const Action& waiting : std::exchange(meeting_later_, {})) {
      std::visit([this](const auto& one) { carry_out(one); }, waiting);
    }
  }
  tick_probing();
  offer_nodes();
  if (state().phase == Phase::kWaiting && !state().watched) place();
  remember_costs();
  const bool settled = !active() || state().phase == Phase::kTraining;
  if (settled && priced_ != state().incumbent.hash && !state().initial.empty()) price_plans();
  keep_card();
  if (may_be_shelved()) shelve();
}

// Once the job is over, and now and then before: it is made of what is in memory alone.
void JobRun::keep_card() {
  const auto card = card_.next_to_keep(services_.clock.monotonic(), !active());
  if (!card) return;
  const Status stored = services_.store.save_card(run_, *card);
  if (!stored.ok()) spdlog::warn("job {}: cannot store its card: {}", name(), stored.error().message);
}

// What the job waits for no more is left; kills are always sent. Where the disk still has no room for the first, it has
// none for the others, which are not tried.
void JobRun::number_late() {
  std::vector<Action> waiting = std::exchange(numbered_later_, {});
  for (Action& action : waiting) {
    if (!numbered_later_.empty()) {
      numbered_later_.push_back(std::move(action));
      continue;
    }
    std::visit(
        [this](const auto& one) {
          using Command = std::decay_t<decltype(one)>;
          if constexpr (requires { one.tag; }) {
            if (is_outstanding(one.tag) || std::is_same_v<Command, KillOn>) carry_out(one);
          }
        },
        action);
  }
}

// The command waits for its id, once, however often it is asked for; it is said once in a row.
template <typename Command>
void JobRun::number_later(const Command& command, const std::string& why) {
  const bool waits = std::ranges::any_of(numbered_later_, [&](const Action& one) {
    const auto* const other = std::get_if<Command>(&one);
    return other != nullptr && other->tag == command.tag && other->node == command.node;
  });
  if (waits) return;
  numbered_later_.push_back(command);
  std::string unnumbered = command.tag + "/" + command.node;
  if (unnumbered == unnumbered_) return;
  spdlog::error("job {}: no id for command {} yet: {}", name(), command.tag, why);
  unnumbered_ = std::move(unnumbered);
}

void JobRun::take(std::vector<Action> actions) {
  audit(actions);
  for (Action& action : actions) actions_.push_back(std::move(action));
  if (tuning_.take_transition()) unstored_.state_changed = true;
  if (std::exchange(timed_step_, state().step) != state().step) step_times_.observe(state().step_ms / 1e3);
  for (Note& note : tuning_.take_notes()) {
    spdlog::info("job {}: {}: {}", name(), note.kind, note.text);
    unstored_.notes.push_back(std::move(note));
  }
  for (Trial& trial : tuning_.take_changed_trials()) unstored_.trials.push_back(std::move(trial));
  for (const MeasuredStep& step : tuning_.take_steps()) unstored_.steps.push_back(step);
}

// The log has an action before it is carried out: both are of one transaction.
void JobRun::audit(const std::vector<Action>& actions) {
  for (const Decision& decision : tuning_.take_decisions()) {
    unstored_.audit.push_back({kCoordinatorActor, decision.what, name(), run_, decision.why, state().tenant});
  }
  for (const Action& action : actions) {
    const std::string what = audited(action);
    if (!what.empty())
      unstored_.audit.push_back({kCoordinatorActor, what, name(), run_, state().purpose(), state().tenant});
  }
}

// Carrying out an action may bring the next event, so this is a loop and not a recursion. What waits because the loop's
// time is needed for others comes with a later tick.
void JobRun::drain(bool at_once) {
  if (std::exchange(draining_, true)) return;
  LoopTime& time = services_.loop_time;
  Nanoseconds since = services_.clock.monotonic();
  while (store()) {
    const Nanoseconds stored = services_.clock.monotonic();
    time.charge(state().tenant, std::exchange(since, stored), stored);
    if (!at_once && !time.may_go_on(state().tenant, stored)) break;
    if (!actions_.empty()) {
      const Action action = std::move(actions_.front());
      actions_.pop_front();
      std::visit([this](const auto& one) { carry_out(one); }, action);
    } else if (!events_.empty()) {
      take(tuning_.handle(events_.pop(), now()));
    } else {
      break;
    }
  }
  draining_ = false;
}

bool JobRun::store() {
  if (unstored_.empty()) return true;
  const Status saved = services_.store.save(run_, state(), unstored_, services_.clock.wall().count());
  if (!saved.ok()) {
    ++services_.counters.state_failures;
    if (storage_failure_ != saved.error().message) {
      spdlog::error("job {} stands still, its state cannot be stored: {}", name(), saved.error().message);
    }
    storage_failure_ = saved.error().message;
    return false;
  }
  storage_failure_.clear();
  if (unstored_.state_changed) held_bytes_ = coordinator::held_bytes(state());
  unstored_ = {};
  return true;
}

void JobRun::place() {
  auto placement = services_.members.place(state().job, state().tenant, run_);
  std::string why = placement ? "" : services_.members.kept_from(state().job, state().tenant, run_);
  if (const std::string site = beyond_site(placement ? placement->nodes.size() : 0); !site.empty()) {
    why = site;
    placement.reset();
  }
  if (std::exchange(waits_for_, why) != why && !why.empty()) spdlog::warn("job {} waits: {}", name(), why);
  if (!placement) return;
  load_facts(placement->fingerprint);
  feed(NodesReady{placement->nodes, placement->cluster, state().fingerprint});
  hold_devices();
}

void JobRun::load_facts(const std::string& hardware) {
  tuning_.set_fingerprint(facts_.fingerprint_on(hardware));
  if (auto known = facts_.probes()) tuning_.set_probes(std::move(*known));
  tuning_.set_calibration(facts_.calibration());
}

void JobRun::costs_stored(const std::string& node, const std::string& fingerprint, bool active) {
  if (!active || state().phase != Phase::kProfiling) return;
  benchmark_told_ = true;
  // The hardware's own, under which the next run of the job looks for it.
  const Cluster* const of_job = state().cluster.said();
  const std::string hardware = of_job != nullptr ? fingerprint_of(*of_job, node) : "";
  if (!hardware.empty() && facts_.fingerprint_on(hardware) != fingerprint) {
    spdlog::info("job {}: costs of node {} belong to fingerprint {}", name(), node, fingerprint);
    const Status stored = facts_.remember_fingerprint(hardware, fingerprint);
    if (!stored.ok()) spdlog::warn("{}", stored.error().message);
  }
  const bool is_others = !hardware.empty() && hardware != costs_hardware(*of_job);
  if (is_others || fingerprint == state().fingerprint) return;
  tuning_.set_fingerprint(fingerprint);
  if (state().calibration_json.empty()) tuning_.set_calibration(facts_.factors_of_others());
}

std::vector<Cost> JobRun::known_costs() const {
  std::vector<Cost> costs = costs_of(state().fingerprint);
  const NearState& near = state().profiling.near;
  const Cluster* const cluster = state().cluster.said();
  if (near.findings.empty() || cluster == nullptr || near.hardware != costs_hardware(*cluster)) return costs;
  const auto there = read_near(services_.costs, near.found);
  if (there) std::ranges::move(tuner::take_over(there->hardware, near.findings), std::back_inserter(costs));
  return costs;
}

// As its agents name it, with what the job adds.
std::optional<Fingerprint> JobRun::own_fingerprint(const Cluster& cluster) const {
  const Member* const member = services_.members.by_node(cluster.nodes.front().name);
  if (member == nullptr) return std::nullopt;
  auto node = parse_fingerprint(member->fingerprint_json, "node " + member->node);
  if (!node.ok()) return std::nullopt;
  return fingerprint_of_job(std::move(node).value(), state().job.environment, state().job.software);
}

// Of a job whose nodes are all of one hardware.
std::optional<NearCosts> JobRun::near_costs(const Model& model, const Cluster& cluster, bool launches) const {
  if (!state().job.near_costs || !other_fingerprints(cluster).empty()) return std::nullopt;
  const NearState& near = state().profiling.near;
  if (!near.found.fingerprint.empty()) return read_near(services_.costs, near.found);
  const auto own = own_fingerprint(cluster);
  return own ? find_near(services_.costs, *own, model, cluster, state().job.knobs, launches) : std::nullopt;
}

// Of GPUs. A benchmark that was asked for launches and told none is not asked again.
bool JobRun::asks_for_launches(const Cluster& cluster) const {
  const auto own = own_fingerprint(cluster);
  return own && is_gpu(*own) && !facts_.are_launches_untold();
}

// What is taken over is not in the database: that is told for people who look there.
void JobRun::remember_costs() {
  const std::int32_t untold = state().profiling.launches_untold;
  if (std::exchange(told_untold_, untold) < untold && benchmark_told_) facts_.remember_launches_untold(untold);
  const NearState& near = state().profiling.near;
  if (near.taken_over == 0 || std::exchange(told_near_, near.taken_over) == near.taken_over) return;
  const Status stored = services_.costs.put_fact(state().fingerprint, kTakenOverFact, fact_of(near));
  if (!stored.ok()) spdlog::warn("job {}: cannot remember what was taken over: {}", name(), stored.error().message);
}

std::vector<Cost> JobRun::costs_of(const std::string& fingerprint) const {
  auto costs = services_.costs.costs(fingerprint, priced_kinds());
  if (costs.ok()) return std::move(costs).value();
  spdlog::error("job {}: cannot read costs: {}", name(), costs.error().message);
  return {};
}

void JobRun::carry_out(const RememberCalibration& action) {
  facts_.remember_calibration(action.json, 2 * values_.disturbed > values_.all);
}

std::optional<std::string> JobRun::meeting_place(const std::string& name) const {
  return rendezvous(std::to_string(run_) + "-" + name, state().nodes, services_.members,
                    services_.settings.rendezvous_ports);
}

template <typename Command>
void JobRun::send_command(const Command& action) {
  std::optional<std::string> meeting = std::string();
  if constexpr (requires { action.rendezvous; }) {
    meeting = meeting_place(action.rendezvous);
    if (!meeting) {
      spdlog::info("job {}: command {} for node {} waits for the node of rank 0, where ranks meet", name(), action.tag,
                   action.node);
      return meeting_later_.push_back(action);
    }
  }
  if constexpr (std::is_same_v<Command, KillOn>) {  // nothing is begun behind it
    meeting_later_.clear();
    std::erase_if(numbered_later_, [](const Action& one) { return !std::holds_alternative<KillOn>(one); });
    std::erase_if(unsent_, [&](const Unsent& one) { return one.node == action.node; });
  }
  // What runs there is ended in any case; nothing is begun.
  const Member* member = services_.members.by_node(action.node);
  if (!std::is_same_v<Command, KillOn> && member != nullptr && !member->serves(state().tenant)) {
    return spdlog::warn("job {}: command {} waits: node {} does not serve its tenant", name(), action.tag, action.node);
  }
  auto id = services_.store.command_id(run_, action.tag, action.node);
  if (!id.ok()) return number_later(action, id.error().message);
  Result<std::string> table = std::string();
  if constexpr (std::is_same_v<Command, LaunchOn>) {
    table = nccl_table_of_launch(services_.nccl_table_directory, run_, action.launch, [this] {
      return services_.costs.costs(state().fingerprint, {CostKind::kCollective});
    });
  }
  if (!table.ok()) {
    // The deadline of the launch is the backstop.
    spdlog::error("job {}: command {} is not sent: {}", name(), action.tag, table.error().message);
    return;
  }
  // A target's plan is written by every node, and `describe` ran on one.
  Job job = state().running_job();
  if (!job.target.empty() && job.model_json.empty()) job.model_json = state().model_json;
  const CommandContext context{*id, name(), to_json(job), *meeting, std::move(table).value()};
  wire::ToAgent to = command(action, context);
  to.mutable_command()->set_tenant(state().tenant);
  send_or_keep({action, action.tag, action.node}, to);
}

// What the job waits for no more is left.
void JobRun::send_late() {
  std::vector<Unsent> waiting = std::exchange(unsent_, {});
  for (Unsent& one : waiting) {
    if (!active() || !is_outstanding(one.tag)) continue;
    if (!has_room(one.node, one.bytes)) {
      unsent_.push_back(std::move(one));
      continue;
    }
    std::visit([this](const auto& action) { carry_out(action); }, one.action);
  }
}

template <typename ToAgents>
void JobRun::carry_out(const ToAgents& action) {
  if constexpr (requires { action.tag; }) {
    send_command(action);
  } else {
    for (const NodeShare& share : state().nodes) {
      if (tell(share.node, message(action, name()))) continue;
      spdlog::info("job {}: node {} is away, or much waits for it, and it does not hear of a plan change", name(),
                   share.node);
    }
  }
}

void JobRun::carry_out(const CountCosts&) {
  const auto of_model = parse_model(state().model_json, "the job's model");
  const auto on = state().cluster.needed("the job's cluster");
  if (!of_model.ok() || !on.ok()) {
    CostsCounted counted;
    counted.error = of_model.ok() ? on.error().message : of_model.error().message;
    return (void)events_.push(std::move(counted));
  }
  std::map<std::string, std::vector<Cost>> there;
  for (const std::string& one : other_fingerprints(*on)) there[one] = costs_of(facts_.fingerprint_on(one));
  std::vector<Cost> known = costs_of(state().fingerprint);
  const bool launches = asks_for_launches(*on);
  const auto near = near_costs(*of_model, *on, launches);
  if (!near)
    return (void)events_.push(count_costs(*of_model, *on, state().job.knobs, std::move(known), there, launches));
  (void)events_.push(count_costs_near(*of_model, *on, state().job.knobs, std::move(known), near->found, near->hardware,
                                      state().profiling.near.decided, launches));
}

// Of the hardware that the job's costs are not of.
std::set<std::string> JobRun::other_fingerprints(const Cluster& cluster) const {
  std::set<std::string> others;
  for (const Node& node : cluster.nodes) others.insert(node.fingerprint);
  others.erase(costs_hardware(cluster));
  return others;
}

// A job that began under an earlier release has it of its first node.
std::string JobRun::costs_hardware(const Cluster& cluster) const {
  return state().hardware.costs_hardware.empty() ? cluster.nodes.front().fingerprint : state().hardware.costs_hardware;
}

void JobRun::carry_out(const SearchPlans& action) {
  SearchTask task = tuning_.search_task(action.purpose);
  task.costs = known_costs();
  if (action.purpose == SearchFor::kJob) {
    std::ranges::move(facts_.ruled_out(), std::back_inserter(task.excluded));
  }
  task.time_budget = services_.settings.search_time;
  task.max_evaluations = services_.settings.search_evaluations;
  ++services_.counters.searches;
  const Nanoseconds asked = services_.clock.monotonic();
  services_.worker.enqueue(std::move(task), [self = self_, number = action.number, asked](SearchReply reply) {
    if (*self == nullptr) return;
    const JobNeeds& services = (*self)->services_;
    services.counters.search_times.observe(std::chrono::duration<double>(services.clock.monotonic() - asked).count());
    (*self)->feed(SearchFinished{number, std::move(reply)});
  });
}

void JobRun::carry_out(const ListDoubtful&) {
  SearchTask task = tuning_.search_task();
  task.costs = known_costs();
  auto listed = doubtful_costs(task, state().job.trials.measure_again);
  DoubtfulListed answer;
  listed.ok() ? void(answer.doubtful = std::move(listed).value()) : void(answer.error = listed.error().message);
  (void)events_.push(std::move(answer));
}

void JobRun::carry_out(const ProbeHardware& action) {
  const auto urgent = std::chrono::duration_cast<Nanoseconds>(state().job.trials.deadline * kProbingShare);
  const Nanoseconds patience = action.urgent ? urgent : std::max(urgent, kCalmPatience);
  probing_ = Probing{action, services_.clock.monotonic() + patience, std::nullopt};
  services_.probing.probe({name(), state().nodes, interface_of(state().job), true, action.takes, probing_->deadline},
                          [self = self_, since = action.since_step](HardwareProbed probed) {
                            if (*self == nullptr || !(*self)->probing_) return;
                            if ((*self)->probing_->asked.since_step != since) return;  // asked again since
                            (*self)->probing_->answer = std::move(probed);
                            (*self)->tick_probing();
                          });
}

// The agents have looked. What ranks compute is a mean over steps, so it waits until all of them are later than what
// was asked about.
void JobRun::tick_probing() {
  if (!probing_ || !probing_->answer) return;
  const auto computing = services_.live.computing(name());
  const bool wanted = probing_->asked.computing;
  const bool fresh =
      !wanted || std::all_of(computing.begin(), computing.end(), [this](const LiveRanks::Computing& one) {
        return one.first_step > probing_->asked.since_step;
      });
  if (!fresh && services_.clock.monotonic() < probing_->deadline) return;
  HardwareProbed probed = std::move(*probing_->answer);
  const std::string work = training_work(probing_->asked.plan_hash);
  probed.plan_hash = probing_->asked.plan_hash;
  probing_.reset();
  for (const LiveRanks::Computing& one : computing) {
    if (!wanted || !fresh || one.rank >= state().world_size()) continue;
    Probe probe;
    probe.device = one.rank;
    probe.node = one.node;
    probe.ms = one.ms;
    probe.work = work;
    probed.probes.push_back(std::move(probe));
  }
  if (!probed.probes.empty()) probed.error.clear();
  card_.probed(probed.probes, state().hardware.first_probes);
  feed(std::move(probed));
}

// Nodes that joined are looked at once, beside those that the job has.
void JobRun::offer_nodes() {
  if (offering_ || !tuning_.takes_nodes()) return;
  auto larger = services_.members.place_more(state().job, state().tenant, state().nodes, run_);
  if (!larger || larger->key == offered_ || !beyond_site(larger->nodes.size()).empty()) return;
  offering_ = true;
  services_.probing.probe({name(), larger->nodes, "", false},
                          [self = self_, larger = *larger](const HardwareProbed& probed) {
                            if (*self == nullptr) return;
                            (*self)->offering_ = false;
                            (*self)->offer(larger, probed);
                          });
}

void JobRun::offer(const LargerPlacement& larger, const HardwareProbed& probed) {
  if (!tuning_.takes_nodes()) return;  // looked at again when it does
  offered_ = larger.key;
  feed(describe_joining(larger, costs_hardware(larger.cluster), probed.probes));
}

void JobRun::values_stored(const MeasuredValues& values) {
  values_.all += values.all;
  values_.disturbed += values.disturbed;
}

Status JobRun::pictured(std::int32_t rank, std::uint64_t epoch, std::uint64_t begin_ns, const std::string& bars_json) {
  const auto hash = state().epoch_hashes.find(epoch);
  if (hash == state().epoch_hashes.end() || shelved_) return {};  // of a launch that is no more
  const PlanText* plan = drawn_plan(hash->second);
  if (plan == nullptr) return {};
  measured_.keep([this](const std::string& other) { return drawn_plan(other) != nullptr; });
  return measured_.add(*plan, rank, begin_ns, bars_json);
}

// Of the plans that a report may show: the first, the incumbent, those it may go back to, and the one on trial.
const PlanText* JobRun::drawn_plan(const std::string& hash) const {
  if (state().initial.hash == hash) return &state().initial;
  if (state().incumbent.hash == hash) return &state().incumbent;
  if (state().has_trial() && state().trials.back().plan.hash == hash) return &state().trials.back().plan;
  const auto replaced = std::ranges::find(state().replaced, hash, [](const auto& one) { return one.plan.hash; });
  return replaced == state().replaced.end() ? nullptr : &replaced->plan;
}

// For the report: one iteration of the initial and of the adopted plan, as the calibrated model sees it.
void JobRun::price_plans() {
  priced_ = state().incumbent.hash;
  reported_ = false;
  SearchTask task = tuning_.search_task();
  task.costs = known_costs();
  task.price_only = true;
  services_.worker.enqueue(std::move(task), [self = self_](SearchReply reply) {
    if (*self != nullptr) (*self)->priced(reply);
  });
}

void JobRun::priced(const SearchReply& reply) {
  reported_ = true;
  timelines_json_ = "{}";  // those of an earlier plan would be taken for this one's
  if (!reply.error.empty()) return spdlog::warn("job {}: no timelines: {}", name(), reply.error);
  const auto measured = [this](const PlanText& plan) { return measured_.timeline(plan.hash); };
  timelines_json_ = api::to_json(api::Timelines{priced_, reply.initial_timeline, measured(state().initial),
                                                reply.incumbent_timeline, measured(state().incumbent)});
  const Status stored = services_.store.save_timelines(run_, timelines_json_);
  if (!stored.ok()) spdlog::warn("job {}: cannot store timelines: {}", name(), stored.error().message);
}

}  // namespace trimtab::coordinator
