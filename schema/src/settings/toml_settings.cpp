#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "schema/settings/settings.hpp"
#include "settings/toml_text.hpp"

namespace trimtab {

namespace {

using Type = GivenSetting::Type;

Type type_of(const toml::node& node) {
  if (node.is_string()) return Type::kText;
  if (node.is_integer()) return Type::kInteger;
  if (node.is_floating_point()) return Type::kNumber;
  if (node.is_boolean()) return Type::kFlag;
  return node.is_table() ? Type::kTable : Type::kOther;
}

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  std::array<char, 32> digits{};
  const auto* number = node.as_floating_point();
  if (number != nullptr) std::to_chars(digits.data(), digits.data() + digits.size() - 1, number->get());
  return digits.data();
}

std::string shown(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) out << value;
  });
  return out.str();
}

class Reader {
 public:
  Reader(std::string_view source, const std::string& directory) : source_(source), directory_(directory) {}

  // `prefix` is empty or the table's name and a dot.
  void read(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      const toml::array* array = node.as_array();
      const bool tables = array != nullptr && !array->empty() && array->is_homogeneous<toml::table>();
      if (!tables) add(prefix, name, node, type_of(node));
      if (node.is_table()) read(*node.as_table(), path(prefix, name) + ".");
      for (std::size_t i = 0; tables && i < array->size(); ++i) {
        add(prefix, name, (*array)[i], Type::kTables);
        read(*(*array)[i].as_table(), path(prefix, name) + ".");
      }
    }
  }

  std::vector<GivenSetting> all;

 private:
  static std::string path(const std::string& prefix, const std::string& name) {
    return prefix + (name.find('.') == std::string::npos ? name : '"' + name + '"');
  }

  void add(const std::string& prefix, const std::string& name, const toml::node& node, Type type) {
    const std::string place = source_ + ":" + std::to_string(node.source().begin.line);
    GivenSetting given{path(prefix, name), name, place, type, text_of(node), shown(node), {}, directory_};
    if (type == Type::kTables) given.found = "an array";
    const toml::array* array = node.as_array();
    if (array != nullptr && (array->empty() || array->is_homogeneous<std::string>())) {
      given.type = Type::kList;
    }
    const auto is_value = [](const toml::node& one) { return one.is_value(); };
    if (array != nullptr && std::all_of(array->begin(), array->end(), is_value)) {
      for (const toml::node& one : *array) given.list.push_back(text_of(one));
    }
    all.push_back(std::move(given));
  }

  std::string source_;
  std::string directory_;
};

}  // namespace

Result<std::vector<GivenSetting>> read_toml(std::string_view text, std::string_view source,
                                            const std::string& directory) {
  TRIMTAB_TRY(const toml::table table, parse_toml(text, source));
  Reader reader(source, directory);
  reader.read(table, "");
  return std::move(reader.all);
}

}  // namespace trimtab
