#include "card/job_look.hpp"

#include <algorithm>
#include <set>

namespace trimtab::coordinator {

namespace {

bool says_anything(const api::RankFacts& facts) {
  return !facts.framework.empty() || !facts.device.empty() || facts.parameters > 0 || facts.batch_size > 0;
}

api::RankFacts first_facts(const JobEvidence& job) {
  for (const auto& [number, rank] : job.ranks) {
    if (says_anything(rank.facts)) return rank.facts;
  }
  return {};
}

api::CardMemory memory_of(const JobEvidence& job) {
  api::CardMemory least;
  for (const auto& [number, rank] : job.ranks) {
    const std::int64_t used = std::max(rank.peak_bytes, rank.facts.memory_used_bytes);
    const std::int64_t total = rank.facts.memory_total_bytes;
    if (used <= 0) continue;
    const std::int64_t left = std::max<std::int64_t>(total - used, 0);
    if (total > 0 && (!least.left_bytes || left < *least.left_bytes)) {
      least = {used, total, left};
    } else if (!least.left_bytes && used > least.used_bytes.value_or(0)) {
      least.used_bytes = used;
    }
  }
  return least;
}

// The middle one of those that are told.
double usual(const JobEvidence& job, const std::function<double(const KeptStep&)>& value) {
  std::vector<double> all;
  for (const auto& [number, rank] : job.ranks) {
    for (const KeptStep& step : rank.steps.all()) {
      const double one = value(step);
      if (one > 0) all.push_back(one);
    }
    if (all.size() > 10'000) break;
  }
  return all.empty() ? 0 : median_of(std::move(all));
}

double usual_look(const JobEvidence& job, double DeviceLook::*member) {
  std::vector<double> all;
  for (const auto& [number, rank] : job.ranks) {
    for (const DeviceLook& look : rank.looks) {
      if (look.*member > 0) all.push_back(look.*member);
    }
  }
  return all.empty() ? 0 : median_of(std::move(all));
}

}  // namespace

JobLook look_at(const JobEvidence& job) {
  JobLook look{job, first_facts(job), memory_of(job)};
  look.steps = Rows::of_steps(job);
  look.devices = Rows::of_devices(job);
  look.on_device = look.facts.device.empty() ? look.devices.count() > 0 : look.facts.device != "cpu";
  look.microbatches = usual(job, [](const KeptStep& step) { return static_cast<double>(step.microbatches); });
  if (look.microbatches <= 0)
    look.microbatches = static_cast<double>(std::max<std::int64_t>(look.facts.accumulation, 1));
  const double count = usual(job, [](const KeptStep& step) { return static_cast<double>(step.count); });
  look.samples = count > 0 ? count / look.microbatches : static_cast<double>(look.facts.batch_size);
  look.kernels_per_step = usual_look(job, &DeviceLook::kernels_per_step);
  look.kernel_us = usual_look(job, &DeviceLook::kernel_us);
  return look;
}

std::int64_t JobLook::ranks_of_replica() const {
  const auto at_least_one = [](std::int64_t ranks) { return std::max<std::int64_t>(ranks, 1); };
  return at_least_one(facts.tensor_parallel) * at_least_one(facts.context_parallel) * at_least_one(facts.stages);
}

bool JobLook::has_untold_stages() const {
  constexpr double kLeast = 0.01;
  return facts.stages == 0 && std::ranges::any_of(evidence.communication, [](const api::CardCommunication& one) {
           return one.kind == "send_recv" && one.exposed + one.hidden >= kLeast;
         });
}

std::size_t JobLook::nodes() const {
  std::set<std::string> names;
  for (const auto& [number, one] : evidence.ranks) names.insert(one.node);
  return names.size();
}

std::string JobLook::node_words(std::int32_t rank) const {
  const auto found = evidence.ranks.find(rank);
  if (nodes() < 2 || found == evidence.ranks.end() || found->second.node.empty()) return "";
  return " on node " + found->second.node;
}

double JobLook::crowding() const {
  if (!steps.undisturbed() || steps.count() == 0) return 0;
  return median_of(steps.series([this](std::size_t row) { return steps.mean(row, &Cell::stolen) / steps.wall(row); }));
}

}  // namespace trimtab::coordinator
