#include "pricing/stage_chain.hpp"

#include "pricing/evaluator.hpp"

namespace trimtab::tuner {

StageChain computing_chain(Evaluator& evaluator, std::int32_t microbatch) {
  const PlanSpace& space = evaluator.space();
  const Model& model = evaluator.model();
  StageChain chain;
  chain.limit = std::numeric_limits<double>::infinity();
  std::vector<std::span<const double>> sums;
  for (const Split& split : space.splits(model, microbatch, space.devices)) {
    if (split.sharded != ShardedLevel::kNone) continue;
    const std::span<const double> of = evaluator.computing_sums(microbatch, split);
    if (of.empty()) continue;
    sums.push_back(of);
    chain.splits.push_back(split);
  }
  const double copies = 1 + model.gradient_bytes_per_parameter_byte + model.optimizer_bytes_per_parameter_byte;
  for (std::int32_t n = 0; n < space.operators; ++n) {
    const double bytes = copies * static_cast<double>(model.operators[n].parameter_bytes);
    for (std::size_t j = 0; j < sums.size(); ++j) {
      chain.node.push_back(sums[j][n + 1] - sums[j][n]);
      chain.memory.push_back(bytes / chain.splits[j].tp);
    }
  }
  chain.edge.assign(chain.node.size() * sums.size(), 0);
  chain.buffer.assign(sums.size(), 0);
  return chain;
}

}  // namespace trimtab::tuner
