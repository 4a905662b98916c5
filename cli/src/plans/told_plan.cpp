#include "plans/told_plan.hpp"

#include "plans/plan_text.hpp"
#include "schema/documents/document_text.hpp"
#include "schema/plan_words.hpp"

namespace trimtab::cli {

Result<std::optional<ToldPlan>> told_plan(const api::Carried& carried, const std::string& path) {
  if (carried.json.empty() || carried.json == "{}") return std::optional<ToldPlan>();
  if (carried.json.starts_with('"')) return bad_input(path + ": expected an object, but found string");
  auto plan = DocumentText<Plan>(carried.json, path).read();
  if (!plan.ok()) return bad_input(path + ": " + plan.error().message);
  return std::optional(ToldPlan{std::move(plan).value(), words_in(carried.json)});
}

std::string named_plan(const std::optional<ToldPlan>& told, const std::string& otherwise) {
  return told ? named_plan(told->plan, told->words) : otherwise;
}

}  // namespace trimtab::cli
