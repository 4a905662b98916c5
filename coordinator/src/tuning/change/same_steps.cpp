#include "tuning/change/same_steps.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/numbers.hpp"
#include "tuning/trial/blocks.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {
namespace {

double relative(double loss, double of) {
  return (loss - of) / std::max(std::abs(of), 1e-12);
}

}  // namespace

void SameSteps::incumbent(std::uint64_t launch, std::int64_t step, double loss) {
  if (first_launch_ == 0) first_launch_ = launch;
  if (launch == first_launch_) {
    incumbent_[step] = loss;
  } else if (const auto known = incumbent_.find(step); known != incumbent_.end()) {
    rerun_ = std::max(rerun_, std::abs(relative(loss, known->second)));
  }
}

std::string SameSteps::why() const {
  std::vector<double> differences;
  for (const auto& [step, loss] : candidate_) {
    const auto known = incumbent_.find(step);
    if (known != incumbent_.end()) differences.push_back(relative(loss, known->second));
  }
  if (differences.size() < kLeast) return "";
  const bool is_drawn = change_class_ == "statistical";
  const Scatter scatter(differences);
  const double drawn = is_drawn ? kStatistical * std::sqrt(scatter.squares / scatter.degrees() / scatter.count) : 0;
  const double allowed = std::max({change_class_ == "exact" ? kExact : kRounding, kRerun * rerun_, drawn});
  const double difference = is_drawn ? scatter.mean : median(differences);
  if (std::abs(difference) <= allowed) return "";
  return "over the same " + std::to_string(differences.size()) + " steps its loss was " +
         format_percent(std::abs(difference)) + (difference > 0 ? " higher" : " lower") +
         " than the incumbent's, more than a change of class \"" + change_class_ + "\" may do (" +
         format_percent(allowed) + ")";
}

}  // namespace trimtab::coordinator
