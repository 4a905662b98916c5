#include "api/traces.hpp"

#include <algorithm>
#include <utility>

#include "agents/peer_text.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// A node has no more ranks, and they say no more.
constexpr int kMostRanks = 1024;
constexpr std::size_t kLongestRemark = 256;

api::TracedRank document_of(const wire::TracedRank& rank) {
  return {rank.rank(),
          rank.records(),
          rank.dropped(),
          rank.ring_dropped(),
          rank.truncated(),
          rank.steps(),
          first_of(rank.remark(), kLongestRemark)};
}

// Nothing for one that takes no part.
api::TracedNode* node_of(api::Trace& trace, const std::string& name) {
  const auto found = std::ranges::find(trace.nodes, name, &api::TracedNode::node);
  return found == trace.nodes.end() ? nullptr : &*found;
}

bool is_done(const api::Trace& trace) {
  return std::ranges::all_of(trace.nodes, &api::TracedNode::ended);
}

}  // namespace

Status Traces::check_room(const Whose& whose) const {
  if (traces_.size() >= kMost) return no("there are " + std::to_string(kMost) + " traces already; try again later");
  std::size_t of_tenant = 0;
  for (const auto& [id, trace] : traces_) {
    if (trace.document.job == whose.job)
      return no("job " + whose.job + " is being traced already (trace " + std::to_string(id) + ")");
    if (trace.tenant == whose.tenant) ++of_tenant;
  }
  if (of_tenant < kMostOfTenant) return {};
  return no("there are " + std::to_string(kMostOfTenant) + " traces of tenant " + whose.tenant +
            " already, which leaves one for others; try again later");
}

Result<std::uint64_t> Traces::start(const Whose& whose, const std::vector<std::string>& nodes,
                                    const TraceRequest& request, const NodeOffsets& clocks) {
  TRIMTAB_TRY_STATUS(check_room(whose));
  const std::string& job = whose.job;
  // Agents that outlived an earlier coordinator must not take a new trace for one that they know.
  last_ = std::max(last_ + 1, static_cast<std::uint64_t>(clock_.wall().count()));
  wire::ToAgent message;
  message.mutable_trace_start()->set_id(last_);
  message.mutable_trace_start()->set_job(job);
  message.mutable_trace_start()->set_seconds(request.seconds);
  message.mutable_trace_start()->set_steps(request.steps);
  Trace trace;
  trace.tenant = whose.tenant;
  trace.document.trace = last_;
  trace.document.job = job;
  trace.touched = clock_.monotonic();
  trace.recording = {nodes.begin(), nodes.end()};
  for (const std::string& node : nodes) {
    api::TracedNode& one = trace.document.nodes.emplace_back();
    one.node = node;
    if (const auto known = clocks.find(node); known != clocks.end()) {
      one.clock_ahead_ns = known->second.ns;
      one.clock_unsure_ns = known->second.uncertainty_ns;
    }
    if (send_(node, message)) continue;
    one.ended = true;
    one.remark = "the node is not connected";
  }
  std::ranges::sort(trace.document.nodes, {}, &api::TracedNode::node);
  if (is_done(trace.document)) return unavailable("no node of job " + job + " is connected");
  traces_.emplace(last_, std::move(trace));
  return last_;
}

bool Traces::chunk(const std::string& node, const wire::TraceChunk& chunk, std::string frame) {
  const auto found = traces_.find(chunk.id());
  if (found == traces_.end()) return true;
  Trace& trace = found->second;
  if (chunk.node() != node || node_of(trace.document, node) == nullptr) return false;
  if (trace.bytes + frame.size() > kMostBytes) {
    trace.document.dropped += static_cast<std::uint64_t>(chunk.records_size());
    return true;
  }
  trace.bytes += frame.size();
  trace.chunks.push_back(std::move(frame));
  return true;
}

bool Traces::ended(const std::string& node, const wire::TraceEnd& end) {
  const auto trace = traces_.find(end.id());
  if (trace == traces_.end()) return true;
  api::TracedNode* const one = node_of(trace->second.document, node);
  if (end.node() != node || one == nullptr) return false;
  trace->second.recording.erase(node);
  one->ended = true;
  one->ranks.clear();
  for (int i = 0; i < std::min(end.ranks_size(), kMostRanks); ++i) one->ranks.push_back(document_of(end.ranks(i)));
  return true;
}

void Traces::node_gone(const std::string& node) {
  for (auto& [id, trace] : traces_) {
    api::TracedNode* const one = node_of(trace.document, node);
    if (one == nullptr || one->ended) continue;
    one->ended = true;
    one->remark = "the node was lost";
  }
}

void Traces::tick() {
  const Nanoseconds now = clock_.monotonic();
  for (auto trace = traces_.begin(); trace != traces_.end();) {
    const bool abandoned = now - trace->second.touched > kAbandonedAfter;
    if (abandoned) stop(trace->second);
    trace = abandoned ? traces_.erase(trace) : std::next(trace);
  }
}

void Traces::stop(const Trace& trace) {
  wire::ToAgent message;
  message.mutable_trace_stop()->set_id(trace.document.trace);
  for (const std::string& node : trace.recording) (void)send_(node, message);
}

std::optional<std::string> Traces::job_of(std::uint64_t id) const {
  const auto found = traces_.find(id);
  return found == traces_.end() ? std::nullopt : std::optional(found->second.document.job);
}

void Traces::wanted(std::uint64_t id) {
  const auto found = traces_.find(id);
  if (found != traces_.end()) found->second.touched = clock_.monotonic();
}

std::optional<std::string> Traces::document(std::uint64_t id) const {
  const auto found = traces_.find(id);
  if (found == traces_.end()) return std::nullopt;
  api::Trace document = found->second.document;
  document.state = is_done(document) ? api::TraceState::kDone : api::TraceState::kRunning;
  document.chunks = found->second.first + found->second.chunks.size();
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
  stop(found->second);
  traces_.erase(found);
  return true;
}

}  // namespace trimtab::coordinator
