#include "schema/fingerprint.hpp"

#include <utility>

#include "documents/json_reader.hpp"
#include "schema/hash64.hpp"

namespace trimtab {

std::string to_json(const Fingerprint& fingerprint) {
  const Json json{{"device", fingerprint.device},
                  {"software", fingerprint.software},
                  {"fabric", fingerprint.fabric},
                  {"environment", fingerprint.environment}};
  return dump(json);
}

std::string hash(const Fingerprint& fingerprint) {
  return hash64_hex(to_json(fingerprint));
}

bool near(const Fingerprint& a, const Fingerprint& b) {
  return a.device == b.device && a.fabric == b.fabric && a.environment == b.environment && a.software != b.software;
}

Result<Fingerprint> parse_fingerprint(std::string_view json, std::string_view source) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, source, ""));
  const JsonReader root = document.root();
  Fingerprint fingerprint;
  fingerprint.device = root.at("device").text_map();
  fingerprint.software = root.at("software").text_map();
  fingerprint.fabric = root.at("fabric").text_map();
  fingerprint.environment = root.at("environment").text_map();
  TRIMTAB_TRY_STATUS(document.status());
  return fingerprint;
}

NamedFingerprint::NamedFingerprint(const Fingerprint& fingerprint) {
  std::string json = to_json(fingerprint);
  std::string hash = hash64_hex(json);
  names_ = std::make_shared<const Names>(Names{std::move(hash), std::move(json)});
}

}  // namespace trimtab
