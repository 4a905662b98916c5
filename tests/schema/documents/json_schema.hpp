#pragma once

// As much of JSON Schema 2020-12 as schema/json uses, to hold the files and the code together: type, const, enum,
// minimum, maximum, exclusiveMinimum, minItems, maxItems, required, properties, additionalProperties, items, anyOf,
// allOf, if/then, $ref.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trimtab::test {

class JsonSchema {
 public:
  // Reads DIRECTORY/NAME.schema.json; throws what nlohmann throws.
  JsonSchema(std::string directory, const std::string& name);

  // What is wrong with the document, as paths and reasons; empty when it is valid. `strict` also reports members that
  // the schema does not mention: what we write ourselves must be documented.
  [[nodiscard]] std::vector<std::string> violations(const nlohmann::json& document, bool strict) const;

  [[nodiscard]] const nlohmann::json& root() const { return root_; }

 private:
  std::string directory_;
  nlohmann::json root_;
};

}  // namespace trimtab::test
