#include "jobs/rendezvous.hpp"

#include <algorithm>
#include <cstdint>

#include "base/check.hpp"
#include "net/host_text.hpp"
#include "net/loopback_host.hpp"
#include "schema/hash64.hpp"

namespace trimtab::coordinator {
namespace {

// An agent beside the coordinator connects over loopback. The others reach that machine where they reach the
// coordinator.
std::string address_for_others(const Member& first, const std::vector<NodeShare>& nodes, const Membership& members) {
  if (!net::is_loopback_host(first.address)) return first.address;
  for (const NodeShare& share : nodes) {
    const Member* other = members.by_node(share.node);
    if (other == nullptr || other->address.empty() || net::is_loopback_host(other->address)) continue;
    if (!other->coordinator_address.empty()) return other->coordinator_address;
  }
  return first.address;
}

}  // namespace

std::optional<std::string> rendezvous(const std::string& name, const std::vector<NodeShare>& nodes,
                                      const Membership& members, const PortRange& ports) {
  TRIMTAB_ASSERT(!nodes.empty(), "a launch is of ranks on nodes");
  if (nodes.size() == 1) return name;
  const auto by_rank = [](const NodeShare& a, const NodeShare& b) { return a.first_rank < b.first_rank; };
  const Member* first = members.by_node(std::ranges::min_element(nodes, by_rank)->node);
  if (first == nullptr || first->address.empty()) return std::nullopt;
  const std::string host = address_for_others(*first, nodes, members);
  const std::uint64_t count = std::uint64_t{ports.last} - ports.first + 1;
  // The same in every release: a launch that is asked for again meets where it met.
  return "tcp://" + net::authority(host, static_cast<std::uint16_t>(ports.first + hash64(name) % count));
}

}  // namespace trimtab::coordinator
