#include "tuning/elastic/resizing.hpp"

#include <algorithm>
#include <utility>

#include "base/text_parts.hpp"

namespace trimtab::coordinator {

// The job begins anew on what is left, from its last snapshot, with the plan that was kept ready. Plans, steps and
// costs of trials were of another cluster; what was learnt about costs stays.
Next Resizing::shrink() {
  const Elastic::Left left = m_.elastic.what_is_left();
  const Spare spare = m_.state.elastic.spare;
  const std::int32_t devices = left.cluster.devices();
  const std::string lost = "node " + joined(m_.lost) + " did not come back";
  m_.out.note("ranks",
              lost + " within the deadline: the job goes on without, on " + std::to_string(devices) +
                  " devices and the plan that was kept ready",
              spare.plan.json);
  m_.out.decide("go on with " + std::to_string(devices) + " devices", lost);
  if (m_.state.has_trial()) m_.fail_trial(FailureReason::kAgentLost, lost, false);
  m_.state.hardware.slow_devices = left.slow_devices;
  m_.elastic.add_resize({m_.state.step, joined(m_.lost), devices, spare.plan.hash, ""});
  std::erase_if(m_.state.nodes, [&](const NodeShare& share) { return m_.lost.contains(share.node); });
  m_.commands.forget_of(m_.lost);
  m_.lost.clear();
  m_.state.ranks = 0;
  for (NodeShare& share : m_.state.nodes)
    share.first_rank = std::exchange(m_.state.ranks, m_.state.ranks + share.ranks);
  m_.state.cluster = left.cluster;
  m_.state.elastic.before = {};
  m_.overhead.begin_anew();
  begin_anew(spare.plan, spare.predicted);
  return {Next::kBeginAnew};
}

Next Resizing::grow(const PricedPlan& best) {
  const NodesOffered& offer = m_.elastic.offer();
  m_.state.elastic.before = {m_.state.nodes,
                             m_.state.cluster,
                             m_.state.ranks,
                             m_.state.incumbent,
                             m_.state.incumbent_predicted,
                             m_.state.incumbent_measured,
                             m_.state.hardware.slow_devices};
  m_.state.nodes = offer.nodes;
  m_.state.cluster = offer.cluster;
  for (const auto& [device, share] : offer.slow_devices) m_.state.hardware.slow_devices[device] = share;
  m_.state.ranks = ranks_on(m_.state.nodes);
  m_.elastic.add_resize({m_.state.step, "", m_.state.ranks, best.plan.hash, offer.joined});
  begin_anew(best.plan, best.predicted);
  m_.overhead.begin_growth();
  return {Next::kBeginAnew};
}

// Ranks are yet to be launched there.
void Resizing::begin_anew(const PlanText& plan, const Predicted& predicted) {
  m_.assembly = StepAssembly(m_.state.world_size());
  m_.begin_anew(plan, predicted);
  m_.state.crashes.clear();
}

Next Resizing::go_back(const std::string& why) {
  m_.out.note("ranks", "the job goes back to the nodes that it ran on before: " + why,
              m_.state.elastic.before.plan.json);
  m_.out.decide("go back to " + std::to_string(ranks_on(m_.state.elastic.before.nodes)) + " devices", why);
  if (m_.state.has_trial()) m_.fail_trial(FailureReason::kResized, "the job goes back to fewer nodes", false);
  const Before before = m_.elastic.leave_growth(why);
  // Ranks are ended wherever they run, and launched where they did before.
  launch_.kill(AfterKill::kRelaunch);
  m_.commands.forget_of(m_.lost);
  m_.lost.clear();
  m_.state.nodes = before.nodes;
  m_.state.cluster = before.cluster;
  m_.state.ranks = before.ranks;
  m_.state.hardware.slow_devices = before.slow_devices;
  begin_anew(before.plan, before.predicted);
  m_.overhead.begin_growth();
  return {Next::kBack};
}

}  // namespace trimtab::coordinator
