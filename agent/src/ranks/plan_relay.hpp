#pragma once

// What the coordinator asked of a job's ranks and they may not have heard yet: a rank that comes back is told again.
// Pure. Bounded: the latest few proposals, one stop.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::agent {

class PlanRelay {
 public:
  // Each returns the frame for the ranks that are connected now.
  // Proposed again, an epoch keeps its commit: that its plan has become the incumbent is all that changes.
  // `target_config`: as of plan_propose_frame().
  std::string propose(const std::string& job, std::uint64_t epoch, const std::string& plan_json, bool incumbent,
                      const std::string& target_config = "");
  std::string commit(const std::string& job, std::uint64_t epoch, std::int64_t step);
  std::string cancel(const std::string& job, std::uint64_t epoch);
  std::string stop(const std::string& job, std::int64_t step);

  // A new launch of the job, or its end.
  void forget(const std::string& job) { jobs_.erase(job); }
  void forget_all_but(const std::function<bool(const std::string& job)>& is_kept) {
    std::erase_if(jobs_, [&](const auto& one) { return !is_kept(one.first); });
  }

  // The kill switch is thrown: every job's proposals but incumbents are cancelled. The frames by job.
  std::map<std::string, std::vector<std::string>> cancel_trials();

  // For a rank that connects while it runs the plan of `epoch`: what it may have missed, in order.
  [[nodiscard]] std::vector<std::string> missed(const std::string& job, std::uint64_t epoch) const;
  // The document of a proposal that is remembered, or of nothing.
  [[nodiscard]] const std::string* plan(const std::string& job, std::uint64_t epoch) const;

 private:
  struct Proposal {
    std::string plan_json;
    bool incumbent = false;
    std::optional<std::int64_t> commit_step;
    bool cancelled = false;
    std::string target_config = {};
  };
  [[nodiscard]] static std::string frame_of(std::uint64_t epoch, const Proposal& proposal);
  struct Pending {
    std::map<std::uint64_t, Proposal> proposals;  // by epoch
    std::optional<std::int64_t> stop_step;
  };
  std::map<std::string, Pending> jobs_;
};

}  // namespace trimtab::agent
