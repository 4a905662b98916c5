#pragma once

// Search for the fastest plan that fits. A strategy is one file in tuner/src/strategies; `strategies()` is the table.
// Deterministic for a seed and an evaluation budget. Pure: time budgets and cancellation come in as `stop`.

#include <functional>

#include "schema/job.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

// What single strategies can be told, and no other. Plain values.
struct AcesoOptions {
  int max_hops = 7;             // primitives in a row before it backtracks
  bool use_heuristic_2 = true;  // false tries resources and primitives in random order (ablation)
};

struct H3tOptions {
  std::string solver = "exact";       // one of h3t_solvers()
  bool free_synchronization = false;  // then tries layers that do not synchronize; its bound ends there
};
// "exact", and the paper's own: "program", "greedy", "random".
[[nodiscard]] std::vector<std::string_view> h3t_solvers();

struct OasesOptions {
  // Most tensor-parallel degrees, each on operators in a row; the space has plans with more, so that nothing is proven.
  // 0 = any, anywhere.
  std::int32_t degrees = 0;
};

struct UnifiedOptions {
  // Prices every plan where there are at most so many ways to cut, place and split; 0 = never.
  double enumerated_ways = 6000;
  bool stage_program = true;  // solves stages again operator by operator; false to see what that is worth
};

struct SearchOptions {
  std::string strategy = "aceso";  // one of strategies()
  // Another one that searches before it with the whole budget. The strategy goes on from there with what that one
  // leaves, and what both find is kept: so the answer is no worse than that one's alone. Empty = none.
  std::string first;
  std::string space = "job";  // what may vary, one of plan_spaces()
  std::string target;         // one of targets() (schema/target.hpp): its plans alone; empty = any
  std::uint64_t seed = 1;
  std::uint64_t max_evaluations = 0;  // 0 = unlimited
  std::function<bool()> stop;         // asked often; true ends the search with the best so far
  // The share of the time that is gone, from 0 to 1, where `stop` is a deadline. With it, or with max_evaluations,
  // `unified` gives each of the planners that it asks a seventh of the budget, as if alone: with seven times what any
  // other strategy is given, it is no worse. Without either, they run until they end by themselves.
  std::function<double()> spent;
  std::optional<Plan> start;  // the incumbent, for a warm start
  bool remedies = true;       // where no plan fits, looks for what would help: some twenty short searches
  bool idle_devices = false;  // plans may leave the last devices idle; `exhaustive` alone makes such
  bool live = false;          // with `target` and `start`: what ranks under `start` can change to as they train
  std::size_t plans = 10;     // how many to return
  double distinct = 0;  // of plans that differ in recompute alone, by less than this share of time, keep the fastest
  std::size_t of_a_shape = 0;  // of plans of one shape (shape_of) keep so many, the fastest; 0 = all
  std::vector<std::string>
      without;  // families of knobs left out of the space: "recompute", "tensor_parallel", "sharded",
                // "mixed_splits", "sliced_microbatches", "sub_batches", "memory_switches"
  std::vector<std::string> excluded;  // semantic hashes of plans known to fail: never returned
  // Of single strategies. `unified` hands them on to those that it asks.
  AcesoOptions aceso;
  H3tOptions h3t;
  OasesOptions oases;
  UnifiedOptions unified;
};

// One primitive of an iteration's chain.
struct SearchHop {
  std::string bottleneck;  // that it relieves: "stage 1 computation"
  std::string primitive;
  std::int32_t tried = 0;  // applications that were priced here
  double ms = 0;           // of the plan that it leads to
  double excess_bytes = 0;
};

// One iteration of a strategy, for --explain. An iteration that found nothing better has no primitive.
struct SearchStep {
  std::uint64_t evaluations = 0;
  std::int32_t stages = 0;
  std::string bottleneck;  // "stage 1 computation"
  std::string primitive;   // "dec-op# stage 1 (2) + inc-op# stage 0, inc-rc stage 0 (1)"
  double before_ms = 0;
  double after_ms = 0;
  double before_excess_bytes = 0;  // of the stage furthest over its memory
  double after_excess_bytes = 0;
  std::vector<SearchHop> hops = {};
};

struct SearchOutcome {
  SearchResult result;  // all of its plans fit; none where none was found: `infeasible` then says why, what would help
                        // and, of a search that its budget ended, that there may be some
  std::vector<SearchStep> trace;
  std::string infeasible;
};

// Fails on an unknown strategy (naming the known ones), where a strategy has no meaning for the space, and on costs so
// incomplete that no plan can be priced (naming what is missing).
[[nodiscard]] Result<SearchOutcome> search(const CostModel& cost_model, const Knobs& knobs,
                                           const SearchOptions& options);

[[nodiscard]] std::vector<std::string_view> strategies();
// "job", what the job's knobs allow; "aceso", the space of that paper's published search; "aceso-recompute" and
// "aceso-mixed", the same with recompute chosen freely, or with splits that change inside a stage; "aceso-free", with
// both; "autopipe", stages of equal devices and splits, microbatches sliced, and "autopipe-whole", none sliced;
// "galvatron", that paper's decision trees, "galvatron-mixed", with replicas of shards; "oases", one stage that splits
// each operator as it likes; "all", everything that the native model prices.
[[nodiscard]] std::vector<std::string_view> plan_spaces();

// Words and numbers: the bottleneck that the best plan removed, what it trades, the runner-up and the gap.
[[nodiscard]] std::string explain(const SearchOutcome& outcome, const Model& model);

// The iterations that found something better, hop by hop (Aceso, figure 6): bottleneck, how many applications were
// priced, the primitive taken and where it led.
[[nodiscard]] std::string explain_iterations(const std::vector<SearchStep>& trace);

}  // namespace trimtab::tuner
