#include "schema/costs/sequence_sharing.hpp"

#include "base/check.hpp"

namespace trimtab {
namespace {

constexpr std::string_view kSequence = "sequence";
constexpr std::string_view kContext = "context-";

}  // namespace

std::string sharing_name(std::int32_t cp, bool sequence) {
  TRIMTAB_ASSERT(cp > 1 || sequence, "whole sequences have no such costs");
  const std::string context = cp > 1 ? std::string(kContext) + std::to_string(cp) : "";
  if (!sequence) return context;
  return std::string(kSequence) + (context.empty() ? "" : "-" + context);
}

std::string sharing_of(const Plan& plan, const Segment& segment) {
  const auto knob = plan.target_knobs.find("sequence_parallel");
  const bool sequence = segment.tp > 1 && knob != plan.target_knobs.end() && knob->second == "true";
  return segment.cp > 1 || sequence ? sharing_name(segment.cp, sequence) : "";
}

bool is_sharing_name(std::string_view sharding) {
  if (sharding.starts_with(kContext)) return true;
  return sharding == kSequence || sharding.starts_with(std::string(kSequence) + "-" + std::string(kContext));
}

}  // namespace trimtab
