#include "json_schema.hpp"

#include <fstream>
#include <stdexcept>
#include <utility>

namespace trimtab::test {

namespace {

using nlohmann::json;

class Checker {
 public:
  Checker(std::string directory, const json& root, bool strict)
      : directory_(std::move(directory)), root_(root), strict_(strict) {}

  void check(const json& schema, const json& value, const std::string& path) {
    if (schema.contains("$ref")) check_reference(schema["$ref"], value, path);
    check_type(schema, value, path);
    check_values(schema, value, path);
    if (value.is_object()) check_object(schema, value, path);
    if (value.is_array()) check_array(schema, value, path);
    check_combinations(schema, value, path);
  }

  std::vector<std::string> found;

 private:
  void report(const std::string& path, const std::string& reason) { found.push_back(path + ": " + reason); }

  [[nodiscard]] bool matches(const json& schema, const json& value) const {
    Checker inner(directory_, root_, false);
    inner.check(schema, value, "");
    return inner.found.empty();
  }

  void check_reference(const std::string& reference, const json& value, const std::string& path) {
    if (reference.starts_with("#")) return check(root_.at(json::json_pointer(reference.substr(1))), value, path);
    const JsonSchema other(directory_, reference.substr(0, reference.find(".schema.json")));
    for (const std::string& violation : other.violations(value, strict_)) found.push_back(path + violation);
  }

  static bool is_type(const std::string& type, const json& value) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    if (type == "null") return value.is_null();
    return type == value.type_name();
  }

  void check_type(const json& schema, const json& value, const std::string& path) {
    if (!schema.contains("type")) return;
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    for (const json& type : types) {
      if (is_type(type, value)) return;
    }
    report(path, "is " + value.dump() + ", which is not of type " + types.dump());
  }

  void check_values(const json& schema, const json& value, const std::string& path) {
    if (schema.contains("const") && schema["const"] != value) report(path, "is not " + schema["const"].dump());
    if (schema.contains("enum")) {
      bool known = false;
      for (const json& choice : schema["enum"]) known = known || choice == value;
      if (!known) report(path, value.dump() + " is not one of " + schema["enum"].dump());
    }
    if (!value.is_number()) return;
    if (schema.contains("minimum") && value < schema["minimum"]) report(path, "is too small");
    if (schema.contains("maximum") && value > schema["maximum"]) report(path, "is too large");
    if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) report(path, "is too large");
    if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) report(path, "is too small");
  }

  void check_object(const json& schema, const json& value, const std::string& path) {
    for (const json& name : schema.value("required", json::array())) {
      if (!value.contains(name.get<std::string>())) report(path, "lacks " + name.dump());
    }
    const bool described = schema.contains("properties") || schema.contains("additionalProperties");
    for (const auto& [name, member] : value.items()) {
      if (schema.contains("properties") && schema["properties"].contains(name)) {
        check(schema["properties"][name], member, path + "." + name);
      } else if (!schema.contains("additionalProperties")) {
        if (strict_ && described) report(path, "has " + name + ", which the schema does not mention");
      } else if (schema["additionalProperties"].is_object()) {
        check(schema["additionalProperties"], member, path + "." + name);
      }
    }
  }

  void check_array(const json& schema, const json& value, const std::string& path) {
    if (value.size() < schema.value("minItems", std::size_t{0})) report(path, "has too few items");
    if (value.size() > schema.value("maxItems", value.size())) report(path, "has too many items");
    if (!schema.contains("items")) return;
    for (std::size_t i = 0; i < value.size(); ++i) {
      check(schema["items"], value[i], path + "[" + std::to_string(i) + "]");
    }
  }

  void check_combinations(const json& schema, const json& value, const std::string& path) {
    if (schema.contains("anyOf")) {
      bool any = false;
      for (const json& choice : schema["anyOf"]) any = any || matches(choice, value);
      if (!any) report(path, "fits none of " + schema["anyOf"].dump());
    }
    for (const json& part : schema.value("allOf", json::array())) check(part, value, path);
    if (schema.contains("if") && matches(schema["if"], value)) check(schema["then"], value, path);
  }

  std::string directory_;
  const json& root_;
  bool strict_;
};

}  // namespace

JsonSchema::JsonSchema(std::string directory, const std::string& name) : directory_(std::move(directory)) {
  const std::string path = directory_ + "/" + name + ".schema.json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  root_ = json::parse(file);
}

std::vector<std::string> JsonSchema::violations(const json& document, bool strict) const {
  Checker checker(directory_, root_, strict);
  checker.check(root_, document, "");
  return checker.found;
}

}  // namespace trimtab::test
