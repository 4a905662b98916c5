#pragma once

// What a range of the job's own domain stands for, by its name (docs/protocols.md, "Ranges"). Read once, where records
// come in. A plain value, and a pure function.

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace trimtab::agent {

inline constexpr std::string_view kOwnDomain = "trimtab";

struct RangeName {
  enum class Kind : std::uint8_t { kOther, kStep, kPlanChange, kOptimizer, kOperator, kCollective, kTransfer, kData };
  enum class Pass : std::uint8_t { kUnknown, kForward, kBackward, kRecompute };

  Kind kind = Kind::kOther;
  Pass pass = Pass::kUnknown;  // of an operator
  std::string_view what = {};  // the operator's name, the collective's primitive, "send" or "recv"; as long as the name
  std::int32_t group_size = 0;  // of a collective; 0 = the name does not say one

  [[nodiscard]] bool communicates() const { return kind == Kind::kCollective || kind == Kind::kTransfer; }
};

// "step", "switch", "optimizer", "data", "op/<operator>/<pass>" (the operator's name may contain '/'),
// "comm/<primitive>/<group size>", "transfer/send", "transfer/recv".
[[nodiscard]] inline RangeName parse_range_name(std::string_view name) {
  using Kind = RangeName::Kind;
  using Pass = RangeName::Pass;
  if (name == "step") return {Kind::kStep};
  if (name == "switch") return {Kind::kPlanChange};
  if (name == "optimizer") return {Kind::kOptimizer};
  if (name == "data") return {Kind::kData};
  const std::string_view rest = name.substr(name.find('/') + 1);
  if (name.starts_with("transfer/")) return {Kind::kTransfer, Pass::kUnknown, rest};
  if (name.starts_with("comm/")) {
    RangeName range{Kind::kCollective, Pass::kUnknown, rest.substr(0, rest.find('/'))};
    if (range.what.empty() || range.what.size() == rest.size()) return range;
    const char* const end = rest.data() + rest.size();
    const auto parsed = std::from_chars(range.what.data() + range.what.size() + 1, end, range.group_size);
    if (parsed.ec != std::errc{} || parsed.ptr != end || range.group_size < 1) range.group_size = 0;
    return range;
  }
  if (!name.starts_with("op/")) return {};
  const auto slash = rest.rfind('/');
  RangeName range{Kind::kOperator, Pass::kUnknown, slash == std::string_view::npos ? "" : rest.substr(0, slash)};
  if (name.ends_with("/forward")) range.pass = Pass::kForward;
  if (name.ends_with("/backward")) range.pass = Pass::kBackward;
  if (name.ends_with("/recompute")) range.pass = Pass::kRecompute;
  return range;
}

}  // namespace trimtab::agent
