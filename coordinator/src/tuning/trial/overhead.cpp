#include "tuning/trial/overhead.hpp"

#include <algorithm>

#include "tuning/view.hpp"

namespace trimtab::coordinator {

// Where the job's time goes to that tuning takes now; null = nowhere.
double* Overhead::excess_ms() {
  if (view_.state.phase == Phase::kComparing || leaves_comparison_) return &spent_.comparison_excess_ms;
  return view_.state.phase == Phase::kTrials && !trials_.empty() ? &trials_.back().excess_ms : nullptr;
}

bool Overhead::add_block_step(const JobStep& step, const Interleaving& blocks) {
  const TuningState& state = view_.state;
  const bool comparing = state.phase == Phase::kComparing;
  double* const excess = excess_ms();
  if (excess == nullptr || (!comparing && !state.has_trial())) return false;
  const bool incumbents = blocks.second_is_next() == comparing;
  if (incumbents && !blocks.warming() && !state.runs_trial()) return false;
  const double beyond_ms = step.wall_ms - (state.runs_trial() ? 0 : state.incumbent_measured.mean_ms);
  *excess += beyond_ms;
  if (incumbents && !comparing && blocks.warming()) learn_change(last_change_ms_ + std::max(0.0, beyond_ms));
  return beyond_ms > 0;
}

void Overhead::add_step_between(const JobStep& step) {
  const TuningState& state = view_.state;
  const std::string* const plan = state.hash_of(step.epoch);
  double* const excess = excess_ms();
  if (state.runs_trial() || excess == nullptr || plan == nullptr || !state.believes(step.wall_ms)) return;
  const bool incumbents = *plan == state.incumbent.hash;
  if (incumbents && way_back_steps_ <= 0) return;
  if (incumbents) --way_back_steps_;
  *excess += step.wall_ms - state.incumbent_measured.mean_ms;
}

void Overhead::add_training(const JobStep& step) {
  const double usual_ms = view_.state.incumbent_measured.mean_ms;
  const auto untold = static_cast<double>(std::max<std::int64_t>(step.step - view_.state.step - 1, 0));
  spent_.trained_ms += (view_.state.believes(step.wall_ms) ? step.wall_ms : usual_ms) + untold * usual_ms;
}

void Overhead::add_lost_steps(std::int64_t first) {
  const std::int64_t lost = view_.state.step - first + 1;
  if (lost <= 0 || !(trial_lost_steps_ || grows_ || view_.state.phase == Phase::kComparing)) return;
  const double usual_ms = view_.state.incumbent_measured.mean_ms;
  add_change(static_cast<double>(lost) * (usual_ms > 0 ? usual_ms : view_.state.step_ms));
}

void Overhead::add_change(double ms) {
  if (grows_) {
    spent_.growth_ms += ms;
  } else if (view_.state.phase == Phase::kComparing || leaves_comparison_) {
    spent_.comparison_changes_ms += ms;
  } else if (view_.state.phase == Phase::kTrials && !trials_.empty()) {
    trials_.back().changes_ms += ms;
  }
}

void Overhead::learn_change(double ms) {
  last_change_ms_ = ms;
  spent_.dearest_change_ms = std::max(spent_.dearest_change_ms, ms);
}

void Overhead::stand_still() {
  if (!idle_since_) idle_since_ = view_.now.monotonic;
}

// Their first step is the job's own, or was counted among the lost ones.
void Overhead::run_again() {
  if (idle_since_) {
    const TuningState& state = view_.state;
    const double own_ms = state.runs_trial() ? 0 : std::min(state.step_ms, state.incumbent_measured.mean_ms);
    add_change(std::max(0.0, milliseconds(view_.now.monotonic - *idle_since_) - own_ms));
  }
  idle_since_.reset();
  grows_ = false;
}

void Overhead::begin_growth() {
  grows_ = true;
  stand_still();
}

void Overhead::begin_anew() {
  idle_since_.reset();
  grows_ = leaves_comparison_ = false;
}

}  // namespace trimtab::coordinator
