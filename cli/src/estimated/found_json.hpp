#pragma once

// What `plan find` and `evaluate` answer, for machines. Each plan carries the question that `plan estimate` reads.
// Pure.

#include <string>

#include "estimated/found_text.hpp"

namespace trimtab::cli {

struct FoundCurve {
  std::vector<FoundPlans> points;
  std::size_t chosen = 0;
  Prices prices;
};

[[nodiscard]] std::string found_json(const FoundCurve& curve);
// Of one plan of the user's own.
[[nodiscard]] std::string evaluated_json(const Asked& asked, const estimates::Machine& machine,
                                         const estimates::PricedPlan& plan);

}  // namespace trimtab::cli
