#include "fake_world.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr Nanoseconds kMillisecond = std::chrono::milliseconds(1);
constexpr Nanoseconds kLaunchTime = std::chrono::milliseconds(700);
constexpr const char* kModel = "{}";

}  // namespace

std::vector<FakePlan> three_plans() {
  return {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}, {"slow", 400, 300}};
}

Job fake_job(JobMode mode) {
  Job job;
  job.name = "fake";
  job.mode = mode;
  job.world_size = 2;
  job.steps = 600;
  job.describe = {"describe"};
  job.benchmark = {"benchmark"};
  job.train = {"train"};
  job.working_directory = "/";
  job.trials.stop_after = true;
  job.trials.overhead = 1;
  job.trials.deadline = std::chrono::seconds(4);
  job.trials.lasting = Nanoseconds{0};  // its jobs last for a minute or two
  return job;
}

FakeWorld::FakeWorld(Job job, std::vector<FakePlan> plans, std::uint64_t seed, double noise)
    : plans_(std::move(plans)), random_(seed), noise_(noise), ranks_(2) {
  TuningState state;
  state.job = std::move(job);
  // As if it had been stopped before: it saves then.
  state.job.allow_restarts = state.stops.saves_at_stop = state.job.delivery == Delivery::kRestart;
  tuning_ = std::make_unique<Tuning>(std::move(state));
}

void FakeWorld::forget_stops() {
  TuningState state = tuning_->state();
  state.stops = {};
  tuning_ = std::make_unique<Tuning>(std::move(state));
}

void FakeWorld::allow_restarts(bool allowed) {
  TuningState state = tuning_->state();
  state.job.allow_restarts = allowed;
  tuning_ = std::make_unique<Tuning>(std::move(state));
}

FakePlan FakeWorld::plan(const std::string& name) const {
  if (own_ms) {
    const auto known = parse_plan(name, "a plan of the fake world");
    TRIMTAB_ASSERT(known.ok(), "a plan of the fake world can be read");
    return {name, own_ms(known->own), 0};
  }
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const FakePlan& one) { return one.name == name; });
  TRIMTAB_ASSERT(found != plans_.end(), "a plan of the fake world");
  return *found;
}

std::string FakeWorld::running_plan() const {
  if (!ranks_[0].alive || !ranks_[1].alive || ranks_[0].runs.epoch() != ranks_[1].runs.epoch()) return "";
  return ranks_[0].runs.plan();
}

std::string FakeWorld::history() const {
  std::string text;
  for (const std::string& one : notes_) text += one + "\n";
  return text;
}

void FakeWorld::take(Handled handled) {
  if (on_handled) on_handled(handled);
  for (Action& action : handled.actions) pending_.push_back(std::move(action));
  for (const Note& one : handled.notes) notes_.push_back(one.kind + ": " + one.text);
  for (const MeasuredStep& one : handled.steps) steps.push_back(one);
  for (Decision& one : handled.decisions) decisions.push_back(std::move(one));
  if (handled.changed) {
    ++transitions_;
    saved_ = tuning_->state();
  }
}

void FakeWorld::begin() {
  take(take_handled(*tuning_, "begin", nullptr, now(), tuning_->begin(now())));
  feed(NodesReady{{{"n0", 0, 1}, {"n1", 1, 1}}, ClusterText("{}"), "f"});
}

void FakeWorld::feed(const Event& event) {
  take(take_handled(*tuning_, "handle", &event, now(), tuning_->handle(event, now())));
  if (after_event) after_event();
}

bool FakeWorld::run(const std::function<bool()>& stop, int limit) {
  for (int round = 0; round < limit; ++round) {
    if (stop() || is_final(state().phase)) return true;
    if (!pending_.empty()) {
      const Action action = pending_.front();
      pending_.pop_front();
      carry_out(action);
    } else if (!events_.empty()) {
      const Event event = events_.front();
      events_.pop_front();
      feed(event);
    } else {
      train_step();
      events_.emplace_back(Tick{});
    }
  }
  return false;
}

void FakeWorld::finish_command(const std::string& tag, bool ok, const std::string& output) {
  done_tags_.insert(tag);
  events_.emplace_back(CommandFinished{tag, ok, ok ? "" : "refused by the fake", output});
}

void FakeWorld::carry_out(const Action& action) {
  clock.advance(kMillisecond);
  if (const auto* describe = std::get_if<DescribeOn>(&action)) return finish_command(describe->tag, true, kModel);
  if (const auto* benchmark = std::get_if<BenchmarkOn>(&action)) {
    if (!away_.contains(benchmark->node) && !faults.benchmarks_take_long) finish_command(benchmark->tag);
    return;
  }
  if (const auto* launched = std::get_if<LaunchOn>(&action)) return launch(*launched);
  if (const auto* kill = std::get_if<KillOn>(&action)) {
    if (away_.contains(kill->node)) return;
    kills.push_back(*kill);
    if (kill->launch == launch_) ranks_[kill->node == "n0" ? 0 : 1].alive = false;
    // Asked to end, a restarted job saves a checkpoint; a trial's is thrown away.
    if (restarts() && variant_.empty() && !kill->unsaved && faults.saves_at_stop) snapshot_ = step_;
    return finish_command(kill->tag);
  }
  if (const auto* proposed = std::get_if<ProposePlan>(&action)) {
    proposals.push_back(*proposed);
    for (std::int32_t rank = 0; rank < 2; ++rank) propose(rank, *proposed);
    return;
  }
  if (const auto* commit = std::get_if<CommitPlan>(&action)) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      if (reachable(rank)) this->commit(ranks_[rank], *commit);
    }
    return;
  }
  if (const auto* cancel = std::get_if<CancelPlan>(&action)) {
    for (Rank& rank : ranks_) this->cancel(rank, *cancel);
    return;
  }
  if (const auto* stop = std::get_if<StopRanks>(&action)) {
    stop_at_ = stop->step;
    return;
  }
  if (std::holds_alternative<CountCosts>(action)) {
    const bool measured = done_tags_.contains("benchmark/0/n0") && done_tags_.contains("benchmark/0/n1");
    events_.emplace_back(measured ? CostsCounted{7, 0, {}, {}, "", ""} : CostsCounted{4, 3, {"{}"}, {3}, "a, b", ""});
    return;
  }
  if (const auto* wanted = std::get_if<ProbeHardware>(&action)) {
    looks.push_back(*wanted);
    if (faults.probes_unanswered) return;
    const std::string none = faults.probes.empty() ? "agents had nothing to tell" : "";
    events_.emplace_back(HardwareProbed{faults.probes, none, "", faults.links});
    return;
  }
  if (std::holds_alternative<ListDoubtful>(action)) events_.emplace_back(DoubtfulListed{faults.doubtful, ""});
  if (const auto* wanted = std::get_if<MeasureAgain>(&action)) return ask(*wanted);
  if (const auto* wanted = std::get_if<SearchPlans>(&action)) return search(*wanted);
}

// As an agent does: it answers for ranks that cannot.
void FakeWorld::ask(const MeasureAgain& wanted) {
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    if (!ranks_[rank].alive || !reachable(rank)) continue;
    const bool asks = !wanted.request_json.empty();
    if (asks && faults.no_measures.contains(rank)) {
      RankMeasured none;
      none.number = wanted.number;
      none.error = "the program of rank " + std::to_string(rank) + " does not measure between its steps";
      tell(rank, none);
    } else if (!faults.unasked.contains(rank)) {
      ranks_[rank].runs.ask(asks ? wanted.number : 0);
    }
  }
}

RankMeasured FakeWorld::measured(std::int32_t rank) const {
  RankMeasured told;
  told.step = step_;
  told.took = std::chrono::milliseconds(800);
  for (std::size_t i = 0; i < faults.doubtful.items.size(); ++i) {
    const DoubtfulItem& item = faults.doubtful.items[i];
    RankMeasured::Item one{static_cast<std::uint32_t>(i), {}, ""};
    const bool is_other = item.device >= 0 && item.device != rank;
    for (const DoubtfulCost& cost : item.costs) {
      const double ns = is_other ? cost.before_ns : cost.expected_ns * faults.measured_times;
      one.costs.push_back({std::llround(ns), std::llround(ns)});
    }
    told.items.push_back(std::move(one));
  }
  return told;
}

// Between two steps.
void FakeWorld::measure_again() {
  const auto number = trimtab::test::SimulatedRank::measured({&ranks_[0].runs, &ranks_[1].runs});
  if (!number) return;
  pauses_.push_back(step_);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    RankMeasured told = measured(rank);
    told.number = *number;
    if (rank == 0) clock.advance(told.took);
    tell(rank, told);
  }
}

void FakeWorld::launch(const LaunchOn& wanted) {
  if (away_.contains(wanted.node)) return;
  // An agent starts no rank twice.
  const bool runs = restarts() && ranks_[wanted.ranks.front()].alive && launch_ != wanted.launch;
  if (faults.launch_fails || runs) return finish_command(wanted.tag, false);
  if (!done_tags_.contains(wanted.tag)) {
    Rank& rank = ranks_[wanted.ranks.front()];
    rank = Rank{true, {wanted.epoch, wanted.plan_json}};
    if (launch_ != wanted.launch) {
      ++launches_;
      steps_of_launch_ = 0;
      queued_until_ = clock.monotonic() + faults.queue_time;
      step_ = wanted.fresh || !faults.resumes ? 0 : snapshot_;
      last_step_ = wanted.steps > 0 ? wanted.steps : state().job.steps;
      stop_at_ = -1;
      greeted_ = false;
      launch_steps_.clear();
      plan_steps_ = 0;
      preparations_ = 0;
    }
    launch_ = wanted.launch;
    variant_ = wanted.variant;
    if (variant_.empty()) own_launch_ = rank.runs;
    if (restarts()) clock.advance(kLaunchTime);
    silent_ = false;
  }
  finish_command(wanted.tag);
}

void FakeWorld::bring_back() {
  for (Rank& rank : ranks_) rank = Rank{true, own_launch_};
  ++launch_;
  variant_.clear();
  step_ = snapshot_;
  last_step_ = state().job.steps;
  stop_at_ = -1;
  silent_ = false;
}

void FakeWorld::propose(std::int32_t rank, const ProposePlan& wanted) {
  if (!ranks_[rank].alive || !reachable(rank) || silent_) return;
  ranks_[rank].runs.accept(wanted.epoch, wanted.plan_json);
  const bool is_last = rank == 1;
  if (is_last && faults.refuse.contains(wanted.plan_json)) {
    return tell(rank, RankRefused{wanted.epoch, "unsupported", "the fake refuses"});
  }
  if (is_last && faults.refuse_memory.contains(wanted.plan_json)) {
    return tell(rank, RankRefused{wanted.epoch, "memory", "too big"});
  }
  if (is_last && faults.no_ack.contains(wanted.plan_json)) return;
  tell(rank, RankAcknowledged{wanted.epoch, step_});
}

void FakeWorld::commit(Rank& rank, const CommitPlan& commit) {
  if (faults.ignore_commit.contains(rank.runs.accepted(commit.epoch))) {
    rank.ignored[commit.epoch] = commit.step;
  } else {
    rank.runs.commit(commit.epoch, commit.step);
  }
}

void FakeWorld::cancel(Rank& rank, const CancelPlan& cancel) {
  const std::string plan = rank.runs.accepted(cancel.epoch);
  if (!faults.ignore_cancel.contains(plan)) return rank.runs.cancel(cancel.epoch);
  faults.ignore_commit.erase(plan);
  if (const auto late = rank.ignored.extract(cancel.epoch)) rank.runs.commit(cancel.epoch, late.mapped());
}

void FakeWorld::search(const SearchPlans& wanted) {
  const SearchTask task = tuning_->search_task(wanted.purpose);
  if (own_ms) {
    events_.emplace_back(SearchFinished{wanted.number, plan_search(task, clock, [] { return false; })});
    return;
  }
  SearchReply reply;
  const auto predict = [](const FakePlan& one) {
    return Predicted{one.predicted_ms, one.predicted_ms, one.predicted_ms * 0.9, one.predicted_ms * 1.1, true};
  };
  const auto candidate = [&](const FakePlan& one) {
    return PricedPlan{{one.name, one.name}, one.layout.empty() ? one.name : one.layout, predict(one)};
  };
  const FakePlan& incumbent = task.incumbent.empty() ? plans_.front() : plan(task.incumbent.json);
  reply.initial = candidate(plans_.front());
  reply.incumbent = candidate(incumbent);
  for (const MeasuredPlan& measured : task.observations) {
    const PricedPlan known = candidate(plan(measured.plan.hash));
    reply.observed.push_back({known.layout, known.predicted});
  }
  for (const FakePlan& one : plans_) {
    if (std::find(task.excluded.begin(), task.excluded.end(), one.name) != task.excluded.end()) continue;
    reply.candidates.push_back(candidate(one));
  }
  std::sort(reply.candidates.begin(), reply.candidates.end(),
            [](const PricedPlan& a, const PricedPlan& b) { return a.predicted.mean_ms < b.predicted.mean_ms; });
  reply.calibration_json = "{}";
  reply.evaluations = 1000;
  events_.emplace_back(SearchFinished{wanted.number, reply});
}

void FakeWorld::tell(std::int32_t rank, const RankNews& news) {
  if (reachable(rank)) events_.emplace_back(FromRank{rank, launch_, news});
}

void FakeWorld::end_ranks(int exit_code) {
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    if (!std::exchange(ranks_[rank].alive, false)) continue;
    if (exit_code == 0) tell(rank, RankSaidBye{step_});
    // No agent is the parent of a rank that a scheduler started.
    tell(rank, RankExited{is_submitted() ? -1 : exit_code, 0, "last words"});
  }
  if (!is_submitted()) return;
  tell(0, RankSubmission{exit_code == 0 ? SubmissionState::kCompleted : SubmissionState::kFailed, "the batch ended"});
}

// Once a launch.
bool FakeWorld::greets() {
  if (std::exchange(greeted_, true)) return false;
  clock.advance(kMillisecond);
  for (std::int32_t rank = 0; rank < 2; ++rank) tell(rank, RankConnected{ranks_[rank].runs.epoch(), step_, 0.5, 0});
  return true;
}

bool FakeWorld::waits_in_queue() {
  if (!is_submitted() || clock.monotonic() >= queued_until_) return false;
  clock.advance(std::chrono::seconds(1));
  tell(0, RankSubmission{SubmissionState::kQueued, "Slurm job waits"});
  return true;
}

// The scheduler asks the ranks to end: the job itself saves its checkpoint.
bool FakeWorld::interrupt_launch() {
  const auto fault = faults.interrupt.find(launches_);
  if (!is_submitted() || fault == faults.interrupt.end() || ++steps_of_launch_ < 3) return false;
  if (variant_.empty()) snapshot_ = step_;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    ranks_[rank].alive = false;
    tell(rank, RankExited{-1, 0, ""});
  }
  tell(0, RankSubmission{fault->second, "Slurm says " + std::string(to_string(fault->second))});
  faults.interrupt.erase(fault);
  return true;
}

// Between two steps. False when the ranks do not go on.
bool FakeWorld::change_plan() {
  const auto agreed = trimtab::test::SimulatedRank::agreed({&ranks_[0].runs, &ranks_[1].runs}, step_ + 1);
  if (!agreed) return true;
  const std::string name = ranks_[0].runs.accepted(*agreed);
  snapshot_ = step_;
  if (faults.fail_memory.contains(name)) {
    for (Rank& rank : ranks_) rank.runs.fail(*agreed);
    tell(1, RankFailed{*agreed, "out_of_memory", "no room"});
    return true;
  }
  if (faults.crash.contains(name)) {
    end_ranks(1);
    return false;
  }
  if (faults.hang.contains(name)) {
    silent_ = true;
    return false;
  }
  plan_steps_ = 0;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    ranks_[rank].runs.enter(*agreed);
    if (rank == 0 || !faults.half_active.contains(name)) {
      tell(rank, RankActive{*agreed, step_, std::chrono::milliseconds(50)});
    }
  }
  if (faults.half_active.contains(name)) silent_ = true;
  return !silent_;
}

double FakeWorld::warm_up() {
  const double decaying = 1 + faults.warmup * std::pow(0.3, plan_steps_);
  if (plan_steps_++ >= faults.preparing_steps) return decaying;
  if (faults.preparations_told) ++preparations_;
  return 3 * decaying;
}

RankStep FakeWorld::learnt(const std::string& plan) const {
  RankStep told;
  told.preparations = preparations_;
  const auto limit = faults.not_finite_after.find(plan);
  const auto trained = launch_steps_.find(plan);
  const bool later = limit != faults.not_finite_after.end() && variant_.empty() && trained != launch_steps_.end() &&
                     trained->second > limit->second;
  if (later || faults.not_finite.contains(plan)) {
    told.not_finite = "loss";
    return told;
  }
  const auto factor = faults.loss_factor.find(plan);
  told.loss = 10.0 / static_cast<double>(step_) * (factor == faults.loss_factor.end() ? 1 : factor->second);
  return told;
}

void FakeWorld::train_step() {
  if (!ranks_[0].alive || !ranks_[1].alive || silent_) return clock.advance(std::chrono::seconds(1));
  if (clock.monotonic() < paused_until_) return clock.advance(std::chrono::seconds(1));
  if (faults.ranks_never_meet) {
    clock.advance(std::chrono::seconds(10));
    return end_ranks(3);
  }
  if (waits_in_queue() || interrupt_launch() || greets()) return;
  if (step_ >= last_step_ || (stop_at_ >= 0 && step_ >= stop_at_)) return end_ranks(0);
  if (restarts() && !variant_.empty()) {
    if (faults.crash.contains(running_plan())) return end_ranks(1);
    if (faults.out_of_memory.contains(running_plan())) {
      for (const std::int32_t rank : {1, 0})
        tell(rank, RankFailed{ranks_[rank].runs.epoch(), "out_of_memory", "CUDA out of memory"});
      return end_ranks(1);
    }
    if (faults.hang.contains(running_plan())) silent_ = true;
  }
  if (!change_plan() || silent_) return;
  measure_again();
  ++step_;
  if (variant_.empty()) own_steps_.push_back(step_);
  const std::string name = running_plan();
  const double ms = plan(name).true_ms * faults.slowdown * warm_up() * std::exp(noise_ * random_.normal());
  clock.advance(Nanoseconds(static_cast<std::int64_t>(ms * 1e6)));
  if (variant_.empty()) ++launch_steps_[name];
  const auto crash = faults.crash_after.find(name);
  const bool crashes = variant_.empty() && crash != faults.crash_after.end() && launch_steps_[name] >= crash->second;
  if (crashes) return end_ranks(137);
  if (faults.saves_by_itself && variant_.empty()) snapshot_ = step_;
  if (faults.snapshot_every > 0 && step_ % faults.snapshot_every == 0) snapshot_ = step_;
  if (faults.crash_always || step_ == faults.crash_at_step) {
    faults.crash_at_step = -1;
    return end_ranks(137);
  }
  if (const auto pause = faults.pauses.extract(step_)) paused_until_ = clock.monotonic() + pause.mapped();
  const auto shown = faults.clock.find(name);
  const double told_ms = shown == faults.clock.end() ? ms : ms * shown->second;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    RankStep told = rank == 1 ? learnt(name) : RankStep();
    told.step = step_;
    told.epoch = ranks_[rank].runs.epoch();
    told.wall_ms = told_ms;
    told.samples = "s" + std::to_string(step_);
    told.peak_bytes = 1000;
    tell(rank, told);
  }
  tell_of_save();
}

void FakeWorld::tell_of_save() {
  if (faults.saves_every == 0 || !variant_.empty()) return;
  const bool begun = step_ % faults.saves_every == faults.saves_noticed;
  const bool whole = step_ % faults.saves_every == faults.saves_settle;
  if (step_ % faults.saves_every == 0) snapshot_ = step_;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    if (begun) tell(rank, RankSaved{false});
  }
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    if (!whole) continue;
    const bool rests = faults.restless.empty();
    tell(rank, RankSaved{rests, rests && rank == 1 ? faults.copy : std::nullopt, faults.restless});
  }
}

void FakeWorld::restart_coordinator(bool lose_actions) {
  while (!lose_actions && !pending_.empty()) {
    const Action action = pending_.front();
    pending_.pop_front();
    carry_out(action);
  }
  pending_.clear();
  // What ranks said meanwhile, nobody hears; searches of the dead are not answered.
  events_.clear();
  auto saved = parse_tuning_state(to_json(saved_));
  TRIMTAB_ASSERT(saved.ok(), "what was saved can be read");
  tuning_ = std::make_unique<Tuning>(std::move(saved).value());
  take(take_handled(*tuning_, "resume", nullptr, now(), tuning_->resume(now())));
  if (state().phase == Phase::kWaiting) return feed(NodesReady{{{"n0", 0, 1}, {"n1", 1, 1}}, ClusterText("{}"), "f"});
  for (const char* node : {"n0", "n1"}) return_node(node);
}

void FakeWorld::set_true_ms(const std::string& plan, double ms) {
  for (FakePlan& one : plans_) {
    if (one.name == plan) one.true_ms = ms;
  }
}

void FakeWorld::lose_node(const std::string& node) {
  away_.insert(node);
  feed(NodeLost{node});
}

void FakeWorld::return_node(const std::string& node) {
  away_.erase(node);
  const std::int32_t rank = node == "n0" ? 0 : 1;
  NodeBack back{node, {}};
  if (ranks_[rank].alive) back.ranks.push_back({rank, launch_, ranks_[rank].runs.epoch(), variant_.empty()});
  back.launch = launch_;
  feed(back);
}

}  // namespace trimtab::coordinator
