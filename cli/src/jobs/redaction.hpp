#pragma once

// A document without what names somebody's job, machines, people or files, for a bug report: names become "redacted-1",
// "redacted-2" in order of appearance, the same name always the same, also within other text. Numbers, times, words of
// our own (phases, states, reasons) and plans stay. Of a text only the first line is kept: further ones may be what a
// job's ranks have printed. Pure.

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace trimtab::cli {

class Redaction {
 public:
  // Learns the names in a document. Of all documents before the first apply(), so that one's text loses another's
  // names.
  void learn(const nlohmann::ordered_json& document);
  void learn_name(const std::string& name);
  [[nodiscard]] nlohmann::ordered_json apply(const nlohmann::ordered_json& document) const;
  [[nodiscard]] std::string apply(const std::string& text) const;

 private:
  std::map<std::string, std::string> names_;
};

}  // namespace trimtab::cli
