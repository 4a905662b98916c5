#pragma once

// What ranks spent in their operators' passes, and where the rest of their steps went, by plan: means over the steps
// that they told of. Bounded by the plans of a launch; forgotten with them. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schema/plan.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

class PassTimes {
 public:
  // A step of one of so many ranks.
  void add(const std::string& plan_hash, std::int32_t rank, std::int32_t world_size, double ms);
  // Where a step of that rank went.
  void add_terms(const std::string& plan_hash, std::int32_t rank, std::int32_t world_size, const StepTerms& terms,
                 const TermParts& parts);
  // What is known of the plan, written into what was measured of it: terms by stage.
  void tell(MeasuredPlan& plan) const;
  void clear() { plans_.clear(); }

 private:
  struct Ranks {
    std::vector<double> sum_ms;
    std::vector<std::int32_t> steps;
    std::vector<StepTerms> sum_of_terms;
    std::vector<std::int32_t> steps_with_terms;
    std::vector<MeanParts> parts;
  };
  std::map<std::string, Ranks> plans_;
};

// The terms of each stage: the mean of those of its devices' ranks that told of them; of no time = none did, or its
// devices have other stages, too. Empty where nobody did.
[[nodiscard]] std::vector<StepTerms> stage_terms(const Plan& plan, const std::vector<StepTerms>& by_rank);
// Their parts, of the same ranks. Empty where nobody told any.
[[nodiscard]] std::vector<TermParts> stage_parts(const Plan& plan, const std::vector<StepTerms>& by_rank,
                                                 const std::vector<TermParts>& parts);

}  // namespace trimtab::coordinator
