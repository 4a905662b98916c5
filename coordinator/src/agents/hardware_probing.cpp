#include "agents/hardware_probing.hpp"

#include <spdlog/spdlog.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <utility>

#include "agents/peer_text.hpp"
#include "agents/wire_events.hpp"
#include "base/check.hpp"
#include "base/numbers.hpp"
#include "net/host_text.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr int kMostDevices = 1024;  // of one node
constexpr int kMostFaults = 64;

bool is_sane(double value) {
  return std::isfinite(value) && value > 0;
}

double sane_share(double share) {
  return std::isfinite(share) && share >= 0 ? std::min(share, 1.0) : 0;
}

Probe link_probe(const std::string& node, const std::string& peer, bool inside, const wire::ProbedLink& link) {
  Probe probe;
  probe.node = node;
  probe.peer = peer;
  probe.level = inside ? "intra_node" : "inter_node";
  probe.ms = kProbedLinkBytes / link.bytes_per_s() * 1e3;
  probe.spread = sane_share(link.spread());
  if (link.has_capacity() && is_sane(link.capacity().bytes_per_s())) {
    probe.shared_ms = std::exchange(probe.ms, kProbedLinkBytes / link.capacity().bytes_per_s() * 1e3);
    probe.shared_spread = std::exchange(probe.spread, sane_share(link.capacity().spread()));
    probe.used = sane_share(link.capacity().used());
  }
  if (is_sane(link.round_trip_us())) probe.round_trip_ms = link.round_trip_us() * 1e-3;
  if (probe.round_trip_ms > 0) probe.remark = "round trip " + format_number(link.round_trip_us(), 0) + " us";
  return probe;
}

// A GPU's number counts within its node; all devices of a CPU node are the same CPUs.
Probe device_probe(const NodeShare& share, const wire::ProbedDevice& device) {
  Probe probe;
  probe.device = share.first_rank + static_cast<std::int32_t>(device.device());
  probe.node = share.node;
  probe.work = first_of(device.work(), kLongestReason);
  probe.ms = device.ms();
  probe.spread = sane_share(device.spread());
  probe.remark = first_of(device.remark(), kLongestReason);
  return probe;
}

// Nothing where the agent is not sure enough.
std::optional<LinkFault> link_fault(const NodeShare& share, const wire::LinkFault& told) {
  if (!(told.confidence() >= kNamedFrom && told.confidence() <= 1)) return std::nullopt;
  LinkFault fault;
  fault.node = share.node;
  fault.link = first_of(told.link(), kLongestReason);
  fault.reading = first_of(told.reading(), kLongestReason);
  fault.what = first_of(told.what(), kLongestReason);
  fault.confidence = told.confidence();
  if (told.device() >= 0 && told.device() < share.ranks) fault.device = share.first_rank + told.device();
  fault.within = told.within();
  fault.across = told.across();
  return fault;
}

}  // namespace

std::string interface_of(const Job& job) {
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const auto found = job.environment.find(name);
    if (found == job.environment.end() || found->second.empty()) continue;
    std::string interface = found->second.substr(0, found->second.find(','));
    if (interface.starts_with('^')) return "";
    if (interface.starts_with('=')) interface.erase(0, 1);
    return interface;
  }
  return "";
}

void HardwareProbing::probe(Wanted wanted, Done done) {
  queue_.push_back({std::move(wanted), std::move(done)});
  begin_next();
}

void HardwareProbing::begin_next() {
  while (!running_ && !queue_.empty()) {
    Running next;
    next.request = std::move(queue_.front());
    queue_.pop_front();
    running_ = std::move(next);
    begin(*running_);
  }
}

void HardwareProbing::begin(Running& running) {
  running.id = ++last_id_;
  running.since = clock_.monotonic();
  running.end = clock_.monotonic() + kProbeLimit;
  running.stage_end = clock_.monotonic() + kProbeStage;
  const std::string token = token_();
  for (const NodeShare& share : running.request.wanted.nodes) {
    wire::ToAgent order;
    wire::ProbeBegin& begin = *order.mutable_probe_begin();
    begin.set_id(running.id);
    begin.set_job(running.request.wanted.job);
    begin.set_token(token);
    begin.set_interface(running.request.wanted.interface);
    begin.set_deadline_s(std::chrono::duration<double>(kProbeLimit).count());
    begin.set_devices(true);
    if (send_(share.node, order)) {
      running.unanswered.insert(share.node);
    } else {
      running.problems.push_back("node " + share.node + " is not connected");
    }
  }
  if (running.unanswered.empty()) finish();
}

void HardwareProbing::report(const std::string& node, const wire::ProbeReport& report) {
  if (!running_ || report.id() != running_->id) return;
  if (report.has_link()) return link_came(node, report);
  if (running_->unanswered.erase(node) == 0) return;
  if (!report.error().empty())
    running_->problems.push_back("node " + node + ": " + first_of(report.error(), kLongestReason));
  const auto share = std::ranges::find(running_->request.wanted.nodes, node, &NodeShare::node);
  running_->begun[node] = begun_of(*share, report);
  if (running_->unanswered.empty()) choose_links();
}

HardwareProbing::Begun HardwareProbing::begun_of(const NodeShare& share, const wire::ProbeReport& report) {
  Begun begun;
  for (int i = 0; i < std::min(report.devices_size(), kMostDevices); ++i) {
    const wire::ProbedDevice& device = report.devices(i);
    if (!is_sane(device.ms()) || std::cmp_greater_equal(device.device(), share.ranks)) continue;
    begun.devices.push_back(device_probe(share, device));
  }
  for (int i = 0; i < std::min(report.faults_size(), kMostFaults); ++i) {
    if (auto fault = link_fault(share, report.faults(i))) begun.faults.push_back(std::move(*fault));
  }
  std::vector<Endpoint>& found = begun.endpoints;
  for (const wire::ProbeEndpoint& one : report.endpoints()) {
    if (one.ranks().empty() || std::cmp_greater(one.ranks_size(), share.ranks)) continue;
    // Another node's agent connects to it.
    if (one.port() == 0 || one.port() > 65'535 || !net::is_host_text(one.address())) continue;
    if (std::cmp_greater(found.size(), share.ranks)) continue;
    found.push_back(
        {share.node, share.node, {one.ranks().begin(), one.ranks().end()}, one.address(), one.port(), one.counts()});
  }
  std::sort(found.begin(), found.end(),
            [](const Endpoint& a, const Endpoint& b) { return a.ranks.front() < b.ranks.front(); });
  for (Endpoint& one : found) {
    if (found.size() > 1) one.name += " rank " + std::to_string(one.ranks.front());
  }
  return begun;
}

// Between neighbours, and inside of networks with several ranks.
void HardwareProbing::choose_links() {
  Running& running = *running_;
  for (const NodeShare& share : running.request.wanted.nodes) {
    const auto found = running.begun.find(share.node);
    if (found == running.begun.end()) continue;
    std::ranges::move(found->second.devices, std::back_inserter(running.result.probes));
    std::ranges::move(found->second.faults, std::back_inserter(running.result.faults));
    std::ranges::move(found->second.endpoints, std::back_inserter(running.endpoints));
  }
  for (std::size_t i = 0; i < running.endpoints.size() && running.request.wanted.links; ++i) {
    if (running.endpoints[i].ranks.size() > 1) running.links.push_back({i, i});
    if (i + 1 < running.endpoints.size()) running.links.push_back({i, i + 1});
  }
  for (std::size_t i = 0; i < running.links.size(); ++i) running.waiting.insert(i);
  next_round();
}

void HardwareProbing::next_round() {
  Running& running = *running_;
  running.stage_end = clock_.monotonic() + kProbeStage;
  std::set<std::string> busy;
  const std::set<std::size_t> waiting = running.waiting;
  for (const std::size_t link : waiting) {
    const std::string& from = running.endpoints[running.links[link].from].node;
    const std::string& to = running.endpoints[running.links[link].to].node;
    if (busy.contains(from) || busy.contains(to)) continue;
    running.waiting.erase(link);
    if (!order(link)) continue;
    busy.insert({from, to});
    running.round.insert(link);
  }
  if (!running.round.empty()) return;
  running.waiting.empty() ? finish() : next_round();
}

bool HardwareProbing::order(std::size_t link) {
  const Endpoint& from = running_->endpoints[running_->links[link].from];
  const Endpoint& to = running_->endpoints[running_->links[link].to];
  wire::ToAgent order;
  wire::ProbeLink& wanted = *order.mutable_probe_link();
  wanted.set_id(running_->id);
  wanted.set_link(static_cast<std::uint32_t>(link));
  wanted.set_from_rank(from.ranks.front());
  wanted.set_address(to.address);
  wanted.set_port(to.port);
  wanted.set_counts(to.counts);
  if (send_(from.node, order)) return true;
  running_->problems.push_back("node " + from.node + " is not connected");
  return false;
}

void HardwareProbing::link_came(const std::string& node, const wire::ProbeReport& report) {
  const std::size_t link = report.link().link();
  const bool asked = running_->round.contains(link) && running_->endpoints[running_->links[link].from].node == node;
  if (!asked) return;
  running_->round.erase(link);
  const LinkOrder& ordered = running_->links[link];
  const Endpoint& from = running_->endpoints[ordered.from];
  const Endpoint& to = running_->endpoints[ordered.to];
  if (report.error().empty() && is_sane(report.link().bytes_per_s())) {
    const bool within = ordered.from == ordered.to;
    running_->result.probes.push_back(
        link_probe(from.name, within ? "" : to.name, from.node == to.node, report.link()));
  } else {
    running_->problems.push_back("the link of " + from.name + " to " + to.name + ": " +
                                 first_of(report.error(), kLongestReason));
  }
  if (running_->round.empty()) next_round();
}

void HardwareProbing::node_gone(const std::string& node) {
  if (!running_ || running_->unanswered.erase(node) == 0) return;
  running_->problems.push_back("node " + node + " went away");
  if (running_->unanswered.empty()) choose_links();
}

void HardwareProbing::tick() {
  if (!running_ || clock_.monotonic() < std::min(running_->stage_end, running_->end)) return;
  Running& running = *running_;
  for (const std::string& node : running.unanswered) {
    running.problems.push_back("node " + node + " did not answer; its agent may be of an earlier release");
  }
  for (const std::size_t link : running.round) {
    running.problems.push_back("the link of " + running.endpoints[running.links[link].from].name + " to " +
                               running.endpoints[running.links[link].to].name + " was not measured in time");
  }
  running.round.clear();
  if (clock_.monotonic() >= running.end) return finish();
  if (std::exchange(running.unanswered, {}).empty()) return next_round();
  choose_links();
}

void HardwareProbing::finish() {
  Running ended = std::move(*running_);
  running_.reset();
  Request& request = ended.request;
  for (const NodeShare& share : request.wanted.nodes) {
    wire::ToAgent order;
    order.mutable_probe_end()->set_id(ended.id);
    (void)send_(share.node, order);
  }
  for (const std::string& problem : ended.problems) spdlog::warn("job {}: probing: {}", request.wanted.job, problem);
  const bool told = !ended.result.probes.empty();
  if (told) request.takes.push_back(std::move(ended.result.probes));
  if (told && wants_another_take(ended)) {
    queue_.push_front(std::move(request));
    return begin_next();
  }
  HardwareProbed result{middle_of(request.takes), "", "", std::move(ended.result.faults)};
  if (result.probes.empty()) {
    result.error = ended.problems.empty() ? "agents had nothing to tell" : ended.problems.front();
  }
  request.done(std::move(result));
  begin_next();
}

bool HardwareProbing::wants_another_take(const Running& ended) const {
  const Nanoseconds now = clock_.monotonic();
  const Wanted& wanted = ended.request.wanted;
  return std::cmp_less(ended.request.takes.size(), wanted.takes) && now - ended.since <= wanted.until - now;
}

std::string probe_token() {
  constexpr std::size_t kBytes = 32;  // few enough that the kernel gives all or none
  std::string token(kBytes, '\0');
  while (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    TRIMTAB_ASSERT(errno == EINTR, "the kernel gives random bytes to whoever asks for a few");
  }
  return token;
}

}  // namespace trimtab::coordinator
