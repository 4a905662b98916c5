#pragma once

// Which agents there are, by node name, alive while they speak; and how far their clocks are from ours. Pure; the clock
// comes in. One owner thread.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agents/node_names.hpp"
#include "agents/wire_messages.hpp"
#include "base/clock.hpp"
#include "base/clock_difference.hpp"
#include "schema/cluster.hpp"
#include "schema/job.hpp"
#include "schema/protocol_version.hpp"
#include "tenants.hpp"
#include "tuning/elastic/joining_nodes.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

// How far each node's CLOCK_REALTIME is ahead of the coordinator's, from the two ways of its heartbeats: what a node
// read before it sent is not later than what we read when it came, and the other way round. The difference lies between
// the two, however long a message took; half of the round trip is what it stays unsure by.
class NodeClocks {
 public:
  // Beyond the last bound: what clocks may drift apart by, as RFC 5905 (NTPv4) takes it, "PHI".
  static constexpr double kDriftPerNs = 15e-6;

  // Came when our clock was `now_ns`.
  void heard(const std::string& node, const wire::Heartbeat& heartbeat, std::uint64_t now_ns);
  // The answer says that our clock is `now_ns`.
  void answered(const std::string& node, std::uint64_t now_ns);
  // Another machine may have the name now.
  void forget(const std::string& node) { nodes_.erase(node); }

  // When the node's clock was `their_ns`. Nothing until messages have gone both ways.
  [[nodiscard]] std::optional<ClockDifference::Offset> ahead(const std::string& node, std::uint64_t their_ns) const;
  // Lately, of every node for which it is known.
  [[nodiscard]] std::map<std::string, ClockDifference::Offset> latest() const;

 private:
  struct Node {
    ClockDifference difference;
    std::uint64_t answered_ns = 0;  // by our clock; 0 = not yet, or its agent has said when that came
    std::uint64_t latest_ns = 0;    // their clock at the last bound
  };
  std::map<std::string, Node> nodes_;
};

// A node that has been silent for longer is lost, where the configuration does not say otherwise.
inline constexpr Nanoseconds kNodeTimeout = std::chrono::seconds(10);

// A node's hardware fingerprint (JSON), in bytes, wherever one comes from.
inline constexpr std::size_t kLongestFingerprint = std::size_t{64} << 10;

// Names that are remembered at most: whoever may connect without TLS can say any.
inline constexpr std::size_t kMostNodes = 16384;
// A node that no job has had is forgotten when it has been lost for as long.
inline constexpr Nanoseconds kUnusedKept = std::chrono::hours(1);

// What an agent says of itself, as it came over the wire.
struct Introduction {
  ProtocolVersions versions{0, 0};
  std::string release;
  std::string node;
  std::string instance;
  std::int64_t devices = 0;
  Bytes memory_bytes = 0;  // per device
  std::string fingerprint_json;
  std::string tenant;                    // whose jobs alone run there; empty = everybody's
  std::string address;                   // where other nodes' ranks reach its ranks; empty = not known
  std::string coordinator_address = {};  // where it reaches this coordinator
  std::string said_tenant =
      {};                  // what the hello has, where `tenant` is what it may: "*" is everybody's, empty: nothing
  std::string owner = {};  // whose token vouches for the name; empty = no token does: a certificate, or nobody
};

struct Member : Introduction {
  std::uint32_t protocol_version = 0;  // what is spoken with it
  std::string fingerprint = {};        // hash
  std::uint64_t peer = 0;              // 0 = not connected
  Nanoseconds heard{0};                // monotonic
  bool kill_switch = false;            // thrown, when it was last heard of
  std::uint64_t received_bytes = 0;    // of its connection, when it was last asked
  bool lost = false;
  bool used = false;    // a job has, or had, a rank there
  bool barred = false;  // what it has shown is not enough any more: no further job is placed there

  [[nodiscard]] bool serves(const std::string& job_tenant) const { return tenant.empty() || tenant == job_tenant; }
  [[nodiscard]] const char* state() const { return lost ? "lost" : peer != 0 ? "connected" : "disconnected"; }
  [[nodiscard]] std::int32_t device_count() const { return static_cast<std::int32_t>(devices); }
};

// The devices that a job gets, and the cluster document that describes them; the fingerprint is its first node's.
struct Placement {
  std::vector<NodeShare> nodes;
  Cluster cluster;
  std::string fingerprint;
};

// What an agent's coming has put in the past.
struct Joined {
  std::uint64_t former = 0;  // the node's connection until now, for the caller to close; 0 = none
  std::string forgotten;     // a node that had to make room: what else is known of it can go; empty = none
};

class Membership {
 public:
  explicit Membership(const Clock& clock, Nanoseconds node_timeout = kNodeTimeout, std::size_t most_nodes = kMostNodes,
                      std::size_t most_of_token = kMostNodesOfToken)
      : clock_(clock), node_timeout_(node_timeout), most_nodes_(most_nodes), names_(most_of_token) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  [[nodiscard]] Nanoseconds node_timeout() const { return node_timeout_; }

  // The error is the reason to refuse. An agent that comes again under its node's name takes the place of the former
  // peer; another live instance under a name that is taken is refused, and so is a live instance under a second name: a
  // copy of its database. A peer is one node: that which it named last. Where there are too many names, the one that
  // has been lost for longest is forgotten. Whose a name is, names() says.
  [[nodiscard]] Result<Joined> join(const Introduction& hello, std::uint64_t peer);
  [[nodiscard]] NodeNames& names() { return names_; }
  void heard(std::uint64_t peer);
  // How many bytes each peer has sent so far: on a slow link a message that is still on its way is a sign of life, too.
  void listen(const std::function<std::uint64_t(std::uint64_t peer)>& received_bytes);
  void disconnected(std::uint64_t peer);
  // The node is lost from now on. REQUIRES: it is not connected.
  void lose(const std::string& node);
  // Whether no further job is placed on the node of this peer; true where that has changed.
  bool bar(std::uint64_t peer, bool barred);
  // For so long nobody listened: that is no silence of theirs.
  void stood_still(Nanoseconds time);
  // True where that is news.
  bool said_kill_switch(std::uint64_t peer, bool thrown);
  // Nodes that serve this tenant, and whose kill switch is thrown.
  [[nodiscard]] std::set<std::string> kill_switches(const std::string& tenant) const;
  // Nodes that have just become lost.
  [[nodiscard]] std::vector<std::string> expire();
  // By the rule of kUnusedKept: whose names these are nobody knows any more.
  [[nodiscard]] std::vector<std::string> forget_unused();

  // Whether another node that is connected has this node's instance: one is a copy of the other.
  [[nodiscard]] bool is_copy(const std::string& node) const;

  [[nodiscard]] const Member* by_peer(std::uint64_t peer) const;
  [[nodiscard]] const Member* by_node(const std::string& node) const;
  [[nodiscard]] const std::map<std::string, Member>& members() const { return members_; }

  // Whether jobs of this tenant may run there. A node that nobody knows serves nobody.
  [[nodiscard]] bool serves(const std::string& node, const std::string& tenant) const;

  // What a run of a job has, so that no other job is placed on it unasked, and its nodes' names stay their tokens'; no
  // nodes: nothing any more. Without `devices` (which are a scheduler's, or their user's) it is the names alone.
  void hold(std::int64_t run, const OwnedJob& job, const std::vector<NodeShare>& nodes, bool devices = true);

  // Devices of nodes that serve the tenant and that no other run holds, or any where the job shares: those of the
  // hardware fingerprint that most of them have first, and in order of node name. Empty when the live ones have too
  // few.
  [[nodiscard]] std::optional<Placement> place(const Job& job, const std::string& tenant, std::int64_t run = 0) const;
  // What a job that finds too few devices is told where others are there: those that other jobs hold (told_jobs()),
  // those of other tenants' nodes. Empty = there are no others.
  [[nodiscard]] std::string kept_from(const Job& job, const std::string& tenant, std::int64_t run = 0) const;
  // Nodes in order of name that could join those that the job has, up to the devices that it asked for. Nothing when
  // there are none, or one of the job's own is away.
  [[nodiscard]] std::optional<LargerPlacement> place_more(const Job& job, const std::string& tenant,
                                                          const std::vector<NodeShare>& present,
                                                          std::int64_t run = 0) const;

 private:
  struct Held {
    OwnedJob job;
    std::vector<NodeShare> nodes;
    bool devices = true;
  };
  struct Taken {
    std::int32_t devices = 0;
    std::int32_t shares = 0;
  };
  void take(const Held& held, std::int32_t sign);
  // Of the node's devices, for a run of the job.
  [[nodiscard]] std::int32_t free_devices(const Member& member, const Job& job, std::int64_t run) const;
  [[nodiscard]] std::string held_from(const Job& job, const std::string& tenant, std::int64_t run) const;
  [[nodiscard]] std::vector<std::pair<std::string, const Member*>> by_hardware(const std::string& tenant) const;
  [[nodiscard]] Member* at(std::uint64_t peer) const;
  [[nodiscard]] Result<std::string> make_room_for(const std::string& node);

  const Clock& clock_;
  Nanoseconds node_timeout_;
  std::size_t most_nodes_;
  NodeNames names_;
  std::map<std::string, Member> members_;
  std::map<std::int64_t, Held> held_;                 // by run
  std::map<std::string, Taken> taken_;                // by those together, by node
  std::unordered_map<std::uint64_t, Member*> peers_;  // those that are connected
};

}  // namespace trimtab::coordinator
