#include "tuning/trial/interleaving.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {

namespace {

// 0 where there is no block.
double last_median(const Blocks& blocks) {
  return blocks.empty() || blocks.back().empty() ? 0 : median(blocks.back());
}

}  // namespace

Interleaving::Interleaving(BlockSizes sizes) : sizes_(sizes) {
  sizes_.blocks = std::max(sizes_.blocks, 1);
  sizes_.measure_steps = std::max(sizes_.measure_steps, 1);
}

void Interleaving::begin_block(bool changed) {
  TRIMTAB_ASSERT(!done(), "an interleaving that is done has no next block");
  Blocks& side = second_is_next() ? second_ : first_;
  // A plan that is known to be slow is not taken to be warming up for ever.
  const double usual_ms = std::max(last_median(first_), last_median(second_));
  settling_ = Settling(changed ? sizes_.warmup_steps : 0, usual_ms);
  // A block that is begun again (after a recovery) starts from nothing.
  side.resize(static_cast<std::size_t>(next_ / 2));
  side.emplace_back();
}

bool Interleaving::add(double wall_ms, bool prepared) {
  if (warming()) {
    settling_.add(wall_ms, prepared);
    return false;
  }
  Blocks& side = second_is_next() ? second_ : first_;
  TRIMTAB_ASSERT(!side.empty(), "a block begins before its steps");
  side.back().push_back(wall_ms);
  if (std::cmp_less(side.back().size(), sizes_.measure_steps)) return false;
  ++next_;
  return true;
}

// Only the last can be short.
Blocks Interleaving::whole(Blocks side) const {
  if (!side.empty() && std::cmp_less(side.back().size(), sizes_.measure_steps)) side.pop_back();
  return side;
}

bool Interleaving::second_surely_worse() const {
  // A few slow steps of its first block alone may be somebody else's doing.
  if (!second_is_next() || first_.empty() || second_.size() < 2) return false;
  return surely_worse(first_.back(), second_.back());
}

}  // namespace trimtab::coordinator
