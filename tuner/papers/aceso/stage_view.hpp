#pragma once

// A stage's operators with their rows, and what recompute saves of them. Refers to its arguments; plain otherwise.

#include <algorithm>
#include <cstdint>
#include <span>

#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {

// What recompute saves of one microbatch, and the largest part of it that is back at one time.
struct Saved {
  double saved = 0, peak = 0;
};

class StageView {
 public:
  StageView(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits)
      : tables_(tables), begin_(begin), splits_(splits) {}

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(splits_.size()); }
  [[nodiscard]] const Row& row(std::int32_t i) const { return tables_.row(splits_[i].setting, begin_ + i); }
  [[nodiscard]] const OperatorFacts& facts(std::int32_t i) const { return tables_.facts(begin_ + i); }
  [[nodiscard]] double activation(std::int32_t i) const { return row(i).activation * facts(i).name.activation_factor; }
  // Whether the output of operator i is a checkpoint that is kept all the same.
  [[nodiscard]] bool kept(std::int32_t i) const {
    return facts(i).name.activation_factor == 1 && facts(i + 1).name.starts_layer;
  }

  [[nodiscard]] Saved saved(std::span<const std::uint8_t> recompute) const {
    Saved result;
    double segment = 0;
    for (std::int32_t i = 0; i + 1 < size(); ++i) {
      if (recompute[i] == 0 || recompute[i + 1] == 0) {
        segment = 0;
        continue;
      }
      const double bytes = activation(i);
      segment += bytes;
      result.peak = std::max(result.peak, segment);
      if (kept(i)) {
        segment = 0;
      } else {
        result.saved += bytes;
      }
    }
    return result;
  }

 private:
  const Tables& tables_;
  std::int32_t begin_;
  std::span<const OperatorSplit> splits_;
};

}  // namespace trimtab::tuner::aceso
