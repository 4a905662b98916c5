#include "schema/fingerprint.hpp"

#include "documents/members.hpp"
#include "schema/hash64.hpp"

namespace trimtab {

void members(auto& m, Of<Fingerprint> auto& fingerprint) {
  m.always("device", fingerprint.device);
  m.always("environment", fingerprint.environment);
  m.always("fabric", fingerprint.fabric);
  m.always("software", fingerprint.software);
}

std::string to_json(const Fingerprint& fingerprint) {
  return written_document(fingerprint, "");
}

std::string hash(const Fingerprint& fingerprint) {
  return hash64_hex(to_json(fingerprint));
}

Result<Fingerprint> parse_fingerprint(std::string_view json, std::string_view source) {
  return parse_document<Fingerprint>(json, source, "");
}

NamedFingerprint::NamedFingerprint(const Fingerprint& fingerprint) {
  std::string json = to_json(fingerprint);
  std::string hash = hash64_hex(json);
  names_ = std::make_shared<const Names>(Names{std::move(hash), std::move(json)});
}

}  // namespace trimtab
