#include "schema/models/parameters.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace trimtab {

namespace {

// 0 where the shape does not say it.
std::int64_t said(const Operator& op, const char* name) {
  const auto found = op.shape.find(name);
  return found == op.shape.end() ? 0 : found->second;
}

std::string short_count(double parameters) {
  return parameters >= 1e9 ? format_number(parameters / 1e9, 1) + "B" : format_number(parameters / 1e6, 1) + "M";
}

std::string words_of(const Operator& op) {
  const std::int64_t shared = said(op, kSharedExperts);
  return std::to_string(said(op, kExperts)) + " experts of which " + std::to_string(said(op, kActiveExperts)) +
         " are active" + (shared > 0 ? " beside " + std::to_string(shared) + " shared" : "");
}

std::string counts(const Model& model, std::string (*text_of)(double)) {
  const auto width = static_cast<double>(element_bytes(model));
  if (width == 0) return "";
  const ParameterBytes bytes = parameter_bytes(model);
  return ", " + text_of(bytes.all / width) + " parameters, " + text_of(bytes.active / width) + " active";
}

}  // namespace

bool has_experts(const Operator& op) {
  return op.shape.contains(kExpertParameterBytes);
}

std::int64_t element_bytes(const Model& model) {
  if (model.dtype == "float32") return 4;
  if (model.dtype == "float16" || model.dtype == "bfloat16") return 2;
  return 0;
}

ParameterBytes parameter_bytes(const Model& model) {
  ParameterBytes bytes;
  double resting = 0;
  for (const Operator& op : model.operators) {
    bytes.all += static_cast<double>(op.parameter_bytes);
    if (!has_experts(op)) continue;
    resting += static_cast<double>(said(op, kExperts) - said(op, kActiveExperts)) *
               static_cast<double>(said(op, kExpertParameterBytes));
  }
  for (const TiedParameters& tied : model.tied_parameters) {
    bytes.all -= static_cast<double>(tied.bytes) * static_cast<double>(std::ssize(tied.operators) - 1);
  }
  bytes.active = bytes.all - resting;
  return bytes;
}

std::string experts_words(const Model& model) {
  const auto first = std::ranges::find_if(model.operators, has_experts);
  if (first == model.operators.end()) return "";
  return std::to_string(model.operators.back().layer + 1) + " layers, " +
         std::to_string(std::ranges::count_if(model.operators, has_experts)) + " of them with " + words_of(*first) +
         counts(model, [](double count) { return format_number(count, 0); });
}

Status check_priced(const Model& model) {
  const auto first = std::ranges::find_if(model.operators, has_experts);
  if (first == model.operators.end()) return {};
  return bad_input("models with experts are not priced yet: " + model.name + ", " + words_of(*first) +
                   counts(model, short_count));
}

}  // namespace trimtab
