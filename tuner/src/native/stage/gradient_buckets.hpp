#pragma once

// Buckets: a stage's replicas reduce the gradients of several operators at once, as Megatron-LM's and PyTorch's
// DistributedDataParallel do. Operators fill a bucket from the last one backwards until it has the asked-for bytes of
// parameters; no operator is divided. It is sent when its first operator's gradients are there. Where optimizer states
// are sharded, the same buckets bring the parameters back. Pure.

#include <cstdint>
#include <numeric>
#include <vector>

#include "native/stage/operator_price.hpp"

namespace trimtab::tuner {

struct GradientBucket {
  Range operators;        // from the first with parameters to the last
  double parameters = 0;  // bytes on a rank
  const SplitShape* split = nullptr;
};

// In the order in which they are sent; none over segments' borders. `shape` must outlive them.
[[nodiscard]] std::vector<GradientBucket> gradient_buckets(const CostTable::Tables& tables, const StageShape& shape);

// What a stage's buckets cost, by place of the operator that they are sent after, or whose forward pass needs them.
struct BucketPrices {
  std::vector<double> scatter;  // ms, after every backward
  std::vector<double> last;     // ms, after the last backward
  std::vector<double> copies;   // ms of that, over the copies of sharded states
  std::vector<double> after;    // ms, of parameters, after the optimizer
  // What each and a computation slow each other down by.
  std::vector<const CommunicationSlowdowns*> scatter_beside, last_beside, copies_beside, after_beside;
  double gradient_buffer = 0;  // bytes
  double mean = 0;             // ms, all of the above
  double error = 0;            // standard errors, added up
  bool complete = true;

  [[nodiscard]] bool empty() const { return last.empty(); }
  [[nodiscard]] double all_after() const { return std::accumulate(after.begin(), after.end(), 0.0); }
};

// Empty where the shape has none. `catalog` must outlive the prices.
void price_buckets(const CostTable::Tables& tables, const StageShape& shape, SplitCatalog& catalog,
                   BucketPrices& prices);

}  // namespace trimtab::tuner
