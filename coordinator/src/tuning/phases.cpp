// Where phases go on: from the job's arrival to its first launch, and whenever nothing is under way.

#include <algorithm>

#include "base/check.hpp"
#include "tuning/search/search_task.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

namespace {

// Of the first search.
void warn_of(const SearchReply& reply, Outcome& out) {
  if (!reply.initial.predicted.priced()) {
    out.note("warning", "the initial plan is not priced: costs that it needs are missing");
  } else if (!reply.initial.predicted.feasible) {
    out.note("warning", "the initial plan is predicted not to fit into memory");
  }
  if (reply.candidates.empty()) out.note("warning", "the search found no plan that fits: " + reply.infeasible);
}

}  // namespace

void Tuning::enter(Phase phase) {
  m_.state.phase = phase;
  m_.activity.become(Doing::kNothing);
  m_.state.phase_wall_ns = m_.now.wall.count();
  launch_.live();
  m_.profiling.forget_progress();
  trying_.wait_no_longer();
  m_.out.changed = true;
  m_.out.note("phase", std::string(to_string(phase)));
}

Next Tuning::on(const NodesReady& ready) {
  TuningState& state = m_.state;
  if (state.phase != Phase::kWaiting) return {};
  state.nodes = ready.nodes;
  state.cluster = ready.cluster;
  state.fingerprint = ready.fingerprint;
  if (state.has_no_plan()) {  // Nothing is priced or tried: the job runs as its owner wrote it.
    state.initial = state.incumbent = {"", std::string(kAsLaunched)};
    enter(Phase::kLaunching);
    launch_.launch(state.initial, "", true, 0);
    return {};
  }
  m_.hardware.find_other_hardware();
  if (tries_own_knobs_alone(state.job)) {  // Nothing prices them, so nothing is measured for that.
    enter(Phase::kSearching);
    m_.request_search();
    return {};
  }
  if (!state.job.model_json.empty()) {
    state.model_json = state.job.model_json;
    return {Next::kProfile};
  }
  enter(Phase::kDescribing);
  m_.commands.describe();
  return {};
}

Next Tuning::described(const CommandFinished& command) {
  if (m_.state.phase != Phase::kDescribing) return {};
  if (!command.ok) return fail("the job's describe command failed: " + command.error);
  m_.state.model_json = command.output;
  return {Next::kProfile};
}

Next Tuning::on(const CostsCounted& counted) {
  if (m_.state.phase != Phase::kProfiling) return {};
  switch (m_.profiling.take(counted)) {
    case Profiling::Counted::kWait:
      return {};
    case Profiling::Counted::kFailed:
      return cannot_profile(m_.profiling.failure());
    case Profiling::Counted::kDone:
      m_.hardware.take_measured_speeds(counted.speeds);
      return profiled();
  }
  return {};
}

Next Tuning::cannot_profile(const std::string& why) {
  if (!m_.state.profiles_anew()) return fail(why);
  m_.out.note("warning", "costs are not measured anew: " + why);
  return profiled();
}

Next Tuning::profiled() {
  m_.profiling.end();
  if (m_.state.profiles_anew()) {
    retuning_.profiled_anew();
    enter(Phase::kMeasuring);
    launch_.launch(m_.state.incumbent, "", m_.state.step == 0, 0);
    return {};
  }
  if (!m_.state.tune) return end(Phase::kFinished);
  enter(Phase::kSearching);
  m_.request_search();
  return {};
}

SearchTask Tuning::search_task(SearchFor purpose) const {
  switch (purpose) {
    case SearchFor::kSpare:
      return spare_task(m_.state);
    case SearchFor::kMoreNodes:
      return m_.elastic.growth_task();
    case SearchFor::kSlowerHardware:
      return m_.hardware.task_around_slower();
    case SearchFor::kJob:
      break;
  }
  return coordinator::search_task(m_.state);
}

Next Tuning::first_search_finished(const SearchReply& reply) {
  if (!reply.error.empty()) return fail(reply.error);
  TuningState& state = m_.state;
  state.initial = state.incumbent = reply.initial.plan;
  state.initial_predicted = state.incumbent_predicted = reply.initial.predicted;
  state.explanation = reply.explanation;
  // What has own knobs alone has no price, and no candidates before it is measured.
  if (!tries_own_knobs_alone(state.job)) warn_of(reply, m_.out);
  m_.trials.add_convergence(0);
  enter(Phase::kLaunching);
  launch_.launch(state.initial, "", true, 0);
  return {};
}

Next Tuning::launch_incumbent() {
  if (retuning_.profiles_first()) return retuning_.profile_anew();
  const bool fresh = m_.state.phase == Phase::kLaunching && m_.state.step == 0;
  launch_.launch(m_.state.incumbent, "", fresh, 0);
  return {};
}

// The launch has come to its first step.
Next Tuning::recovered() {
  auto restart = m_.activity.take<Restart>();
  launch_.runs();
  if (m_.state.phase == Phase::kLaunching) enter(Phase::kMeasuring);
  if (!m_.lost.empty()) {
    m_.activity.become(Doing::kWaitingForNodes);
    m_.out.changed = true;
    return {};
  }
  if (restart) return changes_.restarted(*std::move(restart));
  // A trial's launch whose trial is over by now: the coordinator or a node was away.
  return {m_.state.runs_trial() ? Next::kRollBack : Next::kSettle};
}

// Every rank runs the incumbent and nothing is under way: the phase goes on.
Next Tuning::settled() {
  const TuningState& state = m_.state;
  if (!state.hardware.other_hardware.empty() && steers_ranks(state.phase)) {
    retuning_.begin_measuring_anew();
    enter(Phase::kMeasuring);
  }
  m_.activity.become(Doing::kNothing);
  if (state.phase == Phase::kTraining) m_.overhead.leave_comparison(false);
  m_.out.changed = true;
  switch (state.phase) {
    case Phase::kMeasuring:
      return trying_.measure_initial();
    case Phase::kTrials:
      if (!state.has_trial()) return trying_.go_on();
      TRIMTAB_ASSERT(state.job.mode == JobMode::kApprove, "a trial that nobody approves is never left waiting");
      m_.activity.become(Doing::kAwaitingApproval);
      return {};
    case Phase::kComparing:
      return trying_.begin_comparison();
    case Phase::kTraining:
      retuning_.train_on();
      return {};
    default:
      return {};
  }
}

Progress Tuning::progress() const {
  const TuningState& state = m_.state;
  const auto* const measuring = m_.activity.get<Measuring>();
  const auto* const change = m_.activity.get<PlanChange>();
  switch (state.phase) {
    case Phase::kProfiling:
      return m_.profiling.progress();
    case Phase::kTrials:
      return {state.trials_made(), state.job.trials.max_trials, "trials"};
    case Phase::kComparing:
      if (measuring != nullptr) return {measuring->blocks.block(), 6, "blocks"};
      return {change != nullptr && change->then ? change->then->blocks.block() : 0, 6, "blocks"};
    case Phase::kUntuned:
      return {static_cast<std::int32_t>(state.untuned_losses.size()), static_cast<std::int32_t>(state.launch_steps),
              "untuned steps"};
    default:
      return {static_cast<std::int32_t>(state.step), static_cast<std::int32_t>(state.job.steps), "steps"};
  }
}

}  // namespace trimtab::coordinator
