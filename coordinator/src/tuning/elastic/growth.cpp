// Nodes that join: an elastic job that has fewer devices than it asked for is begun anew on more of them when a plan
// for these promises enough, and goes back when that was no better.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/search/search_task.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kCrashes = 2;  // on more nodes, before the job goes back

std::int32_t ranks_on(const std::vector<NodeShare>& nodes) {
  std::int32_t ranks = 0;
  for (const NodeShare& share : nodes) ranks += share.ranks;
  return ranks;
}

}  // namespace

bool Tuning::takes_nodes() const {
  const bool allowed = !view_.held() && !state_.stop_asked && state_.job.mode != JobMode::kObserve;
  const bool fewer = state_.world_size() < state_.job.world_size;
  return state_.job.elastic && view_.is_calm() && allowed && fewer && !searches_.is_asked(SearchFor::kSpare) &&
         !searches_.is_asked(SearchFor::kMoreNodes);
}

void Tuning::on(const NodesOffered& offered) {
  const bool forbidden = std::any_of(offered.nodes.begin(), offered.nodes.end(),
                                     [this](const NodeShare& share) { return kill_switches_.contains(share.node); });
  if (forbidden || !takes_nodes()) return;
  const std::string joined = "node " + offered.joined + " has joined";
  out_.changed = true;
  if (!offered.refusal.empty()) return out_.note("ranks", joined + " and is not used: " + offered.refusal);
  if (state_.job.mode != JobMode::kAuto) {
    return out_.note("ranks", joined + ": a job in mode auto would try to run on " +
                                  std::to_string(ranks_on(offered.nodes)) + " devices again");
  }
  out_.note("ranks", joined + (offered.remark.empty() ? "" : " (" + offered.remark + ")") + ": a plan for " +
                         std::to_string(ranks_on(offered.nodes)) + " devices is searched");
  offer_ = offered;
  searches_.ask(SearchFor::kMoreNodes, out_);
}

SearchTask Tuning::growth_task() const {
  SearchTask task = task_on(state_, offer_.cluster_json);
  for (const auto& [device, share] : offer_.slow_devices) task.slow_devices[device] = share;
  return task;
}

void Tuning::take_growth(const SearchReply& reply) {
  const Candidate* const best = fastest(reply);
  out_.changed = true;
  if (best == nullptr) {
    return out_.note("ranks", "node " + offer_.joined + " is not used, no plan does: " +
                                  (reply.error.empty() ? reply.infeasible : reply.error));
  }
  const double now_ms = state_.incumbent_measured.mean_ms;
  const double hoped_ms = (now_ms - best->predicted.low_ms) * static_cast<double>(state_.remaining_steps());
  const std::string promise =
      "predicted at " + format_ms(best->predicted.mean_ms) + " a step beside " + format_ms(now_ms) + " measured now";
  // There, and back if it is no better.
  const double cost_ms = 2 * state_.launch_ms;
  if (now_ms <= 0 || hoped_ms <= cost_ms || !takes_nodes()) {
    return out_.note("ranks", "node " + offer_.joined + " is not used: the best plan for it is " + promise +
                                  ", which over the steps that are left does not pay for two launches of " +
                                  format_ms(state_.launch_ms));
  }
  out_.note("plan",
            "the job is begun anew on " + std::to_string(ranks_on(offer_.nodes)) + " devices to try a plan " + promise,
            best->plan.json);
  out_.decide("begin anew on " + std::to_string(ranks_on(offer_.nodes)) + " devices",
              "node " + offer_.joined + " has joined; " + promise);
  grow(*best);
}

void Tuning::grow(const Candidate& best) {
  state_.before = {state_.nodes,
                   state_.cluster_json,
                   state_.ranks,
                   state_.incumbent,
                   state_.incumbent_predicted,
                   state_.incumbent_measured,
                   state_.hardware.slow_devices};
  state_.nodes = offer_.nodes;
  state_.cluster_json = offer_.cluster_json;
  for (const auto& [device, share] : offer_.slow_devices) state_.hardware.slow_devices[device] = share;
  state_.ranks = ranks_on(state_.nodes);
  state_.resizes.push_back({state_.step, "", state_.ranks, best.plan.hash, offer_.joined});
  state_.resizes.back().trials_before = state_.trials_begun();
  begin_anew(best.plan, best.predicted);
  overhead_.begin_growth();
  kill_ranks(AfterKill::kRelaunch);
}

// On other nodes, whose ranks are yet to be launched: what was measured was of other ones.
void Tuning::begin_anew(const PlanText& plan, const Predicted& predicted) {
  assembly_ = StepAssembly(state_.world_size());
  state_.initial = state_.incumbent = plan;
  state_.initial_predicted = state_.incumbent_predicted = predicted;
  state_.spare = {};
  state_.replaced.clear();
  no_spare_.clear();
  forget_measurements();
  state_.crashes.clear();
  enter(Phase::kLaunching);
}

// The larger cluster's first plan has been measured. False when the job goes back.
bool Tuning::settle_growth() {
  const Measured& now = state_.initial_measured;
  const Measured& before = state_.before.measured;
  const Ratio gain = compare_apart(before, now, state_.noise);
  const std::string beside = format_ms(now.mean_ms) + " a step beside " + format_ms(before.mean_ms) + " without, " +
                             format_fixed(gain.ratio, 2) + "x as fast (95 %: " + format_fixed(gain.low, 2) + " to " +
                             format_fixed(gain.high, 2) + ")";
  if (gain.low <= 1 && !view_.held()) {
    overhead_.add_growth(std::max(0.0, now.mean_ms - before.mean_ms) * now.steps);
    go_back("it is not surely faster with " + state_.resizes.back().joined + ": " + beside);
    return false;
  }
  out_.note("ranks", "node " + state_.resizes.back().joined + " stays with the job: " + beside);
  state_.resizes.back().outcome = "kept";
  state_.before = {};
  return true;
}

// Launches that do not live on more nodes are no reason to give the job up. True when it goes back.
bool Tuning::gives_up_growth(std::int32_t crashes, const std::string& why) {
  if (!state_.has_grown() || crashes < kCrashes) return false;
  go_back(why);
  return true;
}

// The nodes that were there before are; the joined ones are not waited for.
bool Tuning::lost_what_joined() const {
  return state_.has_grown() && std::none_of(state_.before.nodes.begin(), state_.before.nodes.end(),
                                            [this](const NodeShare& share) { return lost_.contains(share.node); });
}

void Tuning::go_back(const std::string& why) {
  out_.note("ranks", "the job goes back to the nodes that it ran on before: " + why, state_.before.plan.json);
  out_.decide("go back to " + std::to_string(ranks_on(state_.before.nodes)) + " devices", why);
  if (state_.has_trial()) fail_trial(FailureReason::kResized, "the job goes back to fewer nodes", false);
  const Before before = std::exchange(state_.before, {});
  state_.resizes.back().outcome = "left: " + why;
  interleaving_.reset();
  // Ranks are ended wherever they run, and launched where they did before.
  kill_ranks(AfterKill::kRelaunch);
  std::erase_if(state_.outstanding, [this](const OutstandingCommand& one) { return lost_.contains(one.node); });
  const std::vector<OutstandingCommand> kills = state_.outstanding;
  lost_.clear();
  state_.nodes = before.nodes;
  state_.cluster_json = before.cluster_json;
  state_.ranks = before.ranks;
  state_.hardware.slow_devices = before.slow_devices;
  begin_anew(before.plan, before.predicted);
  overhead_.begin_growth();
  state_.doing = Doing::kKilling;
  if (kills.empty()) ranks_killed();
}

}  // namespace trimtab::coordinator
