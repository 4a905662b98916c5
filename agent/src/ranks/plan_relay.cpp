#include "ranks/plan_relay.hpp"

#include "ranks/rank_frame.hpp"

namespace trimtab::agent {

namespace {

// The coordinator has one change in flight; an older epoch is of use only to name what a rank still runs.
constexpr std::size_t kProposalsKept = 8;

}  // namespace

std::string PlanRelay::propose(const std::string& job, std::uint64_t epoch, const std::string& plan_json,
                               bool incumbent, const std::string& target_config) {
  auto& proposals = jobs_[job].proposals;
  Proposal& proposal = proposals[epoch];
  if (proposal.plan_json != plan_json) proposal = {plan_json, false, std::nullopt, false};
  proposal.incumbent = incumbent;
  proposal.cancelled = false;
  proposal.target_config = target_config;
  std::string frame = frame_of(epoch, proposal);
  while (proposals.size() > kProposalsKept) proposals.erase(proposals.begin());
  return frame;
}

std::string PlanRelay::frame_of(std::uint64_t epoch, const Proposal& proposal) {
  return plan_propose_frame(epoch, proposal.plan_json, proposal.incumbent, proposal.target_config);
}

std::string PlanRelay::commit(const std::string& job, std::uint64_t epoch, std::int64_t step) {
  auto& proposals = jobs_[job].proposals;
  if (const auto found = proposals.find(epoch); found != proposals.end()) found->second.commit_step = step;
  return plan_commit_frame(epoch, step);
}

std::string PlanRelay::cancel(const std::string& job, std::uint64_t epoch) {
  auto& proposals = jobs_[job].proposals;
  if (const auto found = proposals.find(epoch); found != proposals.end()) found->second.cancelled = true;
  return plan_cancel_frame(epoch);
}

std::map<std::string, std::vector<std::string>> PlanRelay::cancel_trials() {
  std::map<std::string, std::vector<std::string>> frames;
  for (auto& [job, pending] : jobs_) {
    for (auto& [epoch, proposal] : pending.proposals) {
      if (proposal.incumbent || proposal.cancelled) continue;
      proposal.cancelled = true;
      frames[job].push_back(plan_cancel_frame(epoch));
    }
  }
  return frames;
}

std::string PlanRelay::stop(const std::string& job, std::int64_t step) {
  jobs_[job].stop_step = step;
  return stop_frame(step);
}

std::vector<std::string> PlanRelay::missed(const std::string& job, std::uint64_t epoch) const {
  std::vector<std::string> frames;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return frames;
  for (const auto& [proposed, proposal] : found->second.proposals) {
    if (proposed == epoch && proposal.incumbent) frames.push_back(frame_of(epoch, proposal));
    if (proposed <= epoch) continue;
    // The rank may hold a proposal whose cancellation it missed.
    if (proposal.cancelled) {
      frames.push_back(plan_cancel_frame(proposed));
      continue;
    }
    frames.push_back(frame_of(proposed, proposal));
    if (proposal.commit_step) frames.push_back(plan_commit_frame(proposed, *proposal.commit_step));
  }
  if (found->second.stop_step) frames.push_back(stop_frame(*found->second.stop_step));
  return frames;
}

const std::string* PlanRelay::plan(const std::string& job, std::uint64_t epoch) const {
  const auto pending = jobs_.find(job);
  if (pending == jobs_.end()) return nullptr;
  const auto proposal = pending->second.proposals.find(epoch);
  return proposal == pending->second.proposals.end() ? nullptr : &proposal->second.plan_json;
}

}  // namespace trimtab::agent
