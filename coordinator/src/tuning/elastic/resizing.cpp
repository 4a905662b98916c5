// The job is begun anew on other nodes: on what is left of them, on more, or on those that it ran on before.

#include <algorithm>
#include <utility>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

bool Tuning::takes_nodes() const {
  return elastic_.takes_nodes();
}

void Tuning::on(const NodesOffered& offered) {
  if (elastic_.offered(offered)) searches_.ask(SearchFor::kMoreNodes, out_);
}

void Tuning::prepare_spare() {
  if (elastic_.prepare_spare()) searches_.ask(SearchFor::kSpare, out_);
}

void Tuning::tick_lost() {
  switch (elastic_.tick_lost(lost_at_)) {
    case Elastic::Lost::kWait:
      return;
    case Elastic::Lost::kSearch:
      return searches_.ask(SearchFor::kSpare, out_);
    case Elastic::Lost::kShrink:
      return shrink();
    case Elastic::Lost::kGoBack:
      return go_back("node " + listed(lost_) + " was lost");
  }
}

// The job begins anew on what is left, from its last snapshot, with the plan that was kept ready. Plans, steps and
// costs of trials were of another cluster; what was learnt about costs stays.
void Tuning::shrink() {
  const Elastic::Left left = elastic_.what_is_left();
  const Spare spare = state_.elastic.spare;
  const std::int32_t devices = left.cluster.devices();
  const std::string lost = "node " + listed(lost_) + " did not come back";
  out_.note("ranks",
            lost + " within the deadline: the job goes on without, on " + std::to_string(devices) +
                " devices and the plan that was kept ready",
            spare.plan.json);
  out_.decide("go on with " + std::to_string(devices) + " devices", lost);
  if (state_.has_trial()) fail_trial(FailureReason::kAgentLost, lost, false);
  state_.hardware.slow_devices = left.slow_devices;
  elastic_.add_resize({state_.step, listed(lost_), devices, spare.plan.hash, ""});
  std::erase_if(state_.nodes, [&](const NodeShare& share) { return lost_.contains(share.node); });
  commands_.forget_of(lost_);
  lost_.clear();
  state_.ranks = 0;
  for (NodeShare& share : state_.nodes) share.first_rank = std::exchange(state_.ranks, state_.ranks + share.ranks);
  state_.cluster_json = to_json(left.cluster);
  state_.elastic.before = {};
  overhead_.begin_anew();
  begin_anew(spare.plan, spare.predicted);
  kill_ranks(AfterKill::kRelaunch);
}

void Tuning::grow(const Candidate& best) {
  const NodesOffered& offer = elastic_.offer();
  state_.elastic.before = {state_.nodes,
                           state_.cluster_json,
                           state_.ranks,
                           state_.incumbent,
                           state_.incumbent_predicted,
                           state_.incumbent_measured,
                           state_.hardware.slow_devices};
  state_.nodes = offer.nodes;
  state_.cluster_json = offer.cluster_json;
  for (const auto& [device, share] : offer.slow_devices) state_.hardware.slow_devices[device] = share;
  state_.ranks = ranks_on(state_.nodes);
  elastic_.add_resize({state_.step, "", state_.ranks, best.plan.hash, offer.joined});
  begin_anew(best.plan, best.predicted);
  overhead_.begin_growth();
  kill_ranks(AfterKill::kRelaunch);
}

// On other nodes, whose ranks are yet to be launched: what was measured was of other ones.
void Tuning::begin_anew(const PlanText& plan, const Predicted& predicted) {
  assembly_ = StepAssembly(state_.world_size());
  state_.initial = state_.incumbent = plan;
  state_.initial_predicted = state_.incumbent_predicted = predicted;
  elastic_.forget_spare();
  state_.replaced.clear();
  state_.forget_measurements();
  hardware_.begin_anew();
  state_.crashes.clear();
  enter(Phase::kLaunching);
}

// The larger cluster's first plan has been measured. False when the job goes back.
bool Tuning::settle_growth() {
  const Measured now = state_.initial_measured;
  const double before_ms = state_.elastic.before.measured.mean_ms;
  const std::string why = elastic_.judge_growth(now);
  if (why.empty()) return true;
  overhead_.add_growth(std::max(0.0, now.mean_ms - before_ms) * now.steps);
  go_back(why);
  return false;
}

void Tuning::go_back(const std::string& why) {
  out_.note("ranks", "the job goes back to the nodes that it ran on before: " + why, state_.elastic.before.plan.json);
  out_.decide("go back to " + std::to_string(ranks_on(state_.elastic.before.nodes)) + " devices", why);
  if (state_.has_trial()) fail_trial(FailureReason::kResized, "the job goes back to fewer nodes", false);
  const Before before = elastic_.leave_growth(why);
  interleaving_.reset();
  // Ranks are ended wherever they run, and launched where they did before.
  kill_ranks(AfterKill::kRelaunch);
  commands_.forget_of(lost_);
  lost_.clear();
  state_.nodes = before.nodes;
  state_.cluster_json = before.cluster_json;
  state_.ranks = before.ranks;
  state_.hardware.slow_devices = before.slow_devices;
  begin_anew(before.plan, before.predicted);
  overhead_.begin_growth();
  state_.doing = Doing::kKilling;
  if (state_.outstanding.empty()) ranks_killed();
}

}  // namespace trimtab::coordinator
