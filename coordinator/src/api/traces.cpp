#include "api/traces.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "agents/peer_text.hpp"
#include "api/request_body.hpp"
#include "schema/api/trace.hpp"

namespace trimtab::coordinator {

namespace {

using nlohmann::json;

constexpr double kMostSeconds = 600;
constexpr std::uint32_t kMostSteps = 10'000;
constexpr int kMostRanks = 1024;
constexpr std::size_t kLongestRemark = 256;

api::TracedRank document_of(const wire::TracedRank& rank) {
  return {rank.rank(),      rank.records(), rank.dropped(), rank.ring_dropped(),
          rank.truncated(), rank.steps(),   rank.remark()};
}

// A node has no more ranks, and they say no more.
wire::TraceEnd kept_of(const wire::TraceEnd& end) {
  wire::TraceEnd kept;
  kept.set_id(end.id());
  for (int i = 0; i < std::min(end.ranks_size(), kMostRanks); ++i) {
    wire::TracedRank& rank = *kept.add_ranks();
    rank = end.ranks(i);
    rank.set_remark(first_of(end.ranks(i).remark(), kLongestRemark));
  }
  return kept;
}

}  // namespace

Result<TraceRequest> parse_trace_request(const std::string& body) {
  TRIMTAB_TRY(const json document, parse_body(body, R"(a trace needs {"seconds": 5} or {"steps": 3})"));
  const bool by_seconds = document.contains("seconds");
  const bool by_steps = document.contains("steps");
  if (by_seconds == by_steps) return bad_input("a trace needs either seconds or steps");
  TraceRequest request;
  if (by_seconds) {
    const json& seconds = document["seconds"];
    request.seconds = seconds.is_number() ? seconds.get<double>() : 0;
    if (!(request.seconds > 0 && request.seconds <= kMostSeconds)) {
      return bad_input("seconds: expected a number above 0, at most 600, found " + seconds.dump());
    }
    return request;
  }
  const json& steps = document["steps"];
  const bool usable =
      steps.is_number_unsigned() && steps.get<std::uint64_t>() >= 1 && steps.get<std::uint64_t>() <= kMostSteps;
  if (!usable) return bad_input("steps: expected an integer from 1 to 10000, found " + steps.dump());
  request.steps = steps.get<std::uint32_t>();
  return request;
}

Result<std::uint64_t> Traces::start(const std::string& job, const std::vector<std::string>& nodes,
                                    const TraceRequest& request, const NodeOffsets& clocks) {
  if (traces_.size() >= kMost) return no("there are " + std::to_string(kMost) + " traces already; try again later");
  for (const auto& [id, trace] : traces_) {
    if (trace.job == job) return no("job " + job + " is being traced already (trace " + std::to_string(id) + ")");
  }
  // Agents that outlived an earlier coordinator must not take a new trace for one that they know.
  last_ = std::max(last_ + 1, static_cast<std::uint64_t>(clock_.wall().count()));
  wire::ToAgent message;
  message.mutable_trace_start()->set_id(last_);
  message.mutable_trace_start()->set_job(job);
  message.mutable_trace_start()->set_seconds(request.seconds);
  message.mutable_trace_start()->set_steps(request.steps);
  Trace trace;
  trace.job = job;
  trace.touched = clock_.monotonic();
  for (const std::string& node : nodes) {
    Node& one = trace.nodes[node];
    if (const auto known = clocks.find(node); known != clocks.end()) one.clock = known->second;
    if (send_(node, message)) continue;
    one.ended = true;
    one.remark = "the node is not connected";
  }
  if (done(trace)) return unavailable("no node of job " + job + " is connected");
  traces_.emplace(last_, std::move(trace));
  return last_;
}

bool Traces::chunk(const std::string& node, const wire::TraceChunk& chunk, std::string frame) {
  const auto found = traces_.find(chunk.id());
  if (found == traces_.end()) return true;
  Trace& trace = found->second;
  if (chunk.node() != node || !trace.nodes.contains(node)) return false;
  if (trace.bytes + frame.size() > kMostBytes) {
    trace.dropped += static_cast<std::uint64_t>(chunk.records_size());
    return true;
  }
  trace.bytes += frame.size();
  trace.chunks.push_back(std::move(frame));
  return true;
}

bool Traces::ended(const std::string& node, const wire::TraceEnd& end) {
  const auto trace = traces_.find(end.id());
  if (trace == traces_.end()) return true;
  const auto found = trace->second.nodes.find(node);
  if (end.node() != node || found == trace->second.nodes.end()) return false;
  found->second.ended = true;
  found->second.account = kept_of(end);
  return true;
}

void Traces::node_gone(const std::string& node) {
  for (auto& [id, trace] : traces_) {
    const auto found = trace.nodes.find(node);
    if (found == trace.nodes.end() || found->second.ended) continue;
    found->second.ended = true;
    found->second.remark = "the node was lost";
  }
}

void Traces::tick() {
  const Nanoseconds now = clock_.monotonic();
  for (auto trace = traces_.begin(); trace != traces_.end();) {
    const bool abandoned = now - trace->second.touched > kAbandonedAfter;
    if (abandoned) stop(trace->first, trace->second);
    trace = abandoned ? traces_.erase(trace) : std::next(trace);
  }
}

void Traces::stop(std::uint64_t id, const Trace& trace) {
  wire::ToAgent message;
  message.mutable_trace_stop()->set_id(id);
  for (const auto& [name, node] : trace.nodes) {
    // A node that was lost may be back, and still record.
    if (node.account.id() == 0) (void)send_(name, message);
  }
}

bool Traces::done(const Trace& trace) {
  return std::ranges::all_of(trace.nodes, [](const auto& node) { return node.second.ended; });
}

std::optional<std::string> Traces::job_of(std::uint64_t id) const {
  const auto found = traces_.find(id);
  return found == traces_.end() ? std::nullopt : std::optional(found->second.job);
}

void Traces::wanted(std::uint64_t id) {
  const auto found = traces_.find(id);
  if (found != traces_.end()) found->second.touched = clock_.monotonic();
}

std::optional<std::string> Traces::document(std::uint64_t id) const {
  const auto found = traces_.find(id);
  if (found == traces_.end()) return std::nullopt;
  const Trace& trace = found->second;
  api::Trace document{id,
                      trace.job,
                      done(trace) ? api::TraceState::kDone : api::TraceState::kRunning,
                      trace.first + trace.chunks.size(),
                      trace.dropped,
                      {}};
  for (const auto& [name, node] : trace.nodes) {
    api::TracedNode& one = document.nodes.emplace_back();
    one.node = name;
    one.ended = node.ended;
    one.remark = node.remark;
    if (node.clock) {
      one.clock_ahead_ns = node.clock->ns;
      one.clock_unsure_ns = node.clock->uncertainty_ns;
    }
    for (const wire::TracedRank& rank : node.account.ranks()) one.ranks.push_back(document_of(rank));
  }
  return api::to_json(document);
}

Result<std::optional<std::string>> Traces::fetch(std::uint64_t id, std::uint64_t number) {
  const auto found = traces_.find(id);
  if (found == traces_.end()) return std::optional<std::string>();
  Trace& trace = found->second;
  trace.touched = clock_.monotonic();
  const std::uint64_t next = trace.first + trace.chunks.size();
  if (number > next) {
    return bad_input("number: chunk " + std::to_string(number) + " is asked for, but " + std::to_string(next) +
                     " chunks have come so far: ask for them in their order, from 0");
  }
  while (trace.first < number && !trace.chunks.empty()) {
    trace.bytes -= trace.chunks.front().size();
    trace.chunks.pop_front();
    ++trace.first;
  }
  return std::optional(trace.first == number && !trace.chunks.empty() ? trace.chunks.front() : std::string());
}

bool Traces::finish(std::uint64_t id) {
  const auto found = traces_.find(id);
  if (found == traces_.end()) return false;
  stop(id, found->second);
  traces_.erase(found);
  return true;
}

}  // namespace trimtab::coordinator
