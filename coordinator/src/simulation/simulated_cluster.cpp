#include "simulation/simulated_cluster.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {

namespace {

constexpr Nanoseconds kMessage = std::chrono::milliseconds(1);
constexpr Nanoseconds kSilence = std::chrono::seconds(1);
constexpr std::int64_t kSnapshotEvery = 20;  // steps
constexpr double kProbeMs = 10;
constexpr const char* kDeviceWork = "clock";  // as agents probe GPUs
constexpr double kRoundTripMs = 0.1;
constexpr double kProbeNoise = 0.02;
// Of each plan, agents tell of the passes in so many steps once it is warm (agent/src/records/step_passes.hpp).
constexpr std::int64_t kFirstTimed = 4;
constexpr std::int64_t kTimedSteps = 16;
constexpr double kTailShape = 2;
constexpr double kMostTail = 10;
constexpr double kFirstLoss = 11.0;
constexpr double kLossSteps = 200.0;

// As agents are told it.
PlanText told(const std::string& plan_json) {
  PlanText plan(plan_json, "");
  plan.hash = semantic_hash(tuned_plan(plan));
  return plan;
}

Nanoseconds nanoseconds(double ms) {
  return Nanoseconds(std::llround(ms * 1e6));
}

}  // namespace

SimulatedCluster::SimulatedCluster(const Cluster& cluster, GroundTruth& truth, const Scenario& scenario,
                                   std::int64_t steps, std::uint64_t seed)
    : nodes_(cluster),
      truth_(truth),
      scenario_(scenario),
      noise_(scenario.noise, seed),
      faults_(seed ^ 0xfa017),
      probe_noise_(seed ^ 0x9a0be),
      job_steps_(steps) {
  std::stable_sort(scenario_.drift.begin(), scenario_.drift.end(),
                   [](const DriftSettings& a, const DriftSettings& b) { return a.at_step < b.at_step; });
}

std::optional<Event> SimulatedCluster::next_event() {
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void SimulatedCluster::set_incumbent(const PlanText& plan) {
  if (!plan.empty() && plan.hash != incumbent_.hash) incumbent_ = plan;
}

void SimulatedCluster::tell(std::int32_t rank, RankNews news) {
  const Cluster& cluster = nodes_.job();
  const bool heard = !nodes_.next_return() || !nodes_.is_away(cluster.nodes[cluster.node_of(rank)].name);
  if (heard) events_.emplace_back(FromRank{rank, launch_, std::move(news)});
}

void SimulatedCluster::tell_all(const RankNews& news) {
  for (std::int32_t rank = 0; rank < ranks(); ++rank) tell(rank, news);
}

Status SimulatedCluster::carry_out(const Action& action) {
  clock_.advance(kMessage);
  if (const auto* wanted = std::get_if<LaunchOn>(&action)) return launch(*wanted);
  if (const auto* wanted = std::get_if<KillOn>(&action)) kill(*wanted);
  if (const auto* proposed = std::get_if<ProposePlan>(&action)) propose(*proposed);
  if (std::holds_alternative<ProbeHardware>(action)) events_.emplace_back(probed(nodes_.job()));
  if (std::holds_alternative<ListDoubtful>(action)) events_.emplace_back(DoubtfulListed{});
  if (const auto* commit = std::get_if<CommitPlan>(&action)) {
    const auto found = proposals_.find(commit->epoch);
    if (found != proposals_.end()) found->second.commit_step = commit->step;
  }
  if (const auto* cancel = std::get_if<CancelPlan>(&action)) proposals_.erase(cancel->epoch);
  if (const auto* stop = std::get_if<StopRanks>(&action)) last_step_ = std::min(last_step_, stop->step);
  return {};
}

Status SimulatedCluster::run_on(const std::vector<NodeShare>& nodes) {
  if (!nodes_.run_on(nodes)) return {};
  return truth_.set_nodes(nodes_.job().nodes);
}

Status SimulatedCluster::launch(const LaunchOn& wanted) {
  if (nodes_.is_away(wanted.node)) return {};
  if (wanted.launch != launch_) {
    launch_ = wanted.launch;
    launched_on_.clear();
    proposals_.clear();
    silent_ = mute_ = false;
    clock_speed_ = 1;
    step_ = wanted.fresh ? 0 : snapshot_;
    last_step_ = wanted.steps > 0 ? wanted.steps : job_steps_;
    epoch_ = wanted.epoch;
    running_ = told(wanted.plan_json);
    steps_on_plan_ = preparations_ = 0;
    starts_ = launch_ == 1;
    const double load_ms = price_of(running_).state_bytes / scenario_.change.bytes_per_second * 1e3;
    const double ms = scenario_.change.seconds * 1e3 + load_ms;
    if (launch_ > 1) spent_.changes_ms += ms;
    clock_.advance(nanoseconds(ms));
  }
  launched_on_.insert(wanted.node);
  alive_ = launched_on_.size() == nodes_.job().nodes.size();
  events_.emplace_back(CommandFinished{wanted.tag, true, "", ""});
  return {};
}

void SimulatedCluster::kill(const KillOn& wanted) {
  if (nodes_.is_away(wanted.node)) return;
  if (wanted.launch == launch_) {
    launched_on_.erase(wanted.node);
    alive_ = false;
  }
  events_.emplace_back(CommandFinished{wanted.tag, true, "", ""});
}

void SimulatedCluster::propose(const ProposePlan& proposed) {
  if (!alive_ || silent_) return;
  proposals_[proposed.epoch] = {told(proposed.plan_json), -1};
  tell_all(RankAcknowledged{proposed.epoch, step_});
}

void SimulatedCluster::stand_still(double ms) {
  spent_.changes_ms += ms;
  clock_.advance(nanoseconds(ms));
}

Status SimulatedCluster::advance() {
  TRIMTAB_TRY_STATUS(meet_drift());
  TRIMTAB_TRY_STATUS(return_nodes());
  if (!alive_ || silent_) {
    clock_.advance(kSilence);
    spent_.changes_ms += 1e3 * std::chrono::duration<double>(kSilence).count();
  } else if (step_ >= last_step_) {
    end_ranks(0, "");
  } else if (change_plan()) {
    run_step();
  }
  events_.emplace_back(Tick{});
  return {};
}

// Between two steps: the highest epoch that is committed and due. False when the ranks do not go on.
bool SimulatedCluster::change_plan() {
  std::uint64_t due = epoch_;
  for (const auto& [epoch, proposal] : proposals_) {
    if (proposal.commit_step >= 0 && proposal.commit_step <= step_ + 1) due = std::max(due, epoch);
  }
  if (due == epoch_) return true;
  const Proposal proposal = proposals_.at(due);
  proposals_.erase(proposals_.begin(), proposals_.upper_bound(due));
  return switch_to(due, proposal);
}

bool SimulatedCluster::switch_to(std::uint64_t epoch, const Proposal& proposal) {
  const TruePrice& price = price_of(proposal.plan);
  const double ms = scenario_.change.seconds * 1e3 + price.state_bytes / scenario_.change.bytes_per_second * 1e3;
  snapshot_ = step_;
  stand_still(ms);
  if (!price.fits) {
    run_out_of_memory(epoch, price);
    return true;
  }
  const bool is_new = !ran_.contains(proposal.plan.hash);
  const double fate = faults_.uniform();
  if (is_new && fate < scenario_.change.crash) {
    end_ranks(1, "a kernel failed");
    return false;
  }
  if (is_new && fate < scenario_.change.crash + scenario_.change.hang) {
    silent_ = true;
    return false;
  }
  draw_lies(is_new);
  epoch_ = epoch;
  running_ = proposal.plan;
  steps_on_plan_ = 0;
  starts_ = false;
  tell_all(RankActive{epoch, step_, nanoseconds(ms)});
  return true;
}

// The first step does not fit: the rank that holds most says so, and ranks go back to the plan they had.
void SimulatedCluster::run_out_of_memory(std::uint64_t epoch, const TruePrice& price) {
  const auto most = std::max_element(price.peak_bytes.begin(), price.peak_bytes.end());
  const auto rank = static_cast<std::int32_t>(most - price.peak_bytes.begin());
  tell(rank, RankStep{step_ + 1, epoch, 0, 0, "", static_cast<std::int64_t>(*most)});
  tell(rank, RankFailed{epoch, "out_of_memory", "the step does not fit"});
}

void SimulatedCluster::run_step() {
  const TruePrice& price = price_of(running_);
  if (!price.fits) return end_ranks(1, "out of memory");
  ran_.insert(running_.hash);
  ++step_;
  const double warmup = warm_up();
  const double noise = noise_.factor(step_, seconds_now()) * warmup;
  const bool timed = steps_on_plan_ >= kFirstTimed && steps_on_plan_ < kFirstTimed + kTimedSteps;
  if (timed) tell_passes(price, warmup);
  const double ms = price.ms * noise;
  // A job that is not tuned warms up once, too.
  spend(price.ms, ms, starts_ ? noise : noise / warmup);
  clock_.advance(nanoseconds(ms));
  if (step_ % kSnapshotEvery == 0) snapshot_ = step_;
  const double loss = kFirstLoss * std::exp(-static_cast<double>(step_) / kLossSteps);
  const std::string samples = std::to_string(step_);
  const double told = told_ms(ms);
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    if (mute_ && rank == 0) continue;
    const auto peak = static_cast<std::int64_t>(price.peak_bytes[rank]);
    const bool is_last = rank + 1 == ranks();
    tell(rank, RankStep{step_, epoch_, told, is_last ? loss : 0, rank == 0 ? samples : "", peak,
                        is_last ? preparations_ : 0});
  }
}

// How many times as long the step that begins takes as a warm one.
double SimulatedCluster::warm_up() {
  const SwitchSettings& change = scenario_.change;
  const std::int64_t done = steps_on_plan_++;
  if (done < change.preparing_steps) ++preparations_;
  const std::int64_t since_first =
      std::max<std::int64_t>(0, done - std::max<std::int64_t>(0, change.preparing_steps - 1));
  return 1 + (change.warmup_slowdown - 1) * std::pow(change.warmup_decay, static_cast<double>(since_first));
}

void SimulatedCluster::tell_passes(const TruePrice& price, double warmup) {
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    if (mute_ && rank == 0) continue;
    const double noise = told_ms(warmup * noise_.rank_factor(ranks()));
    RankPasses passes{epoch_, price.pass_ms[rank] * noise};
    if (!price.terms.empty()) passes.terms = price.terms[rank] * noise;
    tell(rank, passes);
  }
}

// Steps that a crash undid are no use the second time; warm-up and what the incumbent would have saved neither.
void SimulatedCluster::spend(double true_ms, double ms, double noise) {
  spent_.steps_ms += ms;
  if (step_ <= furthest_) return;
  furthest_ = step_;
  const double incumbent_ms = incumbent_.hash.empty() ? true_ms : price_of(incumbent_).ms;
  spent_.useful_ms += std::min(true_ms, incumbent_ms) * noise;
}

double SimulatedCluster::probed_ms(double true_ms) {
  return true_ms * std::exp(kProbeNoise * probe_noise_.normal()) * noise_.busy_factor(seconds_now());
}

DriftSettings SimulatedCluster::link_drift(const std::string& level, const std::string& node,
                                           const std::string& peer) const {
  DriftSettings last;
  for (const DriftSettings& drift : slow_links_) {
    const bool all = drift.node.empty();
    const bool this_one = (drift.node == node && drift.peer == peer) || (drift.node == peer && drift.peer == node);
    if (drift.level == level && (all || this_one)) last = drift;
  }
  return last;
}

Probe SimulatedCluster::link_probe(const std::string& level, const std::string& node, const std::string& peer) {
  const DriftSettings drift = link_drift(level, node, peer);
  Probe probe{-1, node, peer, level, probed_ms(kProbeMs / drift.share)};
  probe.round_trip_ms = probed_ms(kRoundTripMs + 2e-3 * drift.latency_us);
  return probe;
}

// Each device, the links inside of each node, and those between neighbours in the order of the cluster.
HardwareProbed SimulatedCluster::probed(const Cluster& cluster) {
  HardwareProbed answer;
  std::int32_t device = 0;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const Node& node = cluster.nodes[i];
    for (std::int32_t k = 0; k < node.devices; ++k, ++device) {
      const double ms = probed_ms(kProbeMs / truth_.device_share(node.name, k));
      answer.probes.push_back({device, node.name, "", "", ms, kDeviceWork});
    }
    if (node.devices > 1) answer.probes.push_back(link_probe("intra_node", node.name, ""));
    if (i + 1 == cluster.nodes.size()) continue;
    answer.probes.push_back(link_probe("inter_node", node.name, cluster.nodes[i + 1].name));
  }
  return answer;
}

void SimulatedCluster::draw_lies(bool is_new) {
  const double mute = faults_.uniform();
  const double clock = faults_.uniform();
  mute_ = is_new && mute < scenario_.faults.unreported;
  clock_speed_ = is_new && clock < scenario_.faults.clock ? scenario_.faults.clock_speed : 1;
}

double SimulatedCluster::told_ms(double ms) {
  const double fate = faults_.uniform();
  if (fate >= scenario_.faults.corrupt) return ms * clock_speed_;
  return fate < scenario_.faults.corrupt / 2 ? 0 : 1e9 * ms;
}

bool SimulatedCluster::coordinator_died() {
  if (!std::exchange(coordinator_died_, false)) return false;
  events_.clear();
  return true;
}

void SimulatedCluster::introduce_nodes() {
  for (const NodeShare& share : nodes()) {
    if (nodes_.is_away(share.node)) continue;
    NodeBack back = nodes_.introduction(share.node);
    for (std::int32_t i = 0; alive_ && i < share.ranks; ++i) {
      back.ranks.push_back({share.first_rank + i, launch_, epoch_});
    }
    events_.emplace_back(std::move(back));
  }
}

void SimulatedCluster::end_ranks(int exit_code, const std::string& last_output) {
  alive_ = false;
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    if (exit_code == 0) tell(rank, RankSaidBye{step_});
    tell(rank, RankExited{exit_code, 0, last_output});
  }
}

Status SimulatedCluster::meet_drift() {
  while (drift_next_ < scenario_.drift.size() && scenario_.drift[drift_next_].at_step <= step_) {
    const DriftSettings& drift = scenario_.drift[drift_next_++];
    drifted_at_ = clock_.monotonic();
    if (drift.kind == "link") {
      const LinkChange change{drift.share, drift.latency_us * 1e-3};
      const bool alone = !drift.node.empty() && drift.level == "inter_node";
      TRIMTAB_TRY_STATUS(alone ? truth_.set_link(node_pair(drift.node, drift.peer), change)
                               : truth_.set_link(drift.level, change));
      slow_links_.push_back(drift);
    }
    if (drift.kind == "device") TRIMTAB_TRY_STATUS(truth_.set_device(drift.device, drift.share));
    if (drift.kind == "coordinator") coordinator_died_ = true;
    if (drift.kind == "joined") TRIMTAB_TRY_STATUS(join(drift));
    if (drift.kind == "lost") TRIMTAB_TRY_STATUS(lose(drift));
  }
  return {};
}

Status SimulatedCluster::lose(const DriftSettings& drift) {
  if (!nodes_.is_known(drift.node)) return bad_input("drift: the cluster has no node '" + drift.node + "'");
  nodes_.leave(drift.node, clock_.monotonic() + nanoseconds(drift.seconds * 1e3));
  if (drift.share != 1) replacements_[drift.node] = drift.share;
  events_.emplace_back(NodeLost{drift.node});
  if (!nodes_.has_ranks(drift.node)) return {};
  launched_on_.erase(drift.node);
  alive_ = false;
  return {};
}

// An agent that nobody knew, or one that is away: it is back before its time.
Status SimulatedCluster::join(const DriftSettings& drift) {
  const bool is_new = !nodes_.is_known(drift.node);
  if (!is_new && !nodes_.is_away(drift.node)) {
    return bad_input("drift: node '" + drift.node + "' cannot join at step " + std::to_string(drift.at_step) +
                     ": it is there already");
  }
  if (is_new) nodes_.add(drift.node);
  if (drift.share != 1) replacements_[drift.node] = drift.share;
  nodes_.leave(drift.node, clock_.monotonic());
  return return_nodes();
}

// Other devices are in the node from here on.
void SimulatedCluster::replace(const std::string& node, double share) {
  nodes_.replace(node, node + "-since-step-" + std::to_string(step_));
  truth_.set_hardware(node, nodes_.introduction(node).devices, share);
}

Status SimulatedCluster::return_nodes() {
  for (const std::string& node : nodes_.take_returns(clock_.monotonic())) {
    const auto other = replacements_.extract(node);
    if (other) replace(node, other.mapped());
    events_.emplace_back(nodes_.introduction(node));
    if (other && nodes_.has_ranks(node)) TRIMTAB_TRY_STATUS(truth_.set_nodes(nodes_.job().nodes));
  }
  return {};
}

double StepNoise::busy_factor(double seconds) {
  if (settings_.busy_every_s <= 0) return 1;
  const auto drawn = [this](double mean) { return -std::log(1 - of_others_.uniform()) * mean; };
  if (busy_until_ < 0) busy_until_ = drawn(settings_.busy_every_s);
  while (busy_until_ <= seconds) {
    busy_ = !busy_;
    busy_until_ += drawn(busy_ ? settings_.busy_s : settings_.busy_every_s);
  }
  return busy_ ? settings_.busy_slowdown : 1;
}

double StepNoise::factor(std::int64_t step, double seconds) {
  // Each step draws the same numbers whatever happens to it, so that runs of one seed stay comparable.
  const double shock = random_.normal();
  const double own = random_.normal();
  const double slow_rank = random_.uniform();
  const double kept = std::exp(-1 / std::max(settings_.drift_steps, 1e-3));
  drift_ = begun_ ? kept * drift_ + settings_.drift * std::sqrt(1 - kept * kept) * shock : settings_.drift * shock;
  begun_ = true;
  double factor = std::exp(drift_ + settings_.step * own);
  if (slow_rank < settings_.straggler) factor *= settings_.straggler_slowdown;
  if (settings_.outlier_every > 0 && step % settings_.outlier_every == 0) factor *= settings_.outlier_slowdown;
  if (settings_.tail > 0 && of_others_.uniform() < settings_.tail) {
    factor *= std::min(kMostTail, std::pow(1 - of_others_.uniform(), -1 / kTailShape));
  }
  return factor * busy_factor(seconds);
}

double StepNoise::rank_factor(std::int32_t ranks) {
  const double own = of_ranks_.normal();
  const bool slow = of_ranks_.uniform() < settings_.straggler / ranks;
  return std::exp(drift_ + settings_.step * own) * (slow ? settings_.straggler_slowdown : 1);
}

SimulatedNodes::SimulatedNodes(const Cluster& cluster) : job_(cluster), links_(cluster.links) {
  for (const Node& node : cluster.nodes) known_[node.name] = node;
}

std::vector<NodeShare> SimulatedNodes::shares() const {
  std::vector<NodeShare> shares;
  std::int32_t first = 0;
  for (const Node& node : job_.nodes) {
    shares.push_back({node.name, first, node.devices});
    first += node.devices;
  }
  return shares;
}

bool SimulatedNodes::has_ranks(const std::string& node) const {
  return std::ranges::find(job_.nodes, node, &Node::name) != job_.nodes.end();
}

NodeBack SimulatedNodes::introduction(const std::string& node) const {
  const Node& known = known_.at(node);
  NodeBack back{node, {}};
  back.fingerprint = known.fingerprint;
  back.devices = known.devices;
  back.memory_bytes = known.memory_bytes;
  return back;
}

std::vector<std::string> SimulatedNodes::take_returns(Nanoseconds now) {
  std::vector<std::string> back;
  for (const auto& [node, until] : away_) {
    if (until <= now) back.push_back(node);
  }
  for (const std::string& node : back) away_.erase(node);
  return back;
}

std::optional<Nanoseconds> SimulatedNodes::next_return() const {
  const auto next = std::ranges::min_element(away_, {}, [](const auto& one) { return one.second; });
  if (next == away_.end()) return std::nullopt;
  return next->second;
}

void SimulatedNodes::add(const std::string& node) {
  Node added = known_.at(job_.nodes.front().name);
  added.name = node;
  added.speeds.clear();
  known_[node] = std::move(added);
}

void SimulatedNodes::replace(const std::string& node, const std::string& fingerprint) {
  known_.at(node).fingerprint = fingerprint;
  const auto of_job = std::ranges::find(job_.nodes, node, &Node::name);
  if (of_job != job_.nodes.end()) of_job->fingerprint = fingerprint;
}

Cluster SimulatedNodes::cluster_of(const std::vector<NodeShare>& nodes) const {
  Cluster cluster;
  std::set<std::string> names;
  for (const NodeShare& share : nodes) {
    const auto known = known_.find(share.node);
    TRIMTAB_ASSERT(known != known_.end(), "a job runs on nodes that were told of");
    cluster.nodes.push_back(known->second);
    cluster.nodes.back().devices = share.ranks;
    names.insert(share.node);
  }
  for (const Link& link : links_) {
    const bool both = !link.between || (names.contains(link.between->first) && names.contains(link.between->second));
    if (both) cluster.links.push_back(link);
  }
  return cluster;
}

bool SimulatedNodes::run_on(const std::vector<NodeShare>& nodes) {
  if (nodes == shares()) return false;
  job_ = cluster_of(nodes);
  return true;
}

std::optional<LargerPlacement> SimulatedNodes::place_more(std::int32_t world_size,
                                                          const std::vector<NodeShare>& present) const {
  LargerPlacement larger;
  larger.nodes = present;
  std::int32_t wanted = world_size;
  std::set<std::string> own;
  for (const NodeShare& share : present) {
    if (is_away(share.node)) return std::nullopt;
    own.insert(share.node);
    wanted -= share.ranks;
  }
  for (const auto& [name, node] : known_) {
    if (wanted <= 0) break;
    if (own.contains(name) || is_away(name)) continue;
    const std::int32_t ranks = std::min(node.devices, wanted);
    larger.joined.push_back({name, world_size - wanted, ranks});
    larger.key += name + "/" + node.fingerprint + " ";
    wanted -= ranks;
  }
  if (larger.joined.empty()) return std::nullopt;
  larger.nodes.insert(larger.nodes.end(), larger.joined.begin(), larger.joined.end());
  larger.cluster = cluster_of(larger.nodes);
  return larger;
}

}  // namespace trimtab::coordinator
