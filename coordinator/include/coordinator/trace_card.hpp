#pragma once

// The verdict card of a job that another profiler recorded (docs/card.md, "From a trace"). The card's own rules judge
// it. Pure. Single-threaded.

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/api/card.hpp"
#include "schema/traces/traced_rank.hpp"

namespace trimtab::coordinator {

class TraceCard {
 public:
  TraceCard();
  ~TraceCard();
  TraceCard(const TraceCard&) = delete;
  TraceCard& operator=(const TraceCard&) = delete;

  // Keeps what its steps were made of, some hundred bytes each, and not its kernels.
  void add(TracedRank rank);
  // `job`: how the card calls it. REQUIRES: a rank was added. Refused: two ranks of one number, ranks whose traces have
  // no step in common.
  [[nodiscard]] Result<api::Card> card(const std::string& job) const;

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace trimtab::coordinator
