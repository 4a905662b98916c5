#include "tuning/tuning.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::coordinator {

Tuning::Tuning(TuningState state)
    : state_(std::move(state)), assembly_(state_.world_size()), since_change_(state_.job.trials.warmup_steps) {}

std::vector<Action> Tuning::begin(Moment now) {
  now_ = now;
  state_.begun_wall_ns = now.wall.count();
  enter(Phase::kWaiting);
  return acted();
}

std::vector<Action> Tuning::resume(Moment now) {
  now_ = now;
  moved_at_ = lost_at_ = now.monotonic;
  for (const NodeShare& share : state_.nodes) lost_.insert(share.node);
  const bool asks = state_.doing == Doing::kAwaitingApproval && state_.job.mode == JobMode::kApprove;
  if (state_.has_trial() && !asks) {
    fail_trial(FailureReason::kCoordinatorRestarted, "the coordinator restarted in the middle of the trial", false);
  }
  out_.note("warning", "the coordinator restarted; going on from phase " + std::string(to_string(state_.phase)));
  out_.changed = true;
  if (state_.phase == Phase::kSearching) request_search();
  if (state_.phase == Phase::kProfiling && !state_.is_outstanding(CommandKind::kBenchmark)) profile();
  return acted();
}

std::vector<Action> Tuning::handle(const Event& event, Moment now) {
  now_ = now;
  if (is_final(state_.phase)) return {};
  std::visit([this](const auto& one) { on(one); }, event);
  return acted();
}

std::vector<Action> Tuning::acted() {
  check_invariants();
  return std::exchange(out_.actions, {});
}

void Tuning::on(const Tick&) {
  if (state_.phase == Phase::kProfiling) tick_profiling();
  if (state_.doing == Doing::kHalted) return;
  if (!lost_.empty() && end_without_lost()) return;
  if (!lost_.empty() && !state_.ends()) return tick_lost();
  if (change_) {
    tick_change();
  } else {
    tick_ranks();
    if (hardware_.first_look_is_late()) first_look_over();
    hardware_.tick();
    search_around_slower();
  }
}

void Tuning::on(const CommandFinished& command) {
  const auto kind = commands_.finished(command.tag);
  if (!kind) return;
  switch (*kind) {
    case CommandKind::kDescribe:
      return described(command);
    case CommandKind::kBenchmark:
      return benchmarked(command);
    case CommandKind::kLaunch:
      return launched(command);
    case CommandKind::kKill:
      if (!state_.is_outstanding(CommandKind::kKill)) ranks_killed();
      return;
  }
}

void Tuning::on(const CommandMoved& command) {
  profiling_.take_progress(command);
  moved_at_ = now_.monotonic;
}

void Tuning::on(const SearchFinished& search) {
  const auto purpose = searches_.answered(search);
  if (!purpose) return;  // of an earlier life
  switch (*purpose) {
    case SearchFor::kSpare:
      return elastic_.take_spare(search.reply);
    case SearchFor::kMoreNodes:
      if (const Candidate* const best = elastic_.take_growth(search.reply)) grow(*best);
      return;
    case SearchFor::kSlowerHardware:
      return hardware_.take_slower(search.reply) ? retune() : void();
    case SearchFor::kJob:
      if (state_.phase == Phase::kSearching) return first_search_finished(search.reply);
      if (state_.phase != Phase::kTrials || state_.doing != Doing::kSearching) return;
      hardware_.takes_first_look() ? hardware_.wait(search.reply) : decide(search.reply);
  }
}

void Tuning::on(const FromRank& from) {
  if (from.launch != state_.launch || from.rank < 0 || from.rank >= state_.world_size()) return;
  const bool was_silent = now_.monotonic - moved_at_ > state_.job.trials.deadline;
  if (was_silent) measured_at_ = now_.monotonic;  // the steps that were waited for come now
  moved_at_ = now_.monotonic;
  std::visit([&](const auto& one) { news(from.rank, one); }, from.news);
}

void Tuning::on(Order order) {
  switch (order) {
    case Order::kApprove:
      if (state_.doing == Doing::kAwaitingApproval && !view_.held() && lost_.empty()) start_trial();
      return;
    case Order::kFreeze:
      if (state_.frozen) return;
      state_.frozen = true;
      return hold(FailureReason::kFrozen);
    case Order::kUnfreeze:
      if (!state_.frozen) return;
      state_.frozen = false;
      return release();
    case Order::kStop:
      return user_stop();
    case Order::kResume:
      return resume_halted();
  }
}

void Tuning::enter(Phase phase) {
  state_.phase = phase;
  state_.doing = Doing::kNothing;
  state_.phase_wall_ns = now_.wall.count();
  moved_at_ = now_.monotonic;
  profiling_.forget_progress();
  out_.changed = true;
  out_.note("phase", std::string(to_string(phase)));
}

bool Tuning::take_transition() {
  return std::exchange(out_.changed, false);
}
std::vector<Note> Tuning::take_notes() {
  return std::exchange(out_.notes, {});
}
std::vector<MeasuredStep> Tuning::take_steps() {
  return std::exchange(steps_, {});
}
std::vector<Trial> Tuning::take_changed_trials() {
  return trials_.take_changed();
}

Progress Tuning::progress() const {
  switch (state_.phase) {
    case Phase::kProfiling:
      return profiling_.progress();
    case Phase::kTrials:
      return {state_.trials_made(), state_.job.trials.max_trials, "trials"};
    case Phase::kComparing:
      return {interleaving_ ? interleaving_->block() : 0, 6, "blocks"};
    case Phase::kUntuned:
      return {static_cast<std::int32_t>(state_.untuned_losses.size()), static_cast<std::int32_t>(state_.launch_steps),
              "untuned steps"};
    default:
      return {static_cast<std::int32_t>(state_.step), static_cast<std::int32_t>(state_.job.steps), "steps"};
  }
}

}  // namespace trimtab::coordinator
