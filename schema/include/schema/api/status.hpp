#pragma once

// The coordinator, its nodes and its jobs (GET /v1/status, GET /v1/nodes).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/api/fields.hpp"
#include "schema/api/job.hpp"

namespace trimtab::api {

struct Node {
  std::string name;
  std::string state;
  std::int64_t devices = 0;
  std::int64_t memory_bytes = 0;
  std::string fingerprint;
  std::string release;
  bool kill_switch = false;
  std::string tenant = "*";
  double silent_s = 0;
  std::optional<std::string> instance;

  static constexpr void fields(auto&& visit) {
    visit("name", &Node::name, Presence::kAlways, "");
    visit("state", &Node::state, Presence::kAlways, "\"connected\", \"disconnected\" or \"lost\".");
    visit("devices", &Node::devices, Presence::kUsual, "");
    visit("memory_bytes", &Node::memory_bytes, Presence::kUsual, "Of each device.");
    visit("fingerprint", &Node::fingerprint, Presence::kUsual, "Hash of its hardware's.");
    visit("release", &Node::release, Presence::kUsual, "Of its agent.");
    visit("kill_switch", &Node::kill_switch, Presence::kUsual, "Thrown.");
    visit("tenant", &Node::tenant, Presence::kUsual, "Whose jobs alone run there; \"*\": everybody's.");
    visit("silent_s", &Node::silent_s, Presence::kUsual, "Since it was heard of last.");
    visit("instance", &Node::instance, Presence::kIfAny, "Of its agent; for those who see all tenants.");
  }
};

struct Nodes {
  std::vector<Node> nodes;

  static constexpr void fields(auto&& visit) { visit("nodes", &Nodes::nodes, Presence::kNeeded, ""); }
};

struct ClusterStatus {
  std::string release;
  std::int64_t protocol_version = 0;
  double uptime_s = 0;
  std::optional<std::string> storage_failure;
  std::vector<Node> nodes;
  std::vector<JobSummary> jobs;

  static constexpr void fields(auto&& visit) {
    visit("release", &ClusterStatus::release, Presence::kAlways, "");
    visit("protocol_version", &ClusterStatus::protocol_version, Presence::kUsual, "The newest that it speaks.");
    visit("uptime_s", &ClusterStatus::uptime_s, Presence::kUsual, "");
    visit("storage_failure", &ClusterStatus::storage_failure, Presence::kIfAny,
          "Why nothing can be stored now, and what to do.");
    visit("nodes", &ClusterStatus::nodes, Presence::kNeeded, "");
    visit("jobs", &ClusterStatus::jobs, Presence::kNeeded, "");
  }
};

// Why a request was turned down: the body of every answer that is no success.
struct Refusal {
  std::string error;

  static constexpr void fields(auto&& visit) { visit("error", &Refusal::error, Presence::kNeeded, "For people."); }
};

}  // namespace trimtab::api
