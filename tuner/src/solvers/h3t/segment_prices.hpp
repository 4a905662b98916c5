#pragma once

// What one layer's forward and backward segment cost where segments are synchronized, each from a simulation of the
// segment alone: 12 forward and 64 backward ones of a layer between two others, computed when first asked for.

#include <array>
#include <optional>

#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t {

struct SegmentPrice {
  Ticks ticks = 0;
  Bytes peak = 0;   // above the level in front of the forward segment; of a backward segment, above the level behind it
  Bytes delta = 0;  // of the level: a forward segment's and what the next one releases of this layer at once
};

// A layer between its neighbours, null outside of the model.
struct Neighbourhood {
  const LayerProfile* before = nullptr;
  const LayerProfile* layer = nullptr;
  const LayerProfile* after = nullptr;
};

class SegmentPrices {
 public:
  // The layers must outlive this.
  SegmentPrices(const Neighbourhood& at, Fabric fabric) : at_(at), fabric_(fabric) {}

  // The last layer's segment includes the release of its own parameters.
  [[nodiscard]] SegmentPrice forward(const LayerSwitches& own, bool lazy_after);
  // The first layer's includes its gradients' way to the host, the last layer's what is brought before it.
  [[nodiscard]] SegmentPrice backward(const LayerSwitches& before, const LayerSwitches& own, bool lazy_after);

 private:
  Neighbourhood at_;
  Fabric fabric_;
  std::array<std::optional<SegmentPrice>, 64> forward_;
  std::array<std::optional<SegmentPrice>, 1024> backward_;
};

}  // namespace trimtab::tuner::h3t
