#pragma once

// A product or a sum of sizes that somebody wrote: it knows whether it still fits into 64 bits, and so does everything
// that is made of it. Pure; any thread.

#include <cstdint>

#include "base/check.hpp"

namespace trimtab {

class Amount {
 public:
  // Sizes stand in formulas as they are.
  constexpr Amount(std::int64_t value = 0) : value_(value) {}

  [[nodiscard]] constexpr bool fits() const { return fits_; }
  // REQUIRES: fits().
  [[nodiscard]] std::int64_t value() const {
    TRIMTAB_ASSERT(fits_, "an amount beyond 64 bits has no value");
    return value_;
  }

  friend constexpr Amount operator+(Amount a, Amount b) {
    Amount sum;
    const bool overflows = __builtin_add_overflow(a.value_, b.value_, &sum.value_);
    sum.fits_ = a.fits_ && b.fits_ && !overflows;
    return sum;
  }
  friend constexpr Amount operator*(Amount a, Amount b) {
    Amount product;
    const bool overflows = __builtin_mul_overflow(a.value_, b.value_, &product.value_);
    product.fits_ = a.fits_ && b.fits_ && !overflows;
    return product;
  }

 private:
  std::int64_t value_;
  bool fits_ = true;
};

}  // namespace trimtab
