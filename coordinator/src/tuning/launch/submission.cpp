// Launches that a scheduler carries out: what the machine does with how they fare. The ranks of such a launch end
// before anybody can say why; the launcher's word is waited for.

#include "tuning/launch/submission.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tuning/launch/launch.hpp"

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

Next Launch::handle(std::int32_t, const RankSubmission& submission) {
  if (m_.state.wants_no_ranks() || !m_.state.has_ranks()) return {};
  switch (submission.state) {
    case SubmissionState::kStarted:
      if (auto* const restart = m_.activity.get<Restart>()) restart->queued = m_.now.monotonic;
      [[fallthrough]];
    case SubmissionState::kQueued:
      // The same state every few seconds is a sign of life, and told once.
      if (std::exchange(submission_told_, submission.message) != submission.message) {
        m_.out.note("ranks", submission.message);
      }
      return {};
    case SubmissionState::kCompleted:
      return {Next::kRanksEnded};
    case SubmissionState::kFailed:
      return crashed(FailureReason::kCrash, submission.message + (first_end_.empty() ? "" : "; " + first_end_));
    case SubmissionState::kOutOfMemory:
      return crashed(FailureReason::kOutOfMemory, submission.message);
    default:
      return interrupted(submission);
  }
}

Next Launch::interrupted(const RankSubmission& submission) {
  const Reason reason = Reason::parsed(to_string(submission.state));
  // It had nothing left to train: its time and its work ended together.
  const bool trained = !m_.state.runs_trial() && m_.state.step > 0 && m_.state.remaining_steps() <= 1;
  if (trained) return {Next::kRanksEnded};
  if (m_.state.phase == Phase::kUntuned || m_.state.phase == Phase::kStopping)
    return crashed(reason, submission.message);
  // What the job itself waits in a queue is no trial's cost.
  if (m_.state.is_about_trial()) m_.overhead.stand_still();
  if (m_.state.runs_trial()) return {Next::kTrialLaunchFailed, submission.message, reason};
  if (m_.state.has_trial() && m_.state.doing != Doing::kAwaitingApproval)
    m_.fail_trial(reason, submission.message, false);
  m_.out.note("warning", submission.message + "; the job is submitted again");
  if (m_.state.step >= std::exchange(m_.state.interrupted_step, m_.state.step) + kStepsOfHealth)
    m_.state.relaunches = 0;
  if (!passes(submission.state) && ++m_.state.relaunches > kInterruptions) {
    m_.state.failure = "the job's launches were interrupted " + std::to_string(m_.state.relaunches) +
                       " times in a row; last: " + submission.message;
    return kill(AfterKill::kFail);
  }
  return kill(AfterKill::kRelaunch);
}

}  // namespace trimtab::coordinator
