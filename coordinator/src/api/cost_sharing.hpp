#pragma once

// The API's routes of costs: reading them, a copy of the database in pages, and costs that other teams contribute. What
// is contributed is read off the loop, checked as if it came from an enemy, and stored by the loop in one transaction
// before it is answered. Event loop's thread only, but for read_push(), which is pure.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/call.hpp"
#include "schema/sharing/shared_costs.hpp"

namespace trimtab::coordinator {

// Of one request, so that no push keeps the loop waiting.
inline constexpr std::size_t kMostPushedBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostPushedCosts = 1000;

struct ReadPush {
  std::vector<ContributedCosts> costs;
  std::map<std::string, std::uint64_t> refused;  // by reason, how many costs
};
// What of a push can be stored. Single costs and batches that cannot are left out, each counted with its reason.
[[nodiscard]] Result<ReadPush> read_push(const std::string& body, const std::string& contributor);

[[nodiscard]] net::HttpResponse get_costs(const Call& call);
[[nodiscard]] net::HttpResponse get_cost_parts(const Call& call);
[[nodiscard]] net::HttpResponse take_costs(const Call& call);
[[nodiscard]] net::HttpResponse remove_costs(const Call& call);

}  // namespace trimtab::coordinator
