#include "agents/node_rights.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::coordinator {

bool holds_rank(const TuningState& job, const std::string& node, std::uint32_t rank) {
  return std::ranges::any_of(job.nodes, [&](const NodeShare& share) {
    return share.node == node && std::cmp_greater_equal(rank, share.first_rank) &&
           std::cmp_less(rank, std::int64_t{share.first_rank} + share.ranks);
  });
}

bool has_ranks_on(const TuningState& job, const std::string& node) {
  return std::ranges::any_of(job.nodes, [&](const NodeShare& share) { return share.node == node; });
}

bool is_foreign_rank(const TuningState& job, const std::string& node, std::uint32_t rank) {
  return !holds_rank(job, node, rank) && job.launch_epoch != 0 && job.doing != Doing::kKilling;
}

}  // namespace trimtab::coordinator
