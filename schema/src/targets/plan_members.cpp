#include "targets/plan_members.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab {

namespace {

constexpr std::int64_t kMostCount = 1 << 30;

std::optional<std::int64_t> whole_number(const Json& value) {
  constexpr double kMost = 9e15;  // of a double's whole numbers
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62) return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(std::abs(number) < kMost) || std::trunc(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

const Json* PlanMembers::find(std::string_view path) {
  read_.insert(std::string(path));
  const Json* at = json_;
  while (true) {
    const std::size_t dot = path.find('.');
    const auto found = at->find(std::string(path.substr(0, dot)));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
    if (dot == std::string_view::npos) return at;
    if (!at->is_object()) return nullptr;
    path.remove_prefix(dot + 1);
  }
}

bool PlanMembers::is_auto(std::string_view path) {
  const Json* const found = find(path);
  return found != nullptr && found->is_string() && found->get<std::string>() == "auto";
}

Result<std::optional<std::int64_t>> PlanMembers::integer(std::string_view path) {
  const Json* const found = find(path);
  if (found == nullptr) return std::optional<std::int64_t>{};
  if (const auto value = whole_number(*found)) return value;
  return refusal(path, "expected a whole number, found " + quoted_text(dump(*found)));
}

Result<std::optional<std::int32_t>> PlanMembers::count(std::string_view path) {
  TRIMTAB_TRY(const std::optional<std::int64_t> value, integer(path));
  if (!value) return std::optional<std::int32_t>{};
  if (*value > 0 && *value <= kMostCount) return std::optional(static_cast<std::int32_t>(*value));
  return refusal(path, "expected 1 to " + std::to_string(kMostCount) + ", found " + std::to_string(*value));
}

Result<std::int32_t> PlanMembers::needed_count(std::string_view path) {
  TRIMTAB_TRY(const std::optional<std::int32_t> value, count(path));
  if (!value) return refusal(path, "expected a positive integer, found nothing");
  return *value;
}

Result<std::vector<std::int32_t>> PlanMembers::layer_numbers(std::string_view path, std::int32_t layers) {
  const Json* const list = find(path);
  if (list == nullptr) return std::vector<std::int32_t>{};
  const auto is_layer = [&](const Json& one) { return one.is_number_integer() && one >= 0 && one < layers; };
  if (list->is_array() && std::ranges::all_of(*list, is_layer)) return list->get<std::vector<std::int32_t>>();
  return refusal(
      path, "expected numbers of layers, 0 to " + std::to_string(layers - 1) + ", found " + quoted_text(dump(*list)));
}

Result<bool> PlanMembers::flag(std::string_view path, bool fallback) {
  const Json* const found = find(path);
  if (found == nullptr) return fallback;
  if (found->is_boolean()) return found->get<bool>();
  return refusal(path, "expected true or false, found " + quoted_text(dump(*found)));
}

Result<std::string> PlanMembers::text(std::string_view path, std::string_view fallback) {
  const Json* const found = find(path);
  if (found == nullptr) return std::string(fallback);
  if (found->is_string()) return found->get<std::string>();
  return refusal(path, "expected a text, found " + quoted_text(dump(*found)));
}

Status PlanMembers::check_sayable(std::span<const UnsayableMember> members) {
  for (const UnsayableMember& one : members) {
    const Json* const found = find(one.path);
    if (found == nullptr || *found == false || (one.is_list && found->is_array() && found->empty())) continue;
    if (found->is_number() && found->get<double>() <= static_cast<double>(one.usual)) continue;
    return refusal(one.path, std::string(one.why) + ", found " + quoted_text(dump(*found)));
  }
  return {};
}

Error PlanMembers::refusal(std::string_view path, const std::string& why) const {
  return bad_input(source_ + ": " + std::string(path) + ": " + why);
}

void PlanMembers::pass_over(std::vector<std::string> paths) {
  passed_over_.insert(passed_over_.end(), paths.begin(), paths.end());
}

bool PlanMembers::any_read_below(const std::string& path) const {
  const auto next = read_.lower_bound(path + ".");
  return next != read_.end() && next->starts_with(path + ".");
}

void PlanMembers::add_unread(const Json& object, const std::string& prefix, std::vector<std::string>& paths) const {
  for (const auto& [name, value] : object.items()) {
    const std::string path = prefix + name;
    if (value.is_object() && any_read_below(path)) {
      add_unread(value, path + ".", paths);
    } else if (!read_.contains(path)) {
      paths.push_back(path);
    }
  }
}

std::vector<std::string> PlanMembers::unread() const {
  std::vector<std::string> paths = passed_over_;
  add_unread(*json_, "", paths);
  return paths;
}

bool is_listed(std::string_view list, std::string_view name) {
  constexpr std::string_view kBlank = " \n";
  if (name.empty()) return false;
  for (std::size_t at = list.find(name); at != std::string_view::npos; at = list.find(name, at + 1)) {
    const bool begins = at == 0 || kBlank.find(list[at - 1]) != std::string_view::npos;
    const std::size_t end = at + name.size();
    if (begins && end < list.size() && kBlank.find(list[end]) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace trimtab
