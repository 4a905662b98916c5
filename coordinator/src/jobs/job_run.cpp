#include "jobs/job_run.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "agents/hardware_probing.hpp"
#include "agents/wire_commands.hpp"
#include "api/live_ranks.hpp"
#include "base/check.hpp"
#include "jobs/held_memory.hpp"
#include "jobs/loop_time.hpp"
#include "jobs/search_worker.hpp"
#include "tuning/elastic/joining_nodes.hpp"

namespace trimtab::coordinator {
namespace {

// Of a trial's deadline, by which the answer is no longer waited for.
constexpr double kProbingShare = 0.7;
constexpr Nanoseconds kCalmPatience = std::chrono::minutes(10);
// People's orders that wait for the disk at a time.
constexpr std::size_t kMostOrders = 100;
// Of which adopted plan a job's timelines are; empty = there are none.
std::string adopted_in(const std::string& timelines_json) {
  const auto timelines = api::parse<api::Timelines>(timelines_json);
  return timelines.ok() ? timelines->adopted_hash : "";
}

// Of the plans that a report may show: the first, the incumbent, those it may go back to, and the one on trial.
const PlanText* drawn_plan(const TuningState& state, const std::string& hash) {
  if (state.initial.hash == hash) return &state.initial;
  if (state.incumbent.hash == hash) return &state.incumbent;
  if (state.has_trial() && state.trials.back().plan.hash == hash) return &state.trials.back().plan;
  const auto replaced = std::ranges::find(state.replaced, hash, [](const auto& one) { return one.plan.hash; });
  return replaced == state.replaced.end() ? nullptr : &replaced->plan;
}

}  // namespace

JobRun::JobRun(std::int64_t run, TuningState state, StoredDocuments documents, const JobNeeds& services)
    : run_(run),
      services_(services),
      tuning_(std::move(state)),
      facts_(services.costs, tuning_.state()),
      costs_(tuning_.state(), facts_, services),
      commands_(run, tuning_.state(), services, [this](CommandFinished failed) { feed(std::move(failed)); }),
      timelines_json_(std::move(documents.timelines_json)),
      card_(name(), tuning_.state().world_size(), std::move(documents.card_json)),
      timed_step_(tuning_.state().step),
      priced_(adopted_in(timelines_json_)),
      reported_(!priced_.empty()),
      held_bytes_(coordinator::held_bytes(tuning_.state())),
      self_(std::make_shared<JobRun*>(this)) {}

JobRun::~JobRun() {
  *self_ = nullptr;
  services_.members.hold(run_, {}, {});
}

bool has_own_devices(const TuningState& state) {
  return state.job.submit.empty() && !state.watched;
}

// From its placement to its end, halted too: it may go on. Where nothing follows the end of the ranks, each node's are
// others' as soon as its own have ended.
void JobRun::hold_devices() {
  std::vector<NodeShare> held = active() ? state().nodes : std::vector<NodeShare>{};
  if (state().ends() && state().doing == Doing::kKilling && events_.empty()) {
    std::erase_if(held, [this](const NodeShare& share) { return has_ended_on(share.node); });
  }
  services_.members.hold(run_, {name(), state().tenant}, held, has_own_devices(state()));
}

// A node that is away is told when it is back.
bool JobRun::has_ended_on(const std::string& node) const {
  const Member* member = services_.members.by_node(node);
  const auto& unanswered = state().outstanding;
  const bool is_here = member != nullptr && member->peer != 0;
  return is_here && std::ranges::find(unanswered, node, &OutstandingCommand::node) == unanswered.end();
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
  const bool waits =
      !unstored_.empty() || !actions_.empty() || !events_.empty() || commands_.wait() || probing_.has_value();
  return !active() && !shelved_ && !waits && report_complete();
}

void JobRun::feed(Event event) {
  if (shelved_) return;
  // An answer to a command that is over would wait for nothing, and it may be large.
  const auto* done = std::get_if<CommandFinished>(&event);
  if (done != nullptr && !state().is_outstanding(done->tag)) return;
  if (!events_.push(std::move(event))) ++services_.counters.steps_dropped;
  if (storage_failure_.empty()) drain();
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
  commands_.send_late();
  if (active()) feed(Tick{});
  commands_.send_to_meet();
  tick_probing();
  offer_nodes();
  if (state().phase == Phase::kWaiting && !state().watched) place();
  costs_.remember();
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

void JobRun::take(Outcome told) {
  audit(told);
  const auto number = [this](const auto& one) {
    if constexpr (requires { one.tag; }) unnumbered_.push_back({run_, one.tag, one.node});
  };
  for (const Action& action : told.actions) std::visit(number, action);
  std::ranges::move(told.actions, std::back_inserter(actions_));
  if (told.changed) unstored_.state_changed = true;
  if (std::exchange(timed_step_, state().step) != state().step) step_times_.observe(state().step_ms / 1e3);
  for (Note& note : told.notes) {
    spdlog::info("job {}: {}: {}", name(), note.kind, note.text);
    unstored_.notes.push_back(std::move(note));
  }
  std::ranges::move(told.changed_trials, std::back_inserter(unstored_.trials));
  std::ranges::move(told.steps, std::back_inserter(unstored_.steps));
}

// The log has an action before it is carried out: both are of one transaction.
void JobRun::audit(const Outcome& told) {
  for (const Decision& decision : told.decisions) {
    unstored_.audit.push_back({kCoordinatorActor, decision.what, name(), run_, decision.why, state().tenant});
  }
  for (const Action& action : told.actions) {
    const std::string what = audited(action);
    if (!what.empty())
      unstored_.audit.push_back({kCoordinatorActor, what, name(), run_, state().purpose(), state().tenant});
  }
}

// Carrying out an action may bring the next event, so this is a loop and not a recursion. What waits because the loop's
// time is needed for others comes with a later tick. An order is handled and stored at once. What it makes the job do
// waits like the rest.
void JobRun::drain(bool at_once) {
  if (std::exchange(draining_, true)) return;
  LoopTime& time = services_.loop_time;
  Nanoseconds since = services_.clock.monotonic();
  while (store()) {
    const Nanoseconds stored = services_.clock.monotonic();
    time.charge(state().tenant, std::exchange(since, stored), stored);
    const bool is_order = at_once && !events_.empty();
    if (!is_order && !time.may_go_on(state().tenant, stored)) break;
    if (!actions_.empty()) {
      number_commands();
      const Action action = std::move(actions_.front());
      actions_.pop_front();
      std::visit(
          [&](const auto& one) {
            if constexpr (requires { carry_out(one); }) {
              carry_out(one);
            } else {
              commands_.send(action);
            }
          },
          action);
    } else if (!events_.empty()) {
      take(tuning_.handle(events_.pop(), now()));
    } else {
      break;
    }
  }
  draining_ = false;
}

// Those of all nodes in one transaction: each alone waits for the disk. Where that fails each asks for its own.
void JobRun::number_commands() {
  const std::vector<CommandOwner> commands = std::exchange(unnumbered_, {});
  if (commands.size() < 2) return;
  const Status numbered = services_.store.number_commands(commands);
  if (!numbered.ok()) spdlog::warn("job {}: no ids for its commands: {}", name(), numbered.error().message);
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
  const Nanoseconds begun = services_.clock.monotonic();
  if (!services_.loop_time.may_go_on(state().tenant, begun)) return;
  auto placement = services_.members.place(state().job, state().tenant, run_);
  std::string why = placement ? "" : services_.members.kept_from(state().job, state().tenant, run_);
  services_.loop_time.charge(state().tenant, begun, services_.clock.monotonic());
  if (const std::string site = beyond_site(placement ? placement->nodes.size() : 0); !site.empty()) {
    why = site;
    placement.reset();
  }
  if (std::exchange(waits_for_, why) != why && !why.empty()) spdlog::warn("job {} waits: {}", name(), why);
  if (!placement) return;
  tuning_.set_fingerprint(facts_.fingerprint_on(placement->fingerprint));
  if (auto known = facts_.probes()) tuning_.set_probes(std::move(*known));
  tuning_.set_calibration(facts_.calibration());
  feed(NodesReady{placement->nodes, placement->cluster, state().fingerprint});
  hold_devices();
}

void JobRun::stored(const BatchAnswer& batch) {
  values_.all += batch.values.all;
  values_.disturbed += batch.values.disturbed;
  if (!batch.has_active || state().phase != Phase::kProfiling || !costs_.stored(batch.node, batch.fingerprint)) return;
  tuning_.set_fingerprint(batch.fingerprint);
  if (state().calibration_json.empty()) tuning_.set_calibration(facts_.factors_of_others());
}

void JobRun::carry_out(const RememberCalibration& action) {
  facts_.remember_calibration(action.json, 2 * values_.disturbed > values_.all);
}

void JobRun::carry_out(const SearchPlans& action) {
  SearchTask task = tuning_.search_task(action.purpose);
  task.costs = costs_.known();
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
  task.costs = costs_.known();
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
  feed(describe_joining(larger, costs_.own_hardware(larger.cluster), probed.probes));
}

Status JobRun::pictured(std::int32_t rank, std::uint64_t epoch, std::uint64_t begin_ns, const std::string& bars_json) {
  const auto hash = state().epoch_hashes.find(epoch);
  if (hash == state().epoch_hashes.end() || shelved_) return {};  // of a launch that is no more
  const PlanText* plan = drawn_plan(state(), hash->second);
  if (plan == nullptr) return {};
  measured_.keep([this](const std::string& other) { return drawn_plan(state(), other) != nullptr; });
  return measured_.add(*plan, rank, begin_ns, bars_json);
}

// For the report: one iteration of the initial and of the adopted plan, as the calibrated model sees it.
void JobRun::price_plans() {
  priced_ = state().incumbent.hash;
  reported_ = false;
  SearchTask task = tuning_.search_task();
  task.costs = costs_.known();
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
