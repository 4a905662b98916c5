#include "outcome/bucket_sizes.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "plan/plan_rules.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kPlans = 4;  // that get other sizes
constexpr std::size_t kSizes = 8;
constexpr Bytes kLeast = Bytes{1} << 20;  // PyTorch's first bucket, whatever the size says
constexpr double kSame = 1.42;            // sizes nearer than this factor are not told apart

struct Sized {
  Plan plan;
  double ms = 0;
};

Plan with_size(Plan plan, std::int64_t bytes) {
  plan.target_knobs[kBucketBytes] = std::to_string(bytes);
  return plan;
}

// One for each way to fill buckets: sizes that fill the same ones cost the same.
std::vector<Sized> sized(const CostModel& cost_model, const Plan& usual, const std::vector<std::int64_t>& sizes) {
  std::vector<Sized> made;
  std::set<double> seen{cost_model.evaluate(usual).iteration_ms};
  for (const std::int64_t bytes : sizes) {
    Plan plan = with_size(usual, bytes);
    const Prediction prediction = cost_model.evaluate(plan);
    const bool counts = prediction.feasible && prediction.missing_costs.empty();
    if (counts && seen.insert(prediction.iteration_ms).second)
      made.push_back({std::move(plan), prediction.iteration_ms});
  }
  return made;
}

// The best, and where `beside` those before and behind it.
void append_best(const std::vector<Sized>& made, bool beside, std::vector<Plan>& plans) {
  const auto best = std::ranges::min_element(made, [](const auto& a, const auto& b) { return a.ms < b.ms; });
  if (best == made.end()) return;
  plans.push_back(best->plan);
  if (beside && best != made.begin()) plans.push_back(std::prev(best)->plan);
  if (beside && std::next(best) != made.end()) plans.push_back(std::next(best)->plan);
}

}  // namespace

std::vector<std::int64_t> bucket_sizes(Bytes parameters, std::int64_t usual) {
  std::vector<std::int64_t> sizes;
  for (Bytes bytes = parameters; bytes >= kLeast && sizes.size() < kSizes; bytes = (bytes + 1) / 2) {
    const bool all_in_one = bytes == parameters && parameters <= usual;  // so has the target's own size
    const double ratio = static_cast<double>(bytes) / static_cast<double>(usual);
    if (!all_in_one && (ratio >= kSame || ratio <= 1 / kSame)) sizes.push_back(bytes);
  }
  std::ranges::reverse(sizes);
  return sizes;
}

std::vector<Plan> with_bucket_sizes(const CostModel& cost_model, const std::vector<Plan>& plans, std::int64_t usual,
                                    const std::vector<std::string>& excluded) {
  Bytes parameters = 0;
  for (const Operator& one : cost_model.model().operators) parameters += one.parameter_bytes;
  const std::vector<std::int64_t> sizes = bucket_sizes(parameters, usual);
  std::vector<Plan> all;
  std::size_t looked_at = 0;
  for (const Plan& plan : plans) {
    const bool says = bucket_bytes_of(plan) > 0;  // the incumbent, which comes as it is
    all.push_back(says ? plan : with_size(plan, usual));
    if (looked_at < kPlans) append_best(sized(cost_model, with_size(plan, usual), sizes), looked_at == 0, all);
    ++looked_at;
  }
  std::set<std::string> hashes(excluded.begin(), excluded.end());
  std::erase_if(all, [&hashes](const Plan& plan) { return !hashes.insert(semantic_hash(plan)).second; });
  return all;
}

}  // namespace trimtab::tuner
