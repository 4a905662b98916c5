#include "api/audit.hpp"

#include <variant>

namespace trimtab::coordinator {
namespace {

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  if (ranks.empty()) return "no rank";
  const std::string first = std::to_string(ranks.front());
  return ranks.size() == 1 ? "rank " + first : "ranks " + first + " to " + std::to_string(ranks.back());
}

struct Words {
  std::string operator()(const DescribeOn& one) const { return "describe the model on " + one.node; }
  std::string operator()(const BenchmarkOn& one) const {
    return "benchmark with " + ranks_text(one.ranks) + " on " + one.node;
  }
  std::string operator()(const LaunchOn& one) const {
    return "launch " + ranks_text(one.ranks) + " on " + one.node + " (launch " + std::to_string(one.launch) +
           ", epoch " + std::to_string(one.epoch) + (one.variant.empty() ? "" : ", variant " + one.variant) + ")";
  }
  std::string operator()(const KillOn& one) const {
    return "end the ranks of launch " + std::to_string(one.launch) + " on " + one.node +
           (one.unsaved ? ", which save nothing" : "");
  }
  std::string operator()(const ProposePlan& one) const {
    return std::string("propose ") + (one.incumbent ? "the incumbent" : "a plan") + " as epoch " +
           std::to_string(one.epoch);
  }
  std::string operator()(const CommitPlan& one) const {
    return "commit epoch " + std::to_string(one.epoch) + " from step " + std::to_string(one.step);
  }
  std::string operator()(const CancelPlan& one) const { return "cancel epoch " + std::to_string(one.epoch); }
  std::string operator()(const StopRanks& one) const { return "stop the job after step " + std::to_string(one.step); }
  std::string operator()(const ProbeHardware& one) const {
    return one.urgent ? "probe devices and links" : "look at devices and links";
  }
  template <typename Internal>
  std::string operator()(const Internal&) const {
    return "";
  }
};

}  // namespace

std::string audited(const Action& action) {
  return std::visit(Words(), action);
}

}  // namespace trimtab::coordinator
