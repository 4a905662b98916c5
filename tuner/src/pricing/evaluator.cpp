#include "pricing/evaluator.hpp"

#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner {

std::unique_ptr<unified::StagePricer> Evaluator::stage_pricer(std::int32_t /*microbatch*/) {
  return nullptr;
}

std::unique_ptr<unified::StagePricer> Evaluator::floor_pricer(std::int32_t /*microbatch*/) {
  return nullptr;
}

}  // namespace trimtab::tuner
