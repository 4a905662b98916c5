#include "agents/membership.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "agents/peer_text.hpp"
#include "net/host_text.hpp"
#include "schema/device_memory.hpp"
#include "schema/fingerprint.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kKeptFingerprint = 8192;  // bytes

constexpr std::size_t kLongestNode = 255;
constexpr std::size_t kLongestInstance = 64;
constexpr std::size_t kLongestRelease = 64;
constexpr std::size_t kLongestTenant = 64;

Status check_text(const char* what, const std::string& text, std::size_t least, std::size_t most) {
  if (text.size() >= least && text.size() <= most && is_printable(text)) return {};
  return bad_input("an agent's " + std::string(what) + " needs " + std::to_string(least) + " to " +
                   std::to_string(most) + " bytes without control characters; found " + std::to_string(text.size()) +
                   ": '" + printable(first_of(text, kLongestNode)) + "'");
}

// It stands in the commands of other nodes' ranks.
Status check_address(const std::string& address) {
  constexpr std::size_t kLongest = 255;
  if (address.empty() || net::is_host_text(address)) return {};
  return bad_input("an agent's address needs a host's name or an IP address; found '" +
                   printable(first_of(address, kLongest)) + "'");
}

// Before anything else is made of them: they stand in logs and messages.
Status check_texts(const Introduction& hello) {
  TRIMTAB_TRY_STATUS(check_text("node name", hello.node, 1, kLongestNode));
  TRIMTAB_TRY_STATUS(check_text("instance id", hello.instance, 1, kLongestInstance));
  // Origins with one are the coordinator's, and of what was imported (CostBatch::node, collective_intake.cpp).
  if (hello.instance.find('/') != std::string::npos) {
    return bad_input("an agent's instance id has no '/'; found '" + hello.instance + "'");
  }
  TRIMTAB_TRY_STATUS(check_text("release", hello.release, 0, kLongestRelease));
  TRIMTAB_TRY_STATUS(check_text("tenant", hello.tenant, 0, kLongestTenant));
  return check_address(hello.address);
}

Status check(const Introduction& hello) {
  if (hello.devices < 1 || hello.devices > 1024 || hello.memory_bytes < 1) {
    return bad_input("node " + hello.node + " says it has " + std::to_string(hello.devices) + " devices of " +
                     std::to_string(hello.memory_bytes) + " bytes; 1 to 1024 devices with memory are needed");
  }
  if (hello.fingerprint_json.size() > kLongestFingerprint) {
    return bad_input("node " + hello.node + " has a hardware fingerprint of " +
                     std::to_string(hello.fingerprint_json.size()) + " bytes; at most " +
                     std::to_string(kLongestFingerprint) + " are read");
  }
  return {};
}

bool is_live(const Member& member) {
  return !member.lost && member.peer != 0;
}

bool takes_jobs(const Member& member, const std::string& tenant) {
  return is_live(member) && !member.barred && member.serves(tenant);
}

bool may_be_forgotten(const Member& member) {
  return member.lost && member.peer == 0 && !member.kill_switch;
}

std::int64_t difference(std::uint64_t theirs, std::uint64_t ours) {
  return static_cast<std::int64_t>(theirs - ours);
}

}  // namespace

Result<Joined> Membership::join(const Introduction& hello, std::uint64_t peer) {
  TRIMTAB_TRY_STATUS(check_texts(hello));
  TRIMTAB_TRY(const std::uint32_t version, common_version({"this coordinator", TRIMTAB_RELEASE, kSpokenVersions},
                                                          {"the agent", hello.release, hello.versions}));
  TRIMTAB_TRY_STATUS(check(hello));
  TRIMTAB_TRY(const Fingerprint fingerprint, parse_fingerprint(hello.fingerprint_json, "hello of node " + hello.node));
  const auto is_kept = [this](const std::string& node) { return members_.contains(node) || taken_.contains(node); };
  TRIMTAB_TRY_STATUS(names_.take(hello.node, hello.owner, is_kept));
  TRIMTAB_TRY(std::string forgotten, make_room_for(hello.node));
  Member& member = members_[hello.node];
  if (member.peer != 0 && member.peer != peer && member.instance != hello.instance && !member.lost) {
    return bad_input("node name " + hello.node + " is taken by another agent that is connected. Give each agent a " +
                     "name of its own");
  }
  const std::uint64_t former = member.peer == peer ? 0 : member.peer;
  peers_.erase(former);
  disconnected(peer);
  peers_[peer] = &member;
  const auto taken = taken_.find(hello.node);
  const bool used = member.used || (taken != taken_.end() && taken->second.devices > 0);
  member = {hello, version, hash(fingerprint), peer, clock_.monotonic(), member.kill_switch};
  member.used = used;
  // Its hash is what counts from here on. Near hardware is found by what it says, which is short of a real node.
  if (member.fingerprint_json.size() > kKeptFingerprint) member.fingerprint_json = {};
  return Joined{former, std::move(forgotten)};
}

// Who had to go; empty = nobody.
Result<std::string> Membership::make_room_for(const std::string& node) {
  if (members_.size() < most_nodes_ || members_.contains(node)) return std::string();
  auto oldest = members_.end();
  for (auto member = members_.begin(); member != members_.end(); ++member) {
    if (!may_be_forgotten(member->second)) continue;
    if (oldest == members_.end() || member->second.heard < oldest->second.heard) oldest = member;
  }
  if (oldest == members_.end()) {
    return unavailable("this coordinator knows " + std::to_string(members_.size()) + " nodes, none of them lost, and " +
                       "has room for no more; node " + node + " needs another coordinator");
  }
  std::string forgotten = oldest->first;
  members_.erase(oldest);
  return forgotten;
}

Member* Membership::at(std::uint64_t peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second;
}

void Membership::heard(std::uint64_t peer) {
  if (Member* member = at(peer)) member->heard = clock_.monotonic();
}

void Membership::listen(const std::function<std::uint64_t(std::uint64_t peer)>& received_bytes) {
  for (auto& [name, member] : members_) {
    if (member.peer == 0) continue;
    const std::uint64_t bytes = received_bytes(member.peer);
    if (std::exchange(member.received_bytes, bytes) != bytes) member.heard = clock_.monotonic();
  }
}

void Membership::stood_still(Nanoseconds time) {
  const Nanoseconds now = clock_.monotonic();
  for (auto& [name, member] : members_) member.heard = std::min(member.heard + time, now);
}

bool Membership::bar(std::uint64_t peer, bool barred) {
  Member* member = at(peer);
  return member != nullptr && std::exchange(member->barred, barred) != barred;
}

bool Membership::said_kill_switch(std::uint64_t peer, bool thrown) {
  Member* member = at(peer);
  return member != nullptr && std::exchange(member->kill_switch, thrown) != thrown;
}

std::set<std::string> Membership::kill_switches(const std::string& tenant) const {
  std::set<std::string> nodes;
  for (const auto& [name, member] : members_) {
    if (member.kill_switch && member.serves(tenant)) nodes.insert(name);
  }
  return nodes;
}

void Membership::disconnected(std::uint64_t peer) {
  if (Member* member = at(peer)) member->peer = 0;
  peers_.erase(peer);
}

void Membership::lose(const std::string& node) {
  const auto known = members_.find(node);
  if (known != members_.end()) known->second.lost = true;
}

std::vector<std::string> Membership::expire() {
  std::vector<std::string> lost;
  for (auto& [name, member] : members_) {
    if (member.lost || clock_.monotonic() - member.heard <= node_timeout_) continue;
    member.lost = true;
    lost.push_back(name);
  }
  return lost;
}

std::vector<std::string> Membership::forget_unused() {
  std::vector<std::string> forgotten;
  for (const auto& [name, member] : members_) {
    const bool is_old = clock_.monotonic() - member.heard > node_timeout_ + kUnusedKept;
    if (is_old && !member.used && may_be_forgotten(member)) forgotten.push_back(name);
  }
  for (const std::string& name : forgotten) members_.erase(name);
  return forgotten;
}

bool Membership::is_copy(const std::string& node) const {
  const Member* one = by_node(node);
  return one != nullptr && std::ranges::any_of(members_, [one](const auto& entry) {
           return &entry.second != one && is_live(entry.second) && entry.second.instance == one->instance;
         });
}

const Member* Membership::by_peer(std::uint64_t peer) const {
  return at(peer);
}

const Member* Membership::by_node(const std::string& node) const {
  const auto found = members_.find(node);
  return found == members_.end() ? nullptr : &found->second;
}

bool Membership::serves(const std::string& node, const std::string& tenant) const {
  const Member* member = by_node(node);
  return member != nullptr && member->serves(tenant);
}

void Membership::take(const Held& held, std::int32_t sign) {
  for (const NodeShare& share : held.nodes) {
    Taken& taken = taken_[share.node];
    if (held.devices) taken.devices += sign * share.ranks;
    taken.shares += sign;
  }
}

void Membership::hold(std::int64_t run, const OwnedJob& job, const std::vector<NodeShare>& nodes, bool devices) {
  Held& held = held_[run];
  if (held.nodes != nodes || held.devices != devices) {
    const Held former = std::exchange(held, {job, nodes, devices});
    take(former, -1);
    take(held, 1);
    for (const NodeShare& share : former.nodes) {
      if (const auto taken = taken_.find(share.node); taken != taken_.end() && taken->second.shares == 0)
        taken_.erase(taken);
    }
  }
  if (nodes.empty()) held_.erase(run);
  for (const NodeShare& share : nodes) {
    const auto known = members_.find(share.node);
    if (devices && known != members_.end()) known->second.used = true;
  }
}

// What a scheduler starts has the scheduler's devices.
std::int32_t Membership::free_devices(const Member& member, const Job& job, std::int64_t run) const {
  std::int32_t free = member.device_count();
  if (job.share_devices || !job.submit.empty()) return free;
  if (const auto taken = taken_.find(member.node); taken != taken_.end()) free -= taken->second.devices;
  if (const auto own = held_.find(run); own != held_.end() && own->second.devices) {
    for (const NodeShare& share : own->second.nodes) free += share.node == member.node ? share.ranks : 0;
  }
  return std::max(free, 0);
}

std::string Membership::held_from(const Job& job, const std::string& tenant, std::int64_t run) const {
  std::int64_t all = 0;
  std::int64_t free = 0;
  for (const auto& [name, member] : members_) {
    if (!takes_jobs(member, tenant)) continue;
    all += member.device_count();
    free += free_devices(member, job, run);
  }
  if (free >= job.world_size || free == all) return "";
  std::vector<OwnedJob> holders;
  for (const auto& [holder, held] : held_) {
    if (holder == run || !held.devices) continue;
    const bool is_here = std::ranges::any_of(held.nodes, [&](const NodeShare& share) {
      const Member* member = by_node(share.node);
      return member != nullptr && takes_jobs(*member, tenant);
    });
    if (is_here) holders.push_back(held.job);
  }
  return "it needs " + std::to_string(job.world_size) + " devices, and " + std::to_string(free) + " of " +
         std::to_string(all) + " are free: others are of " + told_jobs(holders, tenant) +
         ". It begins when they are over ('trimtab job stop --job NAME' ends one of yours). To run beside them on the "
         "same devices, set share_devices = true in job.toml";
}

std::string Membership::kept_from(const Job& job, const std::string& tenant, std::int64_t run) const {
  if (std::string held = held_from(job, tenant, run); !held.empty()) return held;
  std::int64_t open = 0;
  std::int64_t others = 0;
  for (const auto& [name, member] : members_) {
    if (is_live(member)) (takes_jobs(member, tenant) ? open : others) += member.devices;
  }
  if (others == 0 || open >= job.world_size) return "";
  return "it needs " + std::to_string(job.world_size) + " devices, and nodes that serve tenant " + tenant + " have " +
         std::to_string(open) + "; more are on nodes that serve other tenants alone, or do not show whose jobs they " +
         "run. It waits for an agent that serves its tenant (the key `tenant` of agent.toml) or everybody";
}

std::optional<LargerPlacement> Membership::place_more(const Job& job, const std::string& tenant,
                                                      const std::vector<NodeShare>& present, std::int64_t run) const {
  LargerPlacement larger;
  larger.nodes = present;
  std::int32_t wanted = job.world_size;
  std::set<std::string> own;
  for (const NodeShare& share : present) {
    const Member* member = by_node(share.node);
    if (member == nullptr || !is_live(*member)) return std::nullopt;
    own.insert(share.node);
    wanted -= share.ranks;
  }
  for (const auto& [name, member] : members_) {
    if (wanted <= 0) break;
    if (own.contains(name) || !takes_jobs(member, tenant)) continue;
    const std::int32_t ranks = std::min(free_devices(member, job, run), wanted);
    if (ranks == 0) continue;
    larger.joined.push_back({name, job.world_size - wanted, ranks});
    larger.key += name + "/" + member.instance + "/" + member.fingerprint + " ";
    wanted -= ranks;
  }
  if (larger.joined.empty()) return std::nullopt;
  larger.nodes.insert(larger.nodes.end(), larger.joined.begin(), larger.joined.end());
  for (const NodeShare& share : larger.nodes) {
    const Member& member = members_.at(share.node);
    larger.cluster.nodes.push_back(
        {share.node, member.fingerprint, share.ranks, device_memory(job, member.memory_bytes), 0});
  }
  larger.cluster.links.push_back({"intra_node", std::nullopt, 0, 0});
  return larger;
}

std::optional<Placement> Membership::place(const Job& job, const std::string& tenant, std::int64_t run) const {
  Placement placement;
  std::int32_t wanted = job.world_size;
  for (const auto& [name, member] : by_hardware(tenant)) {
    if (wanted == 0) break;
    const std::int32_t devices = std::min(free_devices(*member, job, run), wanted);
    if (devices == 0) continue;
    placement.nodes.push_back({name, job.world_size - wanted, devices});
    placement.cluster.nodes.push_back(
        {name, member->fingerprint, devices, device_memory(job, member->memory_bytes), 0});
    wanted -= devices;
  }
  if (wanted > 0) return std::nullopt;
  placement.fingerprint = placement.cluster.nodes.front().fingerprint;
  placement.cluster.links.push_back({"intra_node", std::nullopt, 0, 0});
  return placement;
}

// Nodes of one fingerprint together, that of most devices first: a job is on nodes that are alike where they suffice.
std::vector<std::pair<std::string, const Member*>> Membership::by_hardware(const std::string& tenant) const {
  std::vector<std::pair<std::string, const Member*>> nodes;
  std::map<std::string, std::int64_t> devices;
  for (const auto& [name, member] : members_) {
    if (!takes_jobs(member, tenant)) continue;
    nodes.emplace_back(name, &member);
    devices[member.fingerprint] += member.devices;
  }
  std::ranges::stable_sort(nodes, [&](const auto& a, const auto& b) {
    const std::string& of_a = a.second->fingerprint;
    const std::string& of_b = b.second->fingerprint;
    return std::tie(devices[of_b], of_a) < std::tie(devices[of_a], of_b);
  });
  return nodes;
}

void NodeClocks::heard(const std::string& node, const wire::Heartbeat& heartbeat, std::uint64_t now_ns) {
  if (heartbeat.wall_ns() == 0) return;  // an agent that does not say
  Node& known = nodes_[node];
  // Only of the answer that we know of: a number that we never sent would bound nothing.
  if (known.answered_ns != 0 && heartbeat.answered_ns() == known.answered_ns) {
    known.difference.add(heartbeat.heard_ns(), difference(heartbeat.heard_ns(), known.answered_ns), false);
    known.answered_ns = 0;
  }
  known.difference.add(heartbeat.wall_ns(), difference(heartbeat.wall_ns(), now_ns), true);
  known.latest_ns = heartbeat.wall_ns();
}

void NodeClocks::answered(const std::string& node, std::uint64_t now_ns) {
  if (const auto known = nodes_.find(node); known != nodes_.end()) known->second.answered_ns = now_ns;
}

std::optional<ClockDifference::Offset> NodeClocks::ahead(const std::string& node, std::uint64_t their_ns) const {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || !known->second.difference.two_sided()) return std::nullopt;
  auto offset = known->second.difference.at(their_ns);
  const std::uint64_t latest = known->second.latest_ns;
  const std::uint64_t away = their_ns > latest ? their_ns - latest : latest - their_ns;
  offset->uncertainty_ns += static_cast<std::uint64_t>(kDriftPerNs * static_cast<double>(away)) + 1;
  return offset;
}

std::map<std::string, ClockDifference::Offset> NodeClocks::latest() const {
  std::map<std::string, ClockDifference::Offset> all;
  for (const auto& [name, node] : nodes_) {
    if (const auto offset = ahead(name, node.latest_ns)) all.emplace(name, *offset);
  }
  return all;
}

}  // namespace trimtab::coordinator
