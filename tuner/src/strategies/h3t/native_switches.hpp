#pragma once

// H3T's switches on the native model's own terms: stages' times, host links, reserve and process are the native ones,
// and so is the price of the result. For every microbatch, one stage of replicas and pipelines that are cut evenly
// between layers; in each stage the best switches for the microbatches that it holds. Nothing is proven over shapes.

#include "native_evaluator.hpp"
#include "strategies/strategy.hpp"

namespace trimtab::tuner::h3t {

StrategyEnd search_natively(SearchRun& run, NativeEvaluator& evaluator);

}  // namespace trimtab::tuner::h3t
