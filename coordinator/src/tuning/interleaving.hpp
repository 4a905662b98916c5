#pragma once

// Two plans measured in turn, A B A B …, so that what drifts on the machine meets both. Says which plan is to run next
// and collects the steps; who changes plans is the caller's business. Pure.

#include <cstdint>
#include <vector>

#include "tuning/comparison.hpp"

namespace trimtab::coordinator {

struct BlockSizes {
  std::int32_t blocks = 2;  // of each plan
  std::int32_t warmup_steps = 2;
  std::int32_t measure_steps = 5;
};

class Interleaving {
 public:
  explicit Interleaving(BlockSizes sizes);

  [[nodiscard]] bool done() const { return next_ >= 2 * sizes_.blocks; }
  [[nodiscard]] bool second_is_next() const { return next_ % 2 == 1; }
  [[nodiscard]] std::int32_t block() const { return next_; }
  [[nodiscard]] std::int32_t blocks() const { return sizes_.blocks; }
  // So many more blocks of each plan.
  void extend(std::int32_t blocks) { sizes_.blocks += blocks; }

  // The plan that is next runs now. `changed`: ranks have just switched to it, so warm-up steps are left out.
  void begin_block(bool changed);
  // A measured step of the running block; true when the block is complete.
  [[nodiscard]] bool add(double wall_ms);
  [[nodiscard]] bool warming() const { return warmup_left_ > 0; }

  [[nodiscard]] const Blocks& first() const { return first_; }
  [[nodiscard]] const Blocks& second() const { return second_; }
  // The running block's plan is the second and it is much worse (comparison.hpp).
  [[nodiscard]] bool second_surely_worse() const;

 private:
  BlockSizes sizes_;
  std::int32_t next_ = 0;
  std::int32_t warmup_left_ = 0;
  Blocks first_;
  Blocks second_;
};

}  // namespace trimtab::coordinator
