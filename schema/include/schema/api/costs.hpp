#pragma once

// The cost database as the API tells it (GET /v1/costs), in pages: what follows one is asked for with after=NEXT.
// What is told of costs there is written only. A copy of the database (GET /v1/costs/parts) and what is contributed to
// it (POST /v1/costs) carry costs whole.

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

struct WholeCost {
  std::string fingerprint;
  std::string source;
  Carried key;
  std::string statistics;

  static constexpr void fields(auto&& visit) {
    visit("fingerprint", &WholeCost::fingerprint, Presence::kIfAny, "Hash, where not all in the list have the same.");
    visit("source", &WholeCost::source, Presence::kIfAny, "Likewise.");
    visit("key", &WholeCost::key, Presence::kNeeded, "schema/cost.hpp");
    visit("statistics", &WholeCost::statistics, Presence::kNeeded, "schema/statistics.hpp");
  }
};

struct CostBatchPart {
  std::int64_t number = 0;
  std::string fingerprint;
  std::string source;
  std::vector<WholeCost> costs;

  static constexpr void fields(auto&& visit) {
    visit("number", &CostBatchPart::number, Presence::kNeeded, "");
    visit("fingerprint", &CostBatchPart::fingerprint, Presence::kIfAny, "Hash.");
    visit("source", &CostBatchPart::source, Presence::kIfAny, "");
    visit("costs", &CostBatchPart::costs, Presence::kIfAny, "");
  }
};

struct OriginPart {
  std::string origin;
  std::int64_t folded = 0;
  std::string contributor;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::vector<WholeCost> costs;
  std::vector<CostBatchPart> batches;

  static constexpr void fields(auto&& visit) {
    visit("origin", &OriginPart::origin, Presence::kNeeded, "");
    visit("folded", &OriginPart::folded, Presence::kNeeded, "The costs are the sums of so many batches.");
    visit("contributor", &OriginPart::contributor, Presence::kIfAny, "Missing: the cluster measured it.");
    visit("first_ns", &OriginPart::first_ns, Presence::kIfAny, "When it was contributed, since 1970.");
    visit("last_ns", &OriginPart::last_ns, Presence::kIfAny, "");
    visit("costs", &OriginPart::costs, Presence::kIfAny, "");
    visit("batches", &OriginPart::batches, Presence::kIfAny, "");
  }
};

struct CostPages {
  std::vector<OriginPart> parts;
  std::vector<KnownFingerprint> fingerprints;
  std::string next;

  static constexpr void fields(auto&& visit) {
    visit("parts", &CostPages::parts, Presence::kAlways, "");
    visit("fingerprints", &CostPages::fingerprints, Presence::kAlways, "That the parts name.");
    visit("next", &CostPages::next, Presence::kIfAny, "Missing: this is the last page.");
  }
};

// The body of POST /v1/costs.
struct PushedCosts {
  std::string origin;
  Carried fingerprint;
  std::string source;
  std::vector<WholeCost> costs;

  static constexpr void fields(auto&& visit) {
    visit("origin", &PushedCosts::origin, Presence::kNeeded, "Of the contributor's database.");
    visit("fingerprint", &PushedCosts::fingerprint, Presence::kNeeded, "schema/fingerprint.hpp");
    visit("source", &PushedCosts::source, Presence::kNeeded, "As they were measured.");
    visit("costs", &PushedCosts::costs, Presence::kNeeded, "");
  }
};

struct CostPush {
  std::vector<PushedCosts> batches;

  static constexpr void fields(auto&& visit) { visit("batches", &CostPush::batches, Presence::kNeeded, ""); }
};

struct RefusedCosts {
  std::string reason;
  std::uint64_t costs = 0;

  static constexpr void fields(auto&& visit) {
    visit("reason", &RefusedCosts::reason, Presence::kNeeded, "");
    visit("costs", &RefusedCosts::costs, Presence::kNeeded, "");
  }
};

// Its answer.
struct PushAnswer {
  std::string contributor;
  std::uint64_t added = 0;
  std::uint64_t renewed = 0;
  std::uint64_t equal = 0;
  std::uint64_t older = 0;
  std::uint64_t own = 0;
  std::vector<RefusedCosts> refused;

  static constexpr void fields(auto&& visit) {
    visit("contributor", &PushAnswer::contributor, Presence::kAlways, "By the token or the certificate.");
    visit("new", &PushAnswer::added, Presence::kAlways, "");
    visit("renewed", &PushAnswer::renewed, Presence::kAlways, "Had more measurements than what was there.");
    visit("equal", &PushAnswer::equal, Presence::kAlways, "");
    visit("older", &PushAnswer::older, Presence::kAlways, "Had fewer: what is there stays.");
    visit("own", &PushAnswer::own, Presence::kAlways, "Of an origin that the cluster has itself: what it has stays.");
    visit("refused", &PushAnswer::refused, Presence::kAlways, "");
  }
};

// The body of POST /v1/costs/remove, and its answer.
struct CostRemoval {
  std::string contributor;

  static constexpr void fields(auto&& visit) { visit("contributor", &CostRemoval::contributor, Presence::kNeeded, ""); }
};

struct RemovalAnswer {
  std::uint64_t removed = 0;
  bool all = false;

  static constexpr void fields(auto&& visit) {
    visit("removed", &RemovalAnswer::removed, Presence::kAlways, "Costs, with this request.");
    visit("all", &RemovalAnswer::all, Presence::kAlways, "False: there are more. Ask again.");
  }
};

}  // namespace trimtab::api
