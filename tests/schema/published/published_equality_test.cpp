// The authors' own files against their conversion to neutral tables: where both are at hand, every cost of the one is
// in the other. Data: TRIMTAB_PEERS (the conversions) and TRIMTAB_PUBLISHED_RAW (profiled-time-*, galvatron-configs);
// beside the repository where these are not set.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "raw_folder.hpp"
#include "skipping.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

constexpr double kMib = 1048576;
constexpr double kHalfThousandthMib = 0.0005 * kMib + 1;

std::string place(const char* variable, const std::string& otherwise) {
  const char* const set = std::getenv(variable);
  return set != nullptr ? set : std::string(TRIMTAB_SOURCE_DIR) + "/../shared/" + otherwise;
}

// Nothing where either is absent: the test case is skipped.
std::optional<std::pair<std::string, std::string>> both(const std::string& conversion, const std::string& raw) {
  std::pair<std::string, std::string> paths{place("TRIMTAB_PEERS", "peers") + "/" + conversion,
                                            place("TRIMTAB_PUBLISHED_RAW", "cases/published-raw") + "/" + raw};
  for (const std::string& path : {paths.first, paths.second}) {
    if (std::filesystem::is_directory(path)) continue;
    skip("published files are not at " + path + " (set TRIMTAB_PEERS and TRIMTAB_PUBLISHED_RAW)");
    return std::nullopt;
  }
  return paths;
}

using Values = std::map<CostKey, double>;

Values values_of(const std::vector<Cost>& costs) {
  Values values;
  for (const Cost& cost : costs) values[cost.key] = cost.statistics.mean();
  return values;
}

// The same collective where the raw folder has no cache to say its size: whole MiB.
bool has_rounded(const Values& values, const CostKey& key, double value) {
  return std::any_of(values.begin(), values.end(), [&](const auto& one) {
    CostKey same = one.first;
    const bool near = std::fabs(static_cast<double>(same.bytes - key.bytes)) <= kMib;
    same.bytes = key.bytes;
    return near && same == key && one.second == value;
  });
}

// How many costs were compared.
std::size_t compare_aceso(const PublishedCosts& raw, const PublishedCosts& conversion) {
  const Values values = values_of(conversion.costs);
  for (const Cost& cost : raw.costs) {
    const double value = cost.statistics.mean();
    INFO(describe(cost.key));
    const auto found = values.find(cost.key);
    if (found == values.end()) {
      REQUIRE(cost.key.kind == CostKind::kCollective);
      CHECK(has_rounded(values, cost.key, value));
      continue;
    }
    const bool size = unit_of(cost.key.kind) != "ns";
    CHECK(std::fabs(found->second - value) <= (size ? kHalfThousandthMib : 0));
  }
  return raw.costs.size();
}

}  // namespace

TEST_CASE("Aceso's own files and their conversion give the same costs", "[peer]") {
  const auto paths = both("aceso_v100", "profiled-time-eurosys");
  if (!paths) return;
  const Published conversion = imported("aceso", {paths->first});
  std::size_t compared = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(place("TRIMTAB_PUBLISHED_RAW", "cases/published-raw"))) {
    const std::string name = folder.path().filename().string();
    constexpr std::string_view kPrefix = "profiled-time-";
    if (!name.starts_with(kPrefix)) continue;
    for (const PublishedCosts& raw : imported("aceso", {folder.path().string()}).costs) {
      for (const PublishedCosts& other : conversion.costs) {
        const bool same = other.fingerprint.device.at("testbed") == name.substr(kPrefix.size()) &&
                          other.fingerprint.environment.at("profile") == raw.fingerprint.environment.at("profile");
        if (same) compared += compare_aceso(raw, other);
      }
    }
  }
  CHECK(compared > 0);
}

TEST_CASE("Galvatron's own files and their conversion give the same costs", "[peer]") {
  const auto paths = both("galvatron", "galvatron-configs");
  if (!paths) return;
  const Published conversion = imported("galvatron", {paths->first});
  const Published raw = imported("galvatron", {paths->second});
  REQUIRE(raw.costs.size() == 1);
  const Values ours = values_of(raw.costs.front().costs);
  // Links: of some commit that measured this cluster.
  std::size_t links = 0;
  for (const auto& [key, value] : ours) {
    if (key.kind != CostKind::kCollective && key.kind != CostKind::kPointToPoint) continue;
    ++links;
    INFO(describe(key));
    CHECK(std::any_of(conversion.costs.begin(), conversion.costs.end(), [&](const PublishedCosts& other) {
      if (other.fingerprint.device.at("testbed") != raw.costs.front().fingerprint.device.at("testbed")) return false;
      const Values theirs = values_of(other.costs);
      const auto found = theirs.find(key);
      return found != theirs.end() && found->second == value;
    }));
  }
  CHECK(links > 0);
  // Layers: the conversion names the file that a row is of.
  std::size_t layers = 0;
  for (const PublishedCosts& other : conversion.costs) {
    for (const Cost& cost : other.costs) {
      if (!cost.key.subject.starts_with("gpt-llama2-7b_all/layer0")) continue;
      INFO(describe(cost.key));
      const double value = cost.statistics.mean();
      CostKey key = cost.key;
      key.subject = "llama2-7b/layer0";
      ++layers;
      if (key.kind == CostKind::kOperatorParameterBytes) {
        const Model* const model = model_called(raw, "llama2-7b.json");
        REQUIRE(model != nullptr);
        CHECK(static_cast<double>(model->operators.front().parameter_bytes) == value);
        continue;
      }
      REQUIRE(ours.count(key) == 1);
      CHECK(ours.at(key) == value);
    }
  }
  CHECK(layers > 0);
}
