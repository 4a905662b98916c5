#pragma once

// The list that validation fills, and how its messages name places in a plan.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

class Rules {
 public:
  void broken(std::string what) { broken_.push_back(std::move(what)); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(broken_); }

 private:
  std::vector<std::string> broken_;
};

// What memory switches ask of a plan (validate_switches.cpp).
void check_switches(const Plan& plan, const Model& model, Rules& rules);

[[nodiscard]] std::string stage_text(std::size_t stage);                         // "stages[1]"
[[nodiscard]] std::string segment_text(std::size_t stage, std::size_t segment);  // "stages[1].segments[0]"
// "operator 3 (layer1-attention)", or the number alone where the model has no such operator.
[[nodiscard]] std::string operator_text(const Model& model, std::int32_t index);
[[nodiscard]] std::string list_text(const std::vector<std::int32_t>& values);  // "1, 2, 4"

}  // namespace trimtab::tuner
