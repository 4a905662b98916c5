#include "tuning/state.hpp"

#include <algorithm>

namespace trimtab::coordinator {
namespace {

// Losses of a run's first steps that are kept, however many are to be compared.
constexpr std::int32_t kLossesKept = 10'000;

}  // namespace

void TuningState::take(const JobStep& whole) {
  const bool is_new = losses.empty() || whole.step > losses.back().step;
  if (is_new && std::ssize(losses) < std::min(job.trials.loss_check_steps, kLossesKept)) {
    losses.push_back({whole.step, whole.loss, whole.samples});
  }
  step = whole.step;
  loss = whole.loss;
  step_ms = whole.wall_ms;
}

double TuningState::overhead_ms() const {
  double sum = forgotten.overhead_ms + spent.comparison_changes_ms + std::max(0.0, spent.comparison_excess_ms) +
               spent.growth_ms + hardware.looks_ms + hardware.measurings_ms;
  for (const Trial& trial : trials) sum += trial.overhead_ms();
  return sum;
}

double TuningState::job_ms(double pace_ms) const {
  return spent.trained_ms + static_cast<double>(std::max<std::int64_t>(job.steps - step, 0)) * pace_ms;
}

double TuningState::allowed_overhead_ms(double pace_ms) const {
  return job.trials.overhead * job_ms(pace_ms);
}

void TuningState::forget_measurements() {
  initial_measured = incumbent_measured = {};
  observations.clear();
  earlier_calibration_json = calibration_json;
  begin_trials_anew();
  trials_before_resize = trials_begun();
  comparisons_begun = 0;
  compared = retuned_compared = false;
  retuned_from = {};
  trials_before_tuning = trials_begun();
}

std::string TuningState::purpose() const {
  if (stop_asked) return "the job was asked to stop";
  if (doing == Doing::kRollingBack) return "back to the incumbent";
  if (has_trial()) return "trial " + std::to_string(trials.back().id);
  return "phase " + std::string(to_string(phase));
}

Job TuningState::running_job() const {
  Job running = job;
  running.world_size = world_size();
  return running;
}

std::vector<std::uint32_t> TuningState::ranks_of(const std::string& node) const {
  std::vector<std::uint32_t> found;
  for (const NodeShare& share : nodes) {
    if (share.node != node) continue;
    for (std::int32_t i = 0; i < share.ranks; ++i) found.push_back(static_cast<std::uint32_t>(share.first_rank + i));
  }
  return found;
}

std::string TuningState::node_of(std::int32_t rank) const {
  for (const NodeShare& share : nodes) {
    if (rank >= share.first_rank && rank < share.first_rank + share.ranks) return share.node;
  }
  return "";
}

bool TuningState::has_ranks() const {
  return steers_ranks(phase) || phase == Phase::kLaunching || phase == Phase::kStopping || phase == Phase::kUntuned;
}

bool TuningState::believes(double wall_ms) const {
  return wall_ms > 0 && wall_ms <= 2 * milliseconds(job.trials.deadline);
}

bool TuningState::ends() const {
  return stop_asked || (doing == Doing::kKilling && after_kill == AfterKill::kFail);
}

bool TuningState::is_about_trial() const {
  if (phase == Phase::kComparing) return true;
  if (phase != Phase::kTrials) return false;
  if (has_trial()) return doing != Doing::kAwaitingApproval;
  return doing == Doing::kRollingBack || doing == Doing::kLaunching;
}

}  // namespace trimtab::coordinator
