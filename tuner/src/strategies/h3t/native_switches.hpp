#pragma once

// H3T's switches on the native model's own terms: stages' times, host links, reserve and process are the native ones,
// and so is the price of the result. For every microbatch, stages of replicas cut evenly between layers: as few as the
// space has (one, where replicas may be as many as there are devices), twice, four times as many and so on; in each the
// best switches for the microbatches that it holds. Nothing is proven over shapes.

#include "native/step/native_evaluator.hpp"
#include "search/strategy.hpp"

namespace trimtab::tuner::h3t {

StrategyEnd search_natively(SearchRun& run, NativeEvaluator& evaluator);

}  // namespace trimtab::tuner::h3t
