#pragma once

// Two plans measured in turn, A B B A A B …, so that what drifts on the machine meets both and ranks change plan once a
// pair. Says which plan is to run next and collects the steps; who changes plans is the caller's business. Pure.

#include <cstdint>
#include <vector>

#include "tuning/change/settling.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {

struct BlockSizes {
  std::int32_t blocks = 2;        // of each plan
  std::int32_t warmup_steps = 2;  // at least, after a change of plan; settling.hpp says when they end
  std::int32_t measure_steps = 5;
};

class Interleaving {
 public:
  explicit Interleaving(BlockSizes sizes);

  [[nodiscard]] bool done() const { return next_ >= 2 * sizes_.blocks; }
  [[nodiscard]] bool second_is_next() const { return next_ % 4 == 1 || next_ % 4 == 2; }
  // As many blocks of either plan.
  [[nodiscard]] bool pairs_are_whole() const { return next_ > 0 && next_ % 2 == 0; }
  [[nodiscard]] std::int32_t block() const { return next_; }
  [[nodiscard]] std::int32_t blocks() const { return sizes_.blocks; }
  [[nodiscard]] std::int32_t measure_steps() const { return sizes_.measure_steps; }

  // The plan that is next runs now. `changed`: ranks have just switched to it, so warm-up steps are left out.
  void begin_block(bool changed);
  // A step of the running block; true when the block is complete. `prepared` (JobStep's) prolongs warm-up; among the
  // measured steps it is one that comparison.hpp's medians pass over.
  [[nodiscard]] bool add(double wall_ms, bool prepared = false);
  [[nodiscard]] bool warming() const { return !settling_.settled(); }

  [[nodiscard]] const Blocks& first() const { return first_; }
  [[nodiscard]] const Blocks& second() const { return second_; }
  // The same without the block that was broken off, if one was: what a burst has ended says little but that.
  [[nodiscard]] Blocks whole_first() const { return whole(first_); }
  [[nodiscard]] Blocks whole_second() const { return whole(second_); }
  // The running block's plan is the second and it is much worse (comparison.hpp).
  [[nodiscard]] bool second_surely_worse() const;

 private:
  [[nodiscard]] Blocks whole(Blocks side) const;

  BlockSizes sizes_;
  std::int32_t next_ = 0;
  Settling settling_;
  Blocks first_;
  Blocks second_;
};

}  // namespace trimtab::coordinator
