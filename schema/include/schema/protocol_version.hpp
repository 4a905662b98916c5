#pragma once

// Which versions of the agents' protocol (wire/agent.proto) this release speaks, and which one two releases have in
// common. A version changes when an older release could not go on; fields that are added need none. Pure.

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace trimtab {

struct ProtocolVersions {
  std::uint32_t oldest = 1;
  std::uint32_t newest = 1;
};
inline constexpr ProtocolVersions kSpokenVersions{1, 1};

struct ProtocolSpeaker {
  std::string name;  // for messages: "this coordinator", "the agent"
  std::string release;
  ProtocolVersions versions;
};

// The newest version that both speak. The error names both and their versions, and says which of them to bring to which
// release.
[[nodiscard]] Result<std::uint32_t> common_version(const ProtocolSpeaker& one, const ProtocolSpeaker& other);

}  // namespace trimtab
