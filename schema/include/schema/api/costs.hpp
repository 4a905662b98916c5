#pragma once

// The cost database as the API tells it (GET /v1/costs), in pages: what follows one is asked for with after=NEXT.
// Written only: who wants to read costs reads a database.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/api/fields.hpp"

namespace trimtab::api {

struct CostSummary {
  Carried key;
  std::string source;
  std::string unit;
  std::uint64_t count = 0;
  double mean = 0;
  double standard_error = 0;
  std::int64_t min = 0;
  std::int64_t max = 0;
  double median = 0;

  static constexpr void fields(auto&& visit) {
    visit("key", &CostSummary::key, Presence::kAlways, "schema/cost.hpp");
    visit("source", &CostSummary::source, Presence::kAlways, "");
    visit("unit", &CostSummary::unit, Presence::kAlways, "");
    visit("count", &CostSummary::count, Presence::kAlways, "");
    visit("mean", &CostSummary::mean, Presence::kAlways, "");
    visit("standard_error", &CostSummary::standard_error, Presence::kAlways, "");
    visit("min", &CostSummary::min, Presence::kAlways, "");
    visit("max", &CostSummary::max, Presence::kAlways, "");
    visit("median", &CostSummary::median, Presence::kAlways, "Within 1 %.");
  }
};

struct Costs {
  std::string fingerprint;
  std::vector<CostSummary> costs;
  std::optional<std::int64_t> next;

  static constexpr void fields(auto&& visit) {
    visit("fingerprint", &Costs::fingerprint, Presence::kAlways, "Hash.");
    visit("costs", &Costs::costs, Presence::kAlways, "");
    visit("next", &Costs::next, Presence::kIfAny, "Missing: this is the last page.");
  }
};

struct KnownFingerprint {
  std::string hash;
  Carried fingerprint;

  static constexpr void fields(auto&& visit) {
    visit("hash", &KnownFingerprint::hash, Presence::kAlways, "");
    visit("fingerprint", &KnownFingerprint::fingerprint, Presence::kAlways, "schema/fingerprint.hpp");
  }
};

struct Fingerprints {
  std::vector<KnownFingerprint> fingerprints;
  std::optional<std::string> next;

  static constexpr void fields(auto&& visit) {
    visit("fingerprints", &Fingerprints::fingerprints, Presence::kAlways, "");
    visit("next", &Fingerprints::next, Presence::kIfAny, "Missing: this is the last page.");
  }
};

}  // namespace trimtab::api
