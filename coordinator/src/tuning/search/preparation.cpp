// From the job's arrival to the first search: nodes, model, costs.

#include <algorithm>
#include <utility>

#include "tuning/search/search_task.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// A batch of costs may arrive a little after the benchmark that measured it has ended.
constexpr Nanoseconds kCostsGrace = std::chrono::seconds(10);
}  // namespace

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
  state_.requests.clear();
  state_.request_sizes.clear();
  state_.request_next = 0;
  costs_since_ = Nanoseconds{0};
  out_.act(CountCosts{});
}

void Tuning::on(const CostsCounted& counted) {
  if (state_.phase != Phase::kProfiling) return;
  if (!counted.error.empty()) return cannot_profile(counted.error);
  state_.costs_missing = counted.missing;
  out_.changed = true;
  const bool first = state_.requests.empty();
  if (first && state_.costs_wanted == 0) {
    state_.costs_reused = counted.known;
    state_.costs_wanted = counted.missing;
  }
  if (counted.missing == 0) {
    hardware_.take_measured_speeds(counted.speeds);
    return profiled();
  }
  if (first) {
    state_.requests = counted.requests;
    state_.request_sizes = counted.request_sizes;
    out_.note("phase", std::to_string(counted.known) + " costs are known, " + std::to_string(counted.missing) +
                           " are to be measured");
    return next_benchmark();
  }
  if (now_.monotonic - costs_since_ < kCostsGrace) return;  // tick_profiling asks again
  if (counted.known == 0 && !benchmark_error_.empty()) {
    return cannot_profile("the job's benchmark command failed: " + benchmark_error_);
  }
  out_.note("warning", std::to_string(counted.missing) + " costs could not be measured: " + counted.missing_names);
  hardware_.take_measured_speeds(counted.speeds);
  profiled();
}

void Tuning::next_benchmark() {
  if (std::cmp_greater_equal(state_.request_next, state_.requests.size())) {
    costs_since_ = now_.monotonic;
    out_.act(CountCosts{});
    return;
  }
  moved_ = {};
  out_.changed = true;
  commands_.benchmark();
}

void Tuning::cannot_profile(const std::string& why) {
  if (!state_.profiles_anew()) return fail(why);
  out_.note("warning", "costs are not measured anew: " + why);
  profiled();
}

void Tuning::benchmarked(const CommandFinished& command) {
  if (state_.phase != Phase::kProfiling) return;
  if (!command.ok) {
    benchmark_error_ = command.error;
    out_.note("warning", "a benchmark failed: " + command.error);
  }
  if (state_.is_outstanding(CommandKind::kBenchmark)) return;
  ++state_.request_next;
  next_benchmark();
}

void Tuning::tick_profiling() {
  const bool waits_for_nodes = !lost_.empty() && now_.monotonic - lost_at_ > state_.job.trials.deadline;
  if (state_.profiles_anew() && waits_for_nodes) {
    out_.note("warning", "costs are not measured anew: a node is away");
    return leave_profiling_anew();
  }
  const bool waits_for_costs = !state_.requests.empty() && !state_.is_outstanding(CommandKind::kBenchmark) &&
                               std::cmp_greater_equal(state_.request_next, state_.requests.size());
  if (waits_for_costs) out_.act(CountCosts{});
}

void Tuning::profiled() {
  // Of the wall clock, so that a restart in between counts too; a clock that was set back must not give less than
  // nothing.
  state_.profiling_ns += std::max<std::int64_t>(now_.wall.count() - state_.phase_wall_ns, 0);
  state_.requests.clear();
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
