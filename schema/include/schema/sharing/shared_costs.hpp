#pragma once

// What cost databases exchange beside whole files: costs that somebody contributes, and a copy in parts, for who reads
// a database over a network. Plain values; CostDatabase does it (schema/cost_database.hpp).

#include <cstdint>
#include <string>
#include <vector>

#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab {

// Who contributes, and when, in ns since 1970. The one whose database it is says both.
struct Contributor {
  std::string name;  // check_contributor()
  std::int64_t at_ns = 0;
};

// All that one origin of the contributor's database has of these costs.
struct ContributedCosts {
  std::string origin;  // as that database calls it
  NamedFingerprint fingerprint;
  CostSource source;  // contributed_source()
  std::vector<Cost> costs;
};

// Of a contributor at most so many costs are kept.
inline constexpr std::uint64_t kMostContributed = 100'000;

// What became of costs that were contributed. An origin only ever grows, so that of two values of one cost of it the
// one with more measurements contains the other and stays, whatever comes first.
struct ContributionCounts {
  std::uint64_t added = 0;
  std::uint64_t renewed = 0;  // had more measurements than what was there
  std::uint64_t equal = 0;
  std::uint64_t older = 0;  // had fewer, and changed nothing
  std::uint64_t own = 0;    // of an origin that this database has itself: changed nothing
};

// What a merge found.
struct MergeCounts {
  std::uint64_t batches = 0;  // that were new
  std::uint64_t known = 0;    // that both had
  ContributionCounts contributed;
};

struct RemovedCosts {
  std::uint64_t costs = 0;
  bool all = false;  // nothing more of this contributor is there
};

struct ContributorSummary {
  std::string name;
  std::uint64_t costs = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
};

// A part of what a database holds of one origin. Those of an origin follow each other. Where the origin was folded
// meanwhile it begins anew: `folded` is another then.
struct CostPart {
  struct Batch {
    std::int64_t number = 0;
    std::string fingerprint;  // hash; empty where it has no costs
    std::string source;
    std::vector<Cost> costs;
  };
  struct Folded {
    std::string fingerprint;  // hash
    std::string source;
    Cost cost;
  };
  std::string origin;
  std::int64_t folded = 0;
  std::string contributor = {};  // empty: nobody contributed it
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::vector<Folded> costs = {};
  std::vector<Batch> batches = {};
};

struct CostParts {
  std::vector<CostPart> parts;
  std::vector<Fingerprint> fingerprints;  // that these parts name
  std::string next;                       // to ask for with; empty: this was the last page
};

}  // namespace trimtab
