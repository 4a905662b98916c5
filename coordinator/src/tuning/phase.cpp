#include "tuning/phase.hpp"

#include <array>
#include <cstddef>

namespace trimtab::coordinator {
namespace {

constexpr std::array<std::string_view, 14> kPhases = {"waiting",   "describing", "profiling", "searching", "launching",
                                                      "measuring", "trials",     "comparing", "training",  "stopping",
                                                      "untuned",   "finished",   "failed",    "stopped"};
constexpr std::array<std::string_view, 11> kDoings = {
    "nothing", "searching", "awaiting_approval", "changing_plan", "measuring", "rolling_back",
    "killing", "launching", "waiting_for_nodes", "probing",       "halted"};
constexpr std::array<std::string_view, 8> kTrialStates = {"proposed", "staged", "warming", "measuring",
                                                          "measured", "failed", "adopted", "rejected"};

template <typename Enum, std::size_t N>
std::optional<Enum> find(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Phase phase) {
  return kPhases[static_cast<std::size_t>(phase)];
}
std::string_view to_string(Doing doing) {
  return kDoings[static_cast<std::size_t>(doing)];
}
std::string_view to_string(TrialState state) {
  return kTrialStates[static_cast<std::size_t>(state)];
}

std::optional<Phase> phase_named(std::string_view name) {
  return find<Phase>(kPhases, name);
}
std::optional<Doing> doing_named(std::string_view name) {
  return find<Doing>(kDoings, name);
}
std::optional<TrialState> trial_state_named(std::string_view name) {
  return find<TrialState>(kTrialStates, name);
}

bool has_ended(TrialState state) {
  return state == TrialState::kFailed || state == TrialState::kAdopted || state == TrialState::kRejected;
}

bool is_final(Phase phase) {
  return phase == Phase::kFinished || phase == Phase::kFailed || phase == Phase::kStopped;
}

bool steers_ranks(Phase phase) {
  return phase == Phase::kMeasuring || phase == Phase::kTrials || phase == Phase::kComparing ||
         phase == Phase::kTraining;
}

}  // namespace trimtab::coordinator
