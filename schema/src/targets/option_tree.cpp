#include "targets/option_tree.hpp"

#include <algorithm>

#include "targets/plan_members.hpp"
#include "targets/yaml_flow.hpp"

namespace trimtab {

namespace {

Json value_of(const std::string& text) {
  if (text.starts_with("{") || text.starts_with("[")) {
    auto json = parse_json_text(text, "");
    if (json.ok()) return std::move(*json);
  }
  return yaml_scalar(text);
}

}  // namespace

std::vector<std::pair<std::string, Json>> option_values(const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, Json>> values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const std::size_t equals = words[i].find('=');
    std::string name = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::ranges::replace(name, '-', '_');
    if (equals != std::string::npos) {
      values.emplace_back(std::move(name), value_of(words[i].substr(equals + 1)));
      continue;
    }
    std::string text;
    for (; i + 1 < words.size() && !words[i + 1].starts_with("--"); ++i)
      text += (text.empty() ? "" : " ") + words[i + 1];
    values.emplace_back(std::move(name), text.empty() ? Json(true) : value_of(text));
  }
  return values;
}

void add_options(const std::vector<std::string>& words, std::string_view names, Json& tree) {
  for (auto& [name, value] : option_values(words)) {
    if (is_listed(names, name)) tree[name] = std::move(value);
  }
}

void strip_prefix(Json& tree, const std::string& name, std::string_view prefix) {
  const auto found = tree.find(name);
  if (found == tree.end() || !found->is_object()) return;
  Json stripped = Json::object();
  for (const auto& [member, value] : found->items()) {
    stripped[member.starts_with(prefix) ? member.substr(prefix.size()) : member] = value;
  }
  *found = std::move(stripped);
}

}  // namespace trimtab
