#include "tuning/trial/failure_reason.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace trimtab::coordinator {
namespace {

constexpr auto kWords = std::to_array<std::string_view>({"",
                                                         "out_of_memory",
                                                         "memory",
                                                         "refused",
                                                         "crash",
                                                         "hang",
                                                         "loss",
                                                         "resized",
                                                         "stopped",
                                                         "job ended",
                                                         "slower",
                                                         "gain too small",
                                                         "gain not sure",
                                                         "overhead",
                                                         "coordinator restarted",
                                                         "agent lost",
                                                         "frozen",
                                                         "kill_switch",
                                                         "agreement timeout",
                                                         "snapshot",
                                                         "superseded",
                                                         "unexpected plan",
                                                         "corrupt measurement",
                                                         "no measurement",
                                                         "clock",
                                                         "incumbent failed",
                                                         "withdrawn",
                                                         "not resumed",
                                                         "preempted",
                                                         "walltime",
                                                         "node_failed",
                                                         "requeued",
                                                         "cancelled",
                                                         "not_started",
                                                         "not_submitted",
                                                         "lost"});
static_assert(kWords.size() == static_cast<std::size_t>(FailureReason::kOther));

}  // namespace

Reason Reason::parsed(std::string_view text) {
  const auto found = std::ranges::find(kWords, text);
  Reason reason(static_cast<FailureReason>(found - kWords.begin()));
  if (found == kWords.end()) reason.other_ = text;
  return reason;
}

std::string Reason::text() const {
  return reason_ == FailureReason::kOther ? other_ : std::string(kWords[static_cast<std::size_t>(reason_)]);
}

bool is_blameless(FailureReason reason) {
  return reason >= FailureReason::kCoordinatorRestarted && reason <= FailureReason::kLost;
}

}  // namespace trimtab::coordinator
