#pragma once

// A trace of a running job (docs/protocols.md, "Traces"): how far it is (GET /v1/traces/ID).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/api/fields.hpp"
#include "schema/api/words.hpp"

namespace trimtab::api {

enum class TraceState { kRunning, kDone };
[[nodiscard]] std::span<const std::string_view> words_of(TraceState state);

struct TracedRank {
  std::uint64_t rank = 0;
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  std::uint64_t ring_dropped = 0;
  bool truncated = false;
  std::uint64_t steps = 0;
  std::string remark;

  static constexpr void fields(auto&& visit) {
    visit("rank", &TracedRank::rank, Presence::kUsual, "");
    visit("records", &TracedRank::records, Presence::kUsual, "");
    visit("dropped", &TracedRank::dropped, Presence::kUsual, "On the way.");
    visit("ring_dropped", &TracedRank::ring_dropped, Presence::kUsual, "Those found their ring full.");
    visit("truncated", &TracedRank::truncated, Presence::kUsual, "It recorded more than a trace may hold.");
    visit("steps", &TracedRank::steps, Presence::kUsual, "");
    visit("remark", &TracedRank::remark, Presence::kIfAny, "");
  }
};

struct TracedNode {
  std::string node;
  bool ended = false;
  std::vector<TracedRank> ranks;
  std::string remark;
  std::optional<std::int64_t> clock_ahead_ns;
  std::optional<std::int64_t> clock_unsure_ns;

  static constexpr void fields(auto&& visit) {
    visit("node", &TracedNode::node, Presence::kUsual, "");
    visit("ended", &TracedNode::ended, Presence::kUsual, "It has sent all, or is gone.");
    visit("ranks", &TracedNode::ranks, Presence::kUsual, "");
    visit("remark", &TracedNode::remark, Presence::kIfAny, "");
    visit("clock_ahead_ns", &TracedNode::clock_ahead_ns, Presence::kIfAny,
          "Its clock less the coordinator's when the trace began, where they have been compared.", Sign::kAny);
    visit("clock_unsure_ns", &TracedNode::clock_unsure_ns, Presence::kIfAny, "The truth lies within that of it.");
  }
};

struct Trace {
  std::uint64_t trace = 0;
  std::string job;
  Word<TraceState> state;
  std::uint64_t chunks = 0;
  std::uint64_t dropped = 0;
  std::vector<TracedNode> nodes;

  static constexpr void fields(auto&& visit) {
    visit("trace", &Trace::trace, Presence::kUsual, "Its number.");
    visit("job", &Trace::job, Presence::kUsual, "");
    visit("state", &Trace::state, Presence::kUsual, "");
    visit("chunks", &Trace::chunks, Presence::kUsual, "That have come so far.");
    visit("dropped", &Trace::dropped, Presence::kUsual, "Records: who fetches them was too slow.");
    visit("nodes", &Trace::nodes, Presence::kUsual, "");
  }
};

// What is asked for (POST /v1/jobs/NAME/trace): one of the two.
struct TraceRequest {
  std::optional<double> seconds;
  std::optional<std::uint32_t> steps;

  static constexpr void fields(auto&& visit) {
    visit("seconds", &TraceRequest::seconds, Presence::kIfAny, "At most 600.");
    visit("steps", &TraceRequest::steps, Presence::kIfAny, "At most 10,000.");
  }
};

// What a trace's file says of itself, its "otherData".
struct TraceRemarks {
  std::string producer;
  std::string job;
  std::vector<std::string> remarks;
  std::string clocks;
  std::vector<TracedNode> nodes;

  static constexpr void fields(auto&& visit) {
    visit("producer", &TraceRemarks::producer, Presence::kAlways, "");
    visit("job", &TraceRemarks::job, Presence::kAlways, "");
    visit("remarks", &TraceRemarks::remarks, Presence::kAlways, "What is missing, and why.");
    visit("clocks", &TraceRemarks::clocks, Presence::kAlways, "Whose clock its times are of.");
    visit("nodes", &TraceRemarks::nodes, Presence::kAlways, "");
  }
};

}  // namespace trimtab::api
