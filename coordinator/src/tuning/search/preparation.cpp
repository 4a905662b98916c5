// From the job's arrival to the first search: nodes, model, costs.

#include <algorithm>
#include <utility>

#include "tuning/search/search_task.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
void Tuning::on(const NodesReady& ready) {
  if (state_.phase != Phase::kWaiting) return;
  state_.nodes = ready.nodes;
  state_.cluster_json = ready.cluster_json;
  state_.fingerprint = ready.fingerprint;
  hardware_.find_other_hardware();
  describe();
}

void Tuning::describe() {
  if (!state_.job.model_json.empty()) {
    state_.model_json = state_.job.model_json;
    return profile();
  }
  enter(Phase::kDescribing);
  commands_.describe();
}

void Tuning::described(const CommandFinished& command) {
  if (state_.phase != Phase::kDescribing) return;
  if (!command.ok) return fail("the job's describe command failed: " + command.error);
  state_.model_json = command.output;
  profile();
}

void Tuning::profile() {
  enter(Phase::kProfiling);
  profiling_.begin();
}

void Tuning::on(const CostsCounted& counted) {
  if (state_.phase != Phase::kProfiling) return;
  switch (profiling_.take(counted)) {
    case Profiling::Next::kWait:
      return;
    case Profiling::Next::kBenchmark:
      return next_benchmark();
    case Profiling::Next::kFailed:
      return cannot_profile(profiling_.failure());
    case Profiling::Next::kDone:
      hardware_.take_measured_speeds(counted.speeds);
      return profiled();
  }
}

void Tuning::next_benchmark() {
  if (profiling_.next()) commands_.benchmark();
}

void Tuning::cannot_profile(const std::string& why) {
  if (!state_.profiles_anew()) return fail(why);
  out_.note("warning", "costs are not measured anew: " + why);
  profiled();
}

void Tuning::benchmarked(const CommandFinished& command) {
  if (state_.phase != Phase::kProfiling) return;
  profiling_.benchmarked(command);
  if (state_.is_outstanding(CommandKind::kBenchmark)) return;
  profiling_.advance();
  next_benchmark();
}

void Tuning::tick_profiling() {
  const bool waits_for_nodes = !lost_.empty() && now_.monotonic - lost_at_ > state_.job.trials.deadline;
  if (state_.profiles_anew() && waits_for_nodes) {
    out_.note("warning", "costs are not measured anew: a node is away");
    return leave_profiling_anew();
  }
  profiling_.tick();
}

void Tuning::profiled() {
  profiling_.end();
  if (state_.profiles_anew()) return profiled_anew();
  if (!state_.tune) return finish();
  enter(Phase::kSearching);
  request_search();
}

void Tuning::request_search() {
  trials_.update_observations();
  state_.doing = Doing::kSearching;
  out_.changed = true;
  searches_.ask(SearchFor::kJob, out_);
}

SearchTask Tuning::search_task() const {
  return coordinator::search_task(state_);
}

SearchTask Tuning::task_for(SearchFor purpose) const {
  switch (purpose) {
    case SearchFor::kSpare:
      return spare_task(state_);
    case SearchFor::kMoreNodes:
      return elastic_.growth_task();
    case SearchFor::kSlowerHardware:
      return hardware_.task_around_slower();
    case SearchFor::kJob:
      break;
  }
  return search_task();
}

void Tuning::first_search_finished(const SearchReply& reply) {
  if (!reply.error.empty()) return fail(reply.error);
  state_.initial = reply.initial.plan;
  state_.initial_predicted = reply.initial.predicted;
  state_.incumbent = state_.initial;
  state_.incumbent_predicted = state_.initial_predicted;
  state_.explanation = reply.explanation;
  if (!reply.initial.predicted.priced()) {
    out_.note("warning", "the initial plan is not priced: costs that it needs are missing");
  } else if (!reply.initial.predicted.feasible) {
    out_.note("warning", "the initial plan is predicted not to fit into memory");
  }
  if (reply.candidates.empty()) out_.note("warning", "the search found no plan that fits: " + reply.infeasible);
  trials_.add_convergence(0);
  enter(Phase::kLaunching);
  launch_ranks(state_.initial, "", true, 0);
}

}  // namespace trimtab::coordinator
