#pragma once

// What holds of every card that is made of traces, whoever recorded them.

#include <cmath>

#include "base/check.hpp"
#include "coordinator/trace_card.hpp"
#include "target.hpp"

namespace trimtab::fuzz {

// Shares are of one whole.
inline void check_shares(const api::CardShares& shares) {
  double sum = 0;
  for (const double share : {shares.computation, shares.exposed_communication, shares.launch_bound, shares.data,
                             shares.idle, shares.other}) {
    TRIMTAB_ASSERT(std::isfinite(share) && share >= 0, "a share is a number of at least 0");
    sum += share;
  }
  TRIMTAB_ASSERT(sum < 1.001, "shares of a step add up to 1 at most");
}

// A card that is made of them is written and read again.
inline void check_card(coordinator::TraceCard& traces) {
  const auto card = traces.card("fuzzed");
  if (!judge(card)) return;
  check_shares(card->shares);
  TRIMTAB_ASSERT(api::parse<api::Card>(api::to_json(*card), "card.json").ok(), "a card that was written is read");
}

}  // namespace trimtab::fuzz
