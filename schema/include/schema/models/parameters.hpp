#pragma once

// How many parameters a model has, and how many of them a token meets: where a layer has experts in place of one mlp,
// it is sent to a few of them. Pure; any thread.
//
// Such an operator's `shape` says so under reserved names: how many experts there are, how many a token is sent to,
// what parameters each has, and how many others every token passes beside them. Reading a model checks what these say
// (schema/json/model.schema.json).

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "schema/model.hpp"

namespace trimtab {

inline constexpr const char* kExperts = "experts";
inline constexpr const char* kActiveExperts = "active_experts";                 // at most `experts`
inline constexpr const char* kSharedExperts = "shared_experts";                 // 0 where it is missing
inline constexpr const char* kExpertParameterBytes = "expert_parameter_bytes";  // of each; part of parameter_bytes

// By its expert_parameter_bytes.
[[nodiscard]] bool has_experts(const Operator& op);

// Of one parameter; 0 where the model's dtype is not known here.
[[nodiscard]] std::int64_t element_bytes(const Model& model);

// Bytes. Tied parameters count once. Whole numbers: exact below 2^53.
struct ParameterBytes {
  double all = 0;
  double active = 0;  // without the experts that a token is not sent to
};
[[nodiscard]] ParameterBytes parameter_bytes(const Model& model);

// "32 layers, 32 of them with 8 experts of which 2 are active, 46702792704 parameters, 12879925248 active"; of a model
// without experts empty.
[[nodiscard]] std::string experts_words(const Model& model);

// Fails on a model with experts, saying which: nothing prices one yet, so no plan of it is read, searched or tried.
[[nodiscard]] Status check_priced(const Model& model);

// As parse_model(), but a model with experts is read, too. For those who show a model or hand it on.
[[nodiscard]] Result<Model> parse_whole_model(std::string_view json, std::string_view source);

}  // namespace trimtab
