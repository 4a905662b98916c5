#include "schema/settings/settings.hpp"

#include <algorithm>
#include <cctype>

#include "schema/nearest.hpp"

namespace trimtab {

namespace {

using Type = GivenSetting::Type;

std::string message(const GivenSetting& given, const std::string& complaint) {
  return given.place + ": " + (given.type == Type::kWord ? "" : given.name + ": ") + complaint;
}

// "environment.*" is each "environment.NAME".
bool names(const std::string& setting, const std::string& given) {
  if (!setting.ends_with(".*")) return setting == given;
  return given.starts_with(std::string_view(setting).substr(0, setting.size() - 1));
}

}  // namespace

std::string variable_of(const std::string& name) {
  std::string variable = "TRIMTAB_" + name;
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return variable;
}

std::string flag_of(const std::string& name) {
  std::string flag = "--" + name;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string help_of(const SettingFacts& setting) {
  return setting.help + " (default " + setting.fallback + ")";
}

Result<std::optional<std::size_t>> SettingNames::find(const GivenSetting& given) const {
  const auto found = std::ranges::find_if(facts_, [&](const SettingFacts& one) { return names(one.name, given.name); });
  if (found != facts_.end()) {
    if (!suits(*found, given.type)) return bad_input(message(given, unsuitable(found->expected, given).message));
    return std::optional<std::size_t>(found - facts_.begin());
  }
  if (!is_table(given.name)) return unknown(given);
  if (given.type == Type::kTable) return std::optional<std::size_t>();
  return bad_input(message(given, unsuitable("a table", given).message));
}

Status SettingNames::placed(const Status& status, const GivenSetting& given) {
  return status.ok() ? status : bad_input(message(given, status.error().message));
}

bool SettingNames::is_table(const std::string& name) const {
  return std::ranges::any_of(facts_, [&](const SettingFacts& one) { return one.name.starts_with(name + "."); });
}

bool SettingNames::suits(const SettingFacts& setting, Type type) const {
  const bool is_value = type == Type::kText || type == Type::kInteger || type == Type::kNumber || type == Type::kFlag;
  return type == Type::kWord || (is_value && sources_ == SettingSources::kFileEnvironmentFlags) ||
         std::ranges::find(setting.types, type) != setting.types.end();
}

Error SettingNames::unknown(const GivenSetting& given) const {
  // Among its own table's names, or those of the top.
  const std::string table = given.name.substr(0, given.name.find('.'));
  const bool is_within = table != given.name && is_table(table);
  std::vector<std::string> known;
  for (const SettingFacts& one : facts_) {
    if (!is_within) known.push_back(one.name.substr(0, one.name.find('.')));
    if (is_within && one.name.starts_with(table + ".") && !one.name.ends_with(".*")) known.push_back(one.name);
  }
  return bad_input(given.place + ": unknown key \"" + given.name + "\"; did you mean \"" + nearest(given.name, known) +
                   "\"?");
}

}  // namespace trimtab
