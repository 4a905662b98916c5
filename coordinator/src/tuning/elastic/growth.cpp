// Nodes that join: an elastic job that has fewer devices than it asked for is begun anew on more of them when a plan
// for these promises enough, and goes back when that was no better.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/elastic/elastic.hpp"
#include "tuning/search/search_task.hpp"
#include "tuning/trial/gains.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kCrashes = 2;  // on more nodes, before the job goes back

}  // namespace

std::int32_t ranks_on(const std::vector<NodeShare>& nodes) {
  std::int32_t ranks = 0;
  for (const NodeShare& share : nodes) ranks += share.ranks;
  return ranks;
}

bool Elastic::takes_nodes() const {
  const TuningState& state = view_.state;
  const bool searches = searches_.is_asked(SearchFor::kSpare) || searches_.is_asked(SearchFor::kMoreNodes);
  const bool fewer = state.world_size() < state.job.world_size;
  return state.job.elastic && view_.is_calm() && view_.may_retune() && fewer && !searches;
}

void Elastic::offered(const NodesOffered& offered) {
  const bool forbidden = std::any_of(offered.nodes.begin(), offered.nodes.end(), [this](const NodeShare& share) {
    return view_.thrown.nodes.contains(share.node);
  });
  if (forbidden || !takes_nodes()) return;
  const std::string joined = "node " + offered.joined + " has joined";
  out_.changed = true;
  if (!offered.refusal.empty()) {
    return out_.note("ranks", joined + " and is not used: " + offered.refusal);
  }
  if (view_.state.job.mode != JobMode::kAuto) {
    return out_.note("ranks", joined + ": a job in mode auto would try to run on " +
                                  std::to_string(ranks_on(offered.nodes)) + " devices again");
  }
  out_.note("ranks", joined + (offered.remark.empty() ? "" : " (" + offered.remark + ")") + ": a plan for " +
                         std::to_string(ranks_on(offered.nodes)) + " devices is searched");
  offer_ = offered;
  searches_.ask(SearchFor::kMoreNodes, out_);
}

SearchTask Elastic::growth_task() const {
  SearchTask task = task_on(view_.state, offer_.cluster);
  for (const auto& [device, share] : offer_.slow_devices) task.slow_devices[device] = share;
  return task;
}

const PricedPlan* Elastic::take_growth(const SearchReply& reply) {
  const PricedPlan* const best = fastest(reply);
  out_.changed = true;
  if (best == nullptr) {
    out_.note("ranks", "node " + offer_.joined +
                           " is not used, no plan does: " + (reply.error.empty() ? reply.infeasible : reply.error));
    return nullptr;
  }
  const double now_ms = view_.state.incumbent_measured.mean_ms;
  const double hoped_ms = (now_ms - best->predicted.low_ms) * static_cast<double>(view_.state.remaining_steps());
  const std::string promise =
      "predicted at " + format_ms(best->predicted.mean_ms) + " a step beside " + format_ms(now_ms) + " measured now";
  // There, and back if it is no better.
  const double cost_ms = 2 * view_.state.launch_ms;
  if (now_ms <= 0 || hoped_ms <= cost_ms || !takes_nodes()) {
    out_.note("ranks", "node " + offer_.joined + " is not used: the best plan for it is " + promise +
                           ", which over the steps that are left does not pay for two launches of " +
                           format_ms(view_.state.launch_ms));
    return nullptr;
  }
  out_.note("plan",
            "the job is begun anew on " + std::to_string(ranks_on(offer_.nodes)) + " devices to try a plan " + promise,
            best->plan.json);
  out_.decide("begin anew on " + std::to_string(ranks_on(offer_.nodes)) + " devices",
              "node " + offer_.joined + " has joined; " + promise);
  return best;
}

std::string Elastic::judge_growth(const Measured& now) {
  const Measured& before = known_.before.measured;
  const Ratio gain = compare_apart(before, now, view_.state.noise);
  const std::string beside =
      format_ms(now.mean_ms) + " a step beside " + format_ms(before.mean_ms) + " without, " + words(gain);
  Resize& last = known_.resizes.back();
  if (gain.low <= 1 && !view_.held()) return "it is not surely faster with " + last.joined + ": " + beside;
  out_.note("ranks", "node " + last.joined + " stays with the job: " + beside);
  last.outcome = "kept";
  known_.before = {};
  return "";
}

bool Elastic::gives_up_growth(std::int32_t crashes) const {
  return view_.state.has_grown() && crashes >= kCrashes;
}

// The nodes that were there before are; the joined ones are not waited for.
bool Elastic::lost_what_joined() const {
  return view_.state.has_grown() && std::ranges::none_of(known_.before.nodes, [this](const NodeShare& share) {
           return view_.lost.contains(share.node);
         });
}

Before Elastic::leave_growth(const std::string& why) {
  known_.resizes.back().outcome = "left: " + why;
  return std::exchange(known_.before, {});
}

}  // namespace trimtab::coordinator
