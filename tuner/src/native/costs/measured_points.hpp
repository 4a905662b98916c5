#pragma once

// The measured costs of a model's operators as curves over samples, by cost key, tensor-parallel degree and sharding
// choice. Plain values.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "native/costs/curve.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

// In the order of the cost kinds from kOperatorForward on.
enum class OperatorPart : std::uint8_t {
  kForward,
  kBackward,
  kStored,
  kWorking,
  kInput,
  kOutput,
  kParameters,
  kForwardReserve,
  kBackwardReserve,
};
inline constexpr std::size_t kOperatorParts = 9;

struct OperatorCurves {
  std::array<Curve, kOperatorParts> of_part;
  [[nodiscard]] const Curve& operator[](OperatorPart part) const { return of_part[static_cast<std::size_t>(part)]; }
};

// One cost key's.
struct MeasuredOperator {
  std::map<std::pair<std::int32_t, bool>, OperatorCurves> at;              // (tp, alternate)
  std::map<std::pair<std::int32_t, std::string>, OperatorCurves> sharing;  // sequences: (tp, sharding)
  Statistics optimizer;
  Statistics host_optimizer;  // of an update on the host

  // nullptr where nothing was measured.
  [[nodiscard]] const OperatorCurves* find(std::int32_t tp, bool alternate) const {
    const auto found = at.find({tp, alternate});
    return found == at.end() ? nullptr : &found->second;
  }
};

// By cost key; each of the model's has an entry. Costs in another dtype do not count.
[[nodiscard]] std::map<std::string, MeasuredOperator> measured_operators(const Model& model,
                                                                         const std::vector<ChosenCost>& costs);

}  // namespace trimtab::tuner
