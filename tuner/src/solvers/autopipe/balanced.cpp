#include "solvers/autopipe/balanced.hpp"

namespace trimtab::tuner::autopipe {

Balanced::Balanced(const Partitions& partitions) : partitions_(partitions) {
  const auto row = static_cast<std::size_t>(partitions.blocks()) + 1;
  least_.assign((static_cast<std::size_t>(partitions.stages()) + 1) * row, kNever);
  least_[0] = 0;
  for (std::int32_t stages = 1; stages <= partitions.stages(); ++stages) {
    double* const best = least_.data() + static_cast<std::size_t>(stages) * row;
    for (std::int32_t blocks = stages; blocks <= partitions.blocks(); ++blocks) {
      // From the smallest last stage on; once it alone is heavier than the best, so is every larger one.
      for (std::int32_t begin = blocks - 1; begin >= stages - 1; --begin) {
        if (partitions.work(begin, blocks) >= best[blocks]) break;
        if (!partitions.fits(stages - 1, begin, blocks)) break;
        best[blocks] = std::min(best[blocks], with_last(blocks, stages, begin));
      }
    }
  }
}

double Balanced::with_last(std::int32_t blocks, std::int32_t stages, std::int32_t begin) const {
  return std::max(heaviest(begin, stages - 1), partitions_.work(begin, blocks));
}

Ends Balanced::ends(std::int32_t blocks, std::int32_t stages) const {
  Ends ends(static_cast<std::size_t>(stages));
  for (; stages > 0; --stages) {
    ends[stages - 1] = blocks;
    const double least = heaviest(blocks, stages);
    std::int32_t begin = stages - 1;
    while (!partitions_.fits(stages - 1, begin, blocks) || with_last(blocks, stages, begin) > least) ++begin;
    blocks = begin;
  }
  return ends;
}

}  // namespace trimtab::tuner::autopipe
