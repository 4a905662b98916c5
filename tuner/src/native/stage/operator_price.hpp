#pragma once

// What one group of operators costs in a segment of one split: computing and memory from the tables, and the
// collectives that data parallelism and its sharding need. Priced once per split, for all groups. One owner; not
// thread-safe.
//
// Sharding levels (ZeRO, Rajbhandari et al. 2020), over D of the dp replicas, dp / D copies (context-parallel ranks
// hold the same parameters too: below, dp and D each stand for cp times as many ranks):
//   none        the last microbatch all-reduces gradients over dp
//   optimizer   the last microbatch reduce-scatters gradients over D and all-reduces the shards over the copies; after
//               the optimizer step parameters are all-gathered over D
//   gradients   every microbatch reduce-scatters over D; the rest as above
//   parameters  the same, and parameters are all-gathered over D before each pass of each microbatch, one operator
//               ahead, instead of after the optimizer step
// Two facts of the target change that (docs/protocols.md, `target_knobs`): without `parameter_prefetch` an operator's
// parameters are gathered when it begins. With whole gradients accumulated, the last microbatch alone reduce-scatters;
// what one backward pass has gathered stays for all (it is counted in the last).

#include <numeric>

#include "native/costs/communication_slowdowns.hpp"
#include "native/costs/tables.hpp"
#include "native/stage/stage_shape.hpp"

namespace trimtab::tuner {

struct OperatorPrice {
  // Milliseconds of one microbatch.
  double forward = 0;
  double backward = 0;
  // Of either pass, on the link that the replicas use too: what they send then waits, unless the two were measured at
  // once.
  double on_link = 0;
  double gather = 0;   // of parameters, before either pass
  double scatter = 0;  // of gradients, after every backward
  // ms^2, of one replica's pass of one microbatch; 0 without other replicas.
  double forward_variance = 0;
  double backward_variance = 0;
  // Milliseconds of a step.
  double last = 0;    // of gradients, after the last backward
  double copies = 0;  // of that, over the copies of sharded states
  double after = 0;   // of parameters, after the optimizer
  double optimizer = 0;
  Launches launches;  // of the host
  // Bytes on a rank.
  double stored = 0;
  double working = 0;
  double forward_reserve = 0;
  double backward_reserve = 0;
  double states = 0;
  double gradient_buffer = 0;  // a whole gradient on its way
  double gathered = 0;         // whole parameters, where they are sharded
  double output = 0;           // of one microbatch
  double whole = 0;            // what whole gradients and parameters take beyond their shards
  bool complete = true;        // no cost is missing
  // Of the tensor-parallel ranks: one all-reduce of the output, or what stands for it where they share sequences,
  // contained in both passes `reduces` times.
  bool reduce_missing = false;
  std::int32_t reduces = 0;
  double reduce = 0;         // ms of one microbatch
  double least_forward = 0;  // of the passes, what is no all-reduce at least (OperatorCosts)
  double least_backward = 0;
  double link_error = 0;  // standard errors of all collectives, added up
  // What runs at once slows each other down by these. Never null but for `sums`.
  ComputationKind kind = ComputationKind::kUnknown;
  const CommunicationSlowdowns* gather_beside = &kNoSlowdowns;
  const CommunicationSlowdowns* scatter_beside = &kNoSlowdowns;
  const CommunicationSlowdowns* last_beside = &kNoSlowdowns;
  const CommunicationSlowdowns* copies_beside = &kNoSlowdowns;
  SumWork sums;  // of what `reduce` is

  // The passes with their all-reduces taken out: never more than they contain.
  [[nodiscard]] double forward_computing() const { return std::max(least_forward, forward - reduces * reduce); }
  [[nodiscard]] double backward_computing() const { return std::max(least_backward, backward - reduces * reduce); }
  [[nodiscard]] double forward_reducing() const { return forward - forward_computing(); }
  [[nodiscard]] double backward_reducing() const { return backward - backward_computing(); }
  [[nodiscard]] bool slows_down() const {
    const auto none = [](const CommunicationSlowdowns* of) { return of == nullptr || of == &kNoSlowdowns; };
    return !none(gather_beside) || !none(scatter_beside) || !none(last_beside) || !none(copies_beside) ||
           !none(sums.sums[0]) || !none(sums.sums[1]);
  }
};

// What a rank holds for one byte of its parameters: parameters, gradients and optimizer states; and what whole
// gradients and parameters take beyond their shards.
[[nodiscard]] double states_per_byte(const CostTable::Tables& tables, const SplitShape& shape);
[[nodiscard]] double whole_per_byte(const CostTable::Tables& tables, const SplitShape& shape);

struct SplitPrices {
  SplitShape shape;
  bool alternate = false;
  const OperatorTable* table = nullptr;
  std::unique_ptr<OperatorTable> sharing;  // `table` of ranks that share sequences: costs by group alone
  std::vector<OperatorPrice> of_group;
  double slowest = 0;  // expected maximum over the replicas (stragglers.hpp); 0 where no cost has a spread
};

// One collective that a group's operators cause.
struct CollectiveUse {
  Primitive primitive = Primitive::kAllReduce;
  std::int64_t bytes = 0;
  std::int32_t group_size = 1;
  Route route;
};

// The collectives of one group in the order gather, scatter, last (two), after; group_size 1 where there is none.
struct CollectiveUses {
  CollectiveUse gather, scatter, last, last_copies, after;
};
[[nodiscard]] CollectiveUses collective_uses(const CostTable::Tables& tables, const SplitShape& shape,
                                             double parameter_bytes);

[[nodiscard]] CollectiveUse tensor_use(const CostTable::Tables& tables, const SplitShape& shape, std::int32_t group);

class SplitCatalog {
 public:
  explicit SplitCatalog(const CostTable::Tables& tables) : tables_(&tables), slowdowns_(tables.overlaps) {}
  // Valid as long as the catalog.
  const SplitPrices& prices(const SplitShape& shape, bool alternate);
  // Valid as long as the catalog.
  const CommunicationSlowdowns* slowdowns(const CollectiveUse& use) {
    return slowdowns_.of(use.primitive, use.bytes, use.group_size, use.route.placement);
  }

 private:
  const CostTable::Tables* tables_;
  SlowdownCatalog slowdowns_;
  std::deque<SplitPrices> known_;
};

// What moves between two neighbouring operators of one stage that are split in different ways. Pure.
//
// Between operators a tensor is whole on every rank of a replica. Fewer, wider replicas after the boundary: each rank
// all-gathers the samples that it lacks in the forward pass, and its gradient only needs to be cut in the backward
// pass; more, narrower ones: the other way around. Where neither count of replicas divides the other, all ranks
// exchange in an all-to-all in both passes. An operator on its second choice has its input or its output split over tp
// where its neighbour has it whole: one all-gather over tp, priced in the backward pass.
struct LayoutChange {
  CollectiveUse forward;  // group_size 1 = nothing moves
  CollectiveUse backward;
};

// `bytes_per_sample` is the tensor at the boundary.
[[nodiscard]] LayoutChange layout_change(const SplitShape& before, bool before_alternate, const SplitShape& after,
                                         bool after_alternate, double bytes_per_sample);

// Both passes, not calibrated; infinite where a cost is missing.
[[nodiscard]] double change_ms(const LinkCosts& links, const LayoutChange& change);

// Buckets: a stage's replicas reduce the gradients of several operators at once, as Megatron-LM's and PyTorch's
// DistributedDataParallel do. Operators fill a bucket from the last one backwards until it has the asked-for bytes of
// parameters; no operator is divided. It is sent when its first operator's gradients are there. Where optimizer states
// are sharded, the same buckets bring the parameters back. Pure.
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
