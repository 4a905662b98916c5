#pragma once

// Commands to nodes, and what their tags say. A tag names its command within its job, for ever: the same tag is the
// same command, which a node runs once. Tags are stored, so their texts are those of earlier releases.

#include <cstdint>
#include <string>

namespace trimtab::coordinator {

enum class CommandKind { kDescribe, kBenchmark, kLaunch, kKill };

// What a kill ends.
enum class KillReach {
  kLaunch,       // the present one
  kAll,          // every launch, and benchmarks
  kBroughtBack,  // the launch of the job itself that the node's agent has brought back without being told to
};

struct CommandTag {
  CommandTag() = default;
  // Of any text.
  CommandTag(std::string tag);
  CommandTag(const char* tag) : CommandTag(std::string(tag)) {}
  [[nodiscard]] static CommandTag benchmark(const std::string& name, const std::string& node);
  [[nodiscard]] static CommandTag launching(std::uint64_t launch, const std::string& node);
  [[nodiscard]] static CommandTag kill(KillReach reach, std::uint64_t launch, const std::string& node);
  // Of what still runs on a node that the job went on without.
  [[nodiscard]] static CommandTag kill_strays(std::uint64_t launch, const std::string& node);

  std::string text;
  KillReach reach = KillReach::kLaunch;
  std::uint64_t launch = 0;  // of kBroughtBack
};

struct OutstandingCommand {
  CommandTag tag;
  std::string node;
  CommandKind kind = CommandKind::kDescribe;
};

}  // namespace trimtab::coordinator
