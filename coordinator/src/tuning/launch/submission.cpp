// Launches that a scheduler carries out: what the machine does with how they fare. The ranks of such a launch end
// before anybody can say why; the launcher's word is waited for.

#include "tuning/launch/submission.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kInterruptions = 3;   // in a row that do not pass by themselves
constexpr std::int64_t kStepsOfHealth = 10;  // between two of them: they are not in a row

constexpr std::array<std::pair<SubmissionState, std::string_view>, 13> kNames{{
    {SubmissionState::kQueued, "queued"},
    {SubmissionState::kStarted, "started"},
    {SubmissionState::kCompleted, "completed"},
    {SubmissionState::kFailed, "failed"},
    {SubmissionState::kOutOfMemory, "out_of_memory"},
    {SubmissionState::kPreempted, "preempted"},
    {SubmissionState::kWalltime, "walltime"},
    {SubmissionState::kNodeFailed, "node_failed"},
    {SubmissionState::kRequeued, "requeued"},
    {SubmissionState::kCancelled, "cancelled"},
    {SubmissionState::kNotStarted, "not_started"},
    {SubmissionState::kNotSubmitted, "not_submitted"},
    {SubmissionState::kLost, "lost"},
}};

}  // namespace

std::string_view to_string(SubmissionState state) {
  return kNames[static_cast<std::size_t>(state)].second;
}

std::optional<SubmissionState> submission_state_named(std::string_view name) {
  const auto found = std::ranges::find_if(kNames, [name](const auto& one) { return one.second == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

bool passes(SubmissionState state) {
  return state == SubmissionState::kPreempted || state == SubmissionState::kWalltime ||
         state == SubmissionState::kNodeFailed || state == SubmissionState::kRequeued;
}

void Tuning::news(std::int32_t, const RankSubmission& submission) {
  if (state_.wants_no_ranks() || !state_.has_ranks()) return;
  switch (submission.state) {
    case SubmissionState::kQueued:
    case SubmissionState::kStarted:
      return submission_moved(submission);
    case SubmissionState::kCompleted:
      return all_ranks_ended();
    case SubmissionState::kFailed:
      return crashed(FailureReason::kCrash, submission.message + (first_end_.empty() ? "" : "; " + first_end_));
    case SubmissionState::kOutOfMemory:
      return crashed(FailureReason::kOutOfMemory, submission.message);
    default:
      return interrupted(submission);
  }
}

// The same state every few seconds is a sign of life, and told once.
void Tuning::submission_moved(const RankSubmission& submission) {
  if (restart_ && submission.state == SubmissionState::kStarted) restart_->queued = now_.monotonic;
  if (std::exchange(submission_told_, submission.message) != submission.message) out_.note("ranks", submission.message);
}

// What it means is said by its submission.
void Tuning::rank_of_submission_ended(std::int32_t rank, const RankExited& exited) {
  ended_.insert(rank);
  const bool clean = exited.exit_code == 0 && exited.signal == 0;
  if (!clean && first_end_.empty()) first_end_ = describe_end(rank, exited);
}

void Tuning::interrupted(const RankSubmission& submission) {
  const Reason reason = Reason::parsed(to_string(submission.state));
  // It had nothing left to train: its time and its work ended together.
  const bool trained = !state_.runs_trial() && state_.step > 0 && state_.remaining_steps() <= 1;
  if (trained) return all_ranks_ended();
  if (state_.phase == Phase::kUntuned || state_.phase == Phase::kStopping) return crashed(reason, submission.message);
  // What the job itself waits in a queue is no trial's cost.
  if (state_.is_about_trial()) overhead_.stand_still();
  if (state_.runs_trial()) return trial_launch_failed(reason, submission.message);
  if (state_.has_trial() && state_.doing != Doing::kAwaitingApproval) fail_trial(reason, submission.message, false);
  out_.note("warning", submission.message + "; the job is submitted again");
  if (state_.step >= std::exchange(state_.interrupted_step, state_.step) + kStepsOfHealth) state_.relaunches = 0;
  if (!passes(submission.state) && ++state_.relaunches > kInterruptions) {
    state_.failure = "the job's launches were interrupted " + std::to_string(state_.relaunches) +
                     " times in a row; last: " + submission.message;
    return kill_ranks(AfterKill::kFail);
  }
  kill_ranks(AfterKill::kRelaunch);
}

}  // namespace trimtab::coordinator
