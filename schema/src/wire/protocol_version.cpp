#include "schema/protocol_version.hpp"

#include <algorithm>

namespace trimtab {

namespace {

std::string words(const ProtocolVersions& versions) {
  const std::string newest = std::to_string(versions.newest);
  return versions.oldest == versions.newest ? "version " + newest
                                            : "versions " + std::to_string(versions.oldest) + " to " + newest;
}

std::string who(const ProtocolSpeaker& speaker) {
  return speaker.name + " (release " + (speaker.release.empty() ? "unknown" : speaker.release) + ")";
}

}  // namespace

Result<std::uint32_t> common_version(const ProtocolSpeaker& one, const ProtocolSpeaker& other) {
  const std::uint32_t common = std::min(one.versions.newest, other.versions.newest);
  if (common >= std::max(one.versions.oldest, other.versions.oldest)) return common;
  const bool one_is_older = one.versions.newest < other.versions.newest;
  const ProtocolSpeaker& older = one_is_older ? one : other;
  const ProtocolSpeaker& newer = one_is_older ? other : one;
  return bad_input(who(one) + " speaks protocol " + words(one.versions) + ", but " + who(other) + " speaks " +
                   words(other.versions) + ". Bring " + older.name + " to a release that speaks version " +
                   std::to_string(newer.versions.oldest) + ", such as " +
                   (newer.release.empty() ? "the other's" : newer.release));
}

}  // namespace trimtab
