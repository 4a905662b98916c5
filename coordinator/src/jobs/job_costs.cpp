#include "jobs/job_costs.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "agents/membership.hpp"
#include "jobs/cost_needs.hpp"

namespace trimtab::coordinator {
namespace {

// All but kernels and ranges, which are many in a long job and price no plan.
std::vector<CostKind> priced_kinds() {
  std::vector<CostKind> kinds;
  for (int i = 0; i < static_cast<int>(CostKind::kRange); ++i) kinds.push_back(static_cast<CostKind>(i));
  return kinds;
}

// Empty where the cluster has no such node.
std::string fingerprint_of(const Cluster& cluster, const std::string& node) {
  const auto found = std::ranges::find(cluster.nodes, node, &Node::name);
  return found == cluster.nodes.end() ? "" : found->fingerprint;
}

}  // namespace

std::vector<Cost> JobCosts::known() const {
  std::vector<Cost> costs = of(state_.fingerprint);
  const NearState& near = state_.profiling.near;
  const Cluster* const cluster = state_.cluster.said();
  if (near.findings.empty() || cluster == nullptr || near.hardware != own_hardware(*cluster)) return costs;
  const auto there = read_near(services_.costs, near.found);
  if (there) std::ranges::move(tuner::take_over(there->hardware, near.findings), std::back_inserter(costs));
  return costs;
}

// As its agents name it, with what the job adds.
std::optional<Fingerprint> JobCosts::own_fingerprint(const Cluster& cluster) const {
  const Member* const member = services_.members.by_node(cluster.nodes.front().name);
  if (member == nullptr) return std::nullopt;
  auto node = parse_fingerprint(member->fingerprint_json, "node " + member->node);
  if (!node.ok()) return std::nullopt;
  return fingerprint_of_job(std::move(node).value(), state_.job.environment, state_.job.software);
}

// Of a job whose nodes are all of one hardware.
std::optional<NearCosts> JobCosts::near_costs(const Model& model, const Cluster& cluster, bool launches) const {
  if (!state_.job.near_costs || !other_hardware(cluster).empty()) return std::nullopt;
  const NearState& near = state_.profiling.near;
  if (!near.found.fingerprint.empty()) return read_near(services_.costs, near.found);
  const auto own = own_fingerprint(cluster);
  return own ? find_near(services_.costs, *own, model, cluster, state_.job.knobs, launches) : std::nullopt;
}

// Of GPUs. A benchmark that was asked for launches and told none is not asked again.
bool JobCosts::asks_for_launches(const Cluster& cluster) const {
  const auto own = own_fingerprint(cluster);
  return own && is_gpu(*own) && !facts_.are_launches_untold();
}

// What is taken over is not in the database: that is told for people who look there.
void JobCosts::remember() {
  const std::int32_t untold = state_.profiling.launches_untold;
  if (std::exchange(told_untold_, untold) < untold && benchmark_told_) facts_.remember_launches_untold(untold);
  const NearState& near = state_.profiling.near;
  if (near.taken_over == 0 || std::exchange(told_near_, near.taken_over) == near.taken_over) return;
  const Status stored = services_.costs.put_fact(state_.fingerprint, kTakenOverFact, fact_of(near));
  if (!stored.ok())
    spdlog::warn("job {}: cannot remember what was taken over: {}", state_.job.name, stored.error().message);
}

std::vector<Cost> JobCosts::of(const std::string& fingerprint) const {
  auto costs = services_.costs.costs(fingerprint, priced_kinds());
  if (costs.ok()) return std::move(costs).value();
  spdlog::error("job {}: cannot read costs: {}", state_.job.name, costs.error().message);
  return {};
}

CostsCounted JobCosts::count() const {
  const auto model = parse_model(state_.model_json, "the job's model");
  const auto cluster = state_.cluster.needed("the job's cluster");
  if (!model.ok() || !cluster.ok()) {
    CostsCounted counted;
    counted.error = model.ok() ? cluster.error().message : model.error().message;
    return counted;
  }
  std::map<std::string, std::vector<Cost>> there;
  for (const std::string& one : other_hardware(*cluster)) there[one] = of(facts_.fingerprint_on(one));
  std::vector<Cost> own = of(state_.fingerprint);
  const bool launches = asks_for_launches(*cluster);
  const auto found = near_costs(*model, *cluster, launches);
  if (!found) return count_costs(*model, *cluster, state_.job.knobs, std::move(own), there, launches);
  return count_costs_near(*model, *cluster, state_.job.knobs, std::move(own), found->found, found->hardware,
                          state_.profiling.near.decided, launches);
}

// Of the hardware that the job's costs are not of.
std::set<std::string> JobCosts::other_hardware(const Cluster& cluster) const {
  std::set<std::string> others;
  for (const Node& node : cluster.nodes) others.insert(node.fingerprint);
  others.erase(own_hardware(cluster));
  return others;
}

// A job that began under an earlier release has it of its first node.
std::string JobCosts::own_hardware(const Cluster& cluster) const {
  return state_.hardware.costs_hardware.empty() ? cluster.nodes.front().fingerprint : state_.hardware.costs_hardware;
}

bool JobCosts::stored(const std::string& node, const std::string& fingerprint) {
  benchmark_told_ = true;
  // The hardware's own, under which the next run of the job looks for it.
  const Cluster* const of_job = state_.cluster.said();
  const std::string hardware = of_job != nullptr ? fingerprint_of(*of_job, node) : "";
  if (!hardware.empty() && facts_.fingerprint_on(hardware) != fingerprint) {
    spdlog::info("job {}: costs of node {} belong to fingerprint {}", state_.job.name, node, fingerprint);
    const Status remembered = facts_.remember_fingerprint(hardware, fingerprint);
    if (!remembered.ok()) spdlog::warn("{}", remembered.error().message);
  }
  const bool is_others = !hardware.empty() && hardware != own_hardware(*of_job);
  return !is_others && fingerprint != state_.fingerprint;
}

}  // namespace trimtab::coordinator
