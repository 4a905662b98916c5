#include "tuning/launch/command_tag.hpp"

#include <charconv>
#include <string_view>
#include <utility>

namespace trimtab::coordinator {
namespace {

constexpr std::string_view kKillAll = "kill/all/";
constexpr std::string_view kKillBroughtBack = "kill/own/";

std::string of(std::string_view prefix, std::uint64_t launch, const std::string& node) {
  return std::string(prefix) + std::to_string(launch) + "/" + node;
}

}  // namespace

CommandTag::CommandTag(std::string tag) : text(std::move(tag)) {
  if (text.starts_with(kKillAll)) reach = KillReach::kAll;
  if (!text.starts_with(kKillBroughtBack)) return;
  reach = KillReach::kBroughtBack;
  (void)std::from_chars(text.data() + kKillBroughtBack.size(), text.data() + text.size(), launch);
}

CommandTag CommandTag::benchmark(const std::string& name, const std::string& node) {
  return "benchmark/" + name + "/" + node;
}

CommandTag CommandTag::launching(std::uint64_t launch, const std::string& node) {
  return of("launch/", launch, node);
}

CommandTag CommandTag::kill(KillReach reach, std::uint64_t launch, const std::string& node) {
  if (reach == KillReach::kAll) return of(kKillAll, launch, node);
  return of(reach == KillReach::kBroughtBack ? kKillBroughtBack : "kill/", launch, node);
}

CommandTag CommandTag::kill_strays(std::uint64_t launch, const std::string& node) {
  return of("kill/strays/", launch, node);
}

}  // namespace trimtab::coordinator
