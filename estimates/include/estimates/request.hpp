#pragma once

// A question about one plan as a line of JSON, and its answer: what `trimtab plan estimate` reads and prints.
// docs/estimates.md has the members. What a question leaves out has the defaults of UniformPlan.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "estimates/measured_steps.hpp"

namespace trimtab::estimates {

// A value of an enumeration, and what requests call it.
template <typename Value>
struct Word {
  std::string_view word;
  Value value;
};
template <typename Value>
Word(const char*, Value) -> Word<Value>;

inline constexpr std::array kRecomputedWords = {
    Word{"nothing", Recomputed::kNothing}, Word{"attention_core", Recomputed::kAttentionCore},
    Word{"activations", Recomputed::kActivations}, Word{"half_of_products", Recomputed::kHalfOfProducts},
    Word{"layer", Recomputed::kLayer}};

struct Request {
  Machine machine;
  ModelShape shape;
  UniformPlan plan;
  std::vector<MeasuredStep> measured;  // of other plans on this machine
};

// Errors name `source` and the member. A member that is not known is refused by its name.
[[nodiscard]] Result<Request> parse_request(std::string_view json, std::string_view source);
[[nodiscard]] Estimate answer(const Request& request);
[[nodiscard]] std::string to_json(const Request& request);    // one line that parse_request() reads as the same
[[nodiscard]] std::string to_json(const Estimate& estimate);  // one line

}  // namespace trimtab::estimates
