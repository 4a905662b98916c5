#pragma once

// What `plan find` answers: a table of plans, why the first is first, and what would help where nothing fits. Pure.

#include <optional>
#include <string>
#include <vector>

#include "estimated/estimate_text.hpp"

namespace trimtab::cli {

// What a GPU costs and draws, where somebody asks.
struct Prices {
  std::optional<double> price_per_hour;  // of one GPU, in the user's currency
  double watts = 0;                      // of one GPU
  bool watts_stated = false;             // else the data sheet's most; 0 where it is not known
};

struct FoundPlans {
  const Asked& asked;
  const estimates::Machine& machine;
  const estimates::FindOptions& options;
  const estimates::Found& found;
  std::size_t shown = 10;  // rows of the table
};

// The best plan of each split (tp, pp, cp, dp), in their order, up to `shown`.
[[nodiscard]] std::vector<const estimates::PricedPlan*> shown_plans(const FoundPlans& plans);

[[nodiscard]] std::string found_text(const FoundPlans& plans, const Prices& prices);
// Where nothing fits.
[[nodiscard]] std::string nothing_fits_text(const FoundPlans& plans, const std::vector<estimates::Remedy>& remedies);

// For a billion tokens, on all devices that the machine has.
[[nodiscard]] double price_of(const estimates::Machine& machine, const estimates::Estimate& estimate,
                              const Asked& asked, double price_per_hour);
[[nodiscard]] double kilowatt_hours_of(const estimates::Machine& machine, const estimates::Estimate& estimate,
                                       const Asked& asked, double watts);

enum class Objective { kTime, kCost, kEnergy };
struct CurvePoint {
  const estimates::Machine* machine;
  const estimates::PricedPlan* best;  // null where nothing fits
};
// A row for each number of GPUs; `chosen` is marked.
[[nodiscard]] std::string curve_text(const Asked& asked, const std::vector<CurvePoint>& points, std::size_t chosen,
                                     const Prices& prices, Objective objective);

}  // namespace trimtab::cli
