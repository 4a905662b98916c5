#include "schema/sharing/contributed_source.hpp"

#include <algorithm>
#include <string_view>

#include "documents/json_document.hpp"

namespace trimtab {

namespace {

using Kind = CostSource::Kind;

constexpr std::string_view kPrefix = "contributor/";
constexpr std::size_t kLongestContributor = 64;
constexpr std::size_t kLongestName = 256;  // of an import

// An import's name ends at its first blank.
std::string name_of(const CostSource& measured) {
  if (measured.kind == Kind::kBenchmark) return "benchmark";
  if (measured.kind == Kind::kTraining) return "training";
  std::string name = measured.name;
  std::ranges::replace_if(
      name, [](char c) { return static_cast<unsigned char>(c) <= ' '; }, '_');
  return name;
}

Status check_measured(const CostSource& measured) {
  if (const auto other = contributor_of(measured)) {
    return bad_input("they are contributor " + quoted_text(*other) + "'s, and who measured costs contributes them");
  }
  if (measured.kind == Kind::kEstimated) return bad_input("they are estimates, and were not measured");
  if (measured.kind == Kind::kTakenOver) return bad_input("they are taken over from other hardware");
  if (measured.kind == Kind::kUnknown) {
    return bad_input("this release does not know their source " + quoted_text(measured.name));
  }
  if (condition_unknown(measured)) {
    return bad_input("they are of a release that did not store under which condition they were measured");
  }
  if (measured.name.size() > kLongestName) {
    return bad_input("the name of their source has " + std::to_string(measured.name.size()) + " bytes; at most " +
                     std::to_string(kLongestName) + " are taken");
  }
  return {};
}

}  // namespace

Result<CostSource> contributed_source(const CostSource& measured, const std::string& contributor) {
  TRIMTAB_TRY_STATUS(check_measured(measured));
  CostSource source = measured;
  source.kind = Kind::kImported;
  source.name = std::string(kPrefix) + contributor + "/" + name_of(measured);
  if (measured.kind == Kind::kBenchmark) source.clock = CostSource::Clock::kNotSaid;
  return source;
}

std::optional<std::string> contributor_of(const CostSource& source) {
  if (source.kind != Kind::kImported || !source.name.starts_with(kPrefix)) return std::nullopt;
  const std::string rest = source.name.substr(kPrefix.size());
  return rest.substr(0, rest.find('/'));
}

std::string why_not_contributed(const CostKey& key) {
  const bool of_a_job =
      key.kind == CostKind::kRange || key.kind == CostKind::kKernel || key.kind == CostKind::kStepTime;
  if (of_a_job) return "ranges, kernels and steps are a job's own and price no other plan";
  const bool slowdown = key.kind == CostKind::kOverlapComputation || key.kind == CostKind::kOverlapCommunication;
  if (slowdown && key.particular()) return "slowdowns beside one class of kernels count where they were seen";
  return "";
}

Status check_contributor(const std::string& name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-";
  const bool plain = name.find_first_not_of(kAllowed) == std::string::npos;
  if (plain && !name.empty() && name.size() <= kLongestContributor) return {};
  return bad_input("a contributor's name has 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', but found " +
                   quoted_text(name));
}

}  // namespace trimtab
