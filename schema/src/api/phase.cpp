#include "schema/api/phase.hpp"

#include <array>

namespace trimtab {
namespace {

constexpr std::array<std::string_view, 14> kPhases = {"waiting",   "describing", "profiling", "searching", "launching",
                                                      "measuring", "trials",     "comparing", "training",  "stopping",
                                                      "untuned",   "finished",   "failed",    "stopped"};
constexpr std::array<std::string_view, 11> kDoings = {
    "nothing", "searching", "awaiting_approval", "changing_plan", "measuring", "rolling_back",
    "killing", "launching", "waiting_for_nodes", "probing",       "halted"};
constexpr std::array<std::string_view, 8> kTrialStates = {"proposed", "staged", "warming", "measuring",
                                                          "measured", "failed", "adopted", "rejected"};

template <typename Enum>
std::optional<Enum> find(std::string_view name) {
  const auto names = words_of(Enum{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::span<const std::string_view> words_of(Phase) {
  return kPhases;
}
std::span<const std::string_view> words_of(Doing) {
  return kDoings;
}
std::span<const std::string_view> words_of(TrialState) {
  return kTrialStates;
}

std::optional<Phase> phase_named(std::string_view name) {
  return find<Phase>(name);
}
std::optional<Doing> doing_named(std::string_view name) {
  return find<Doing>(name);
}
std::optional<TrialState> trial_state_named(std::string_view name) {
  return find<TrialState>(name);
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

}  // namespace trimtab
