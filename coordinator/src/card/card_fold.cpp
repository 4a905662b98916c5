#include "card/card_fold.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "card/make_card.hpp"

namespace trimtab::coordinator {

namespace {

constexpr std::size_t kMostSteps = 131'072;  // of all ranks of a large job together

std::size_t capacity(std::int32_t world_size) {
  return std::clamp<std::size_t>(kMostSteps / static_cast<std::size_t>(std::max(world_size, 1)), 64, 1024);
}

double mean_kernel_us(const std::vector<api::BusyKernel>& busiest) {
  double us = 0;
  double count = 0;
  for (const api::BusyKernel& kernel : busiest) {
    if (kernel.collective) continue;
    us += kernel.mean_us * static_cast<double>(kernel.count);
    count += static_cast<double>(kernel.count);
  }
  return count > 0 ? us / count : 0;
}

std::array<KernelLook, 3> busiest(const std::vector<api::BusyKernel>& all) {
  std::array<KernelLook, 3> looks;
  auto next = looks.begin();
  for (const api::BusyKernel& kernel : all) {
    if (kernel.collective || kernel.count == 0 || next == looks.end()) continue;
    *next++ = {std::hash<std::string>{}(kernel.name), static_cast<std::uint32_t>(kernel.count),
               static_cast<float>(kernel.mean_us)};
  }
  return looks;
}

void remember(const KernelLook& kernel, std::map<std::size_t, FirstKernel>& first) {
  constexpr std::size_t kMostKernels = 32;
  constexpr int kLooks = 8;
  if (kernel.count == 0 || (first.size() >= kMostKernels && !first.contains(kernel.signature))) return;
  FirstKernel& known = first[kernel.signature];
  if (known.looks >= kLooks) return;
  ++known.looks;
  known.us += (kernel.us - known.us) / known.looks;
}

}  // namespace

CardFold::CardFold(std::string job, std::int32_t world_size) : job_(std::move(job)), world_size_(world_size) {}

RankEvidence* CardFold::rank(std::int32_t number) {
  if (number < 0 || number >= kMostRanks) return nullptr;
  return &ranks_.try_emplace(number, capacity(world_size_)).first->second;
}

void CardFold::connected(std::int32_t number, const std::string& node, std::int64_t launch) {
  RankEvidence* one = rank(number);
  if (one == nullptr) return;
  if (launch > one->launch) *one = RankEvidence(capacity(world_size_));
  one->node = node;
  one->launch = launch;
}

void CardFold::step(std::int32_t number, const CardStep& step) {
  RankEvidence* one = rank(number);
  if (one == nullptr) return;
  one->steps.add(step);
  one->peak_bytes = std::max(one->peak_bytes, step.peak_bytes);
}

void CardFold::facts(std::int32_t number, api::RankFacts facts) {
  RankEvidence* one = rank(number);
  if (one == nullptr) return;
  one->facts = std::move(facts);
  one->trained_s = one->steps.trained_s();
}

void CardFold::on_node(const std::string& node, Fingerprint fingerprint) {
  if (std::cmp_less(nodes_.size(), kMostRanks) || nodes_.contains(node)) nodes_[node] = std::move(fingerprint);
}

void CardFold::activity(std::int32_t number, const api::LiveRank& activity, bool unknown_cupti) {
  RankEvidence* one = rank(number);
  if (one != nullptr) one->unknown_cupti = unknown_cupti;
  if (one == nullptr || activity.source != "kernels" || !activity.shares || activity.steps_measured == 0) return;
  const api::LiveShares& shares = *activity.shares;
  DeviceLook look{activity.step_ms.value_or(0), shares.computation, shares.exposed_communication, shares.exposed_copy,
                  shares.idle};
  look.kernels_per_step = static_cast<double>(activity.kernels_per_step.value_or(0));
  look.kernel_us = mean_kernel_us(activity.busiest);
  if (look.step_ms <= 0) return;
  look.kernels = busiest(activity.busiest);
  for (const KernelLook& kernel : look.kernels) remember(kernel, one->first_kernels);
  one->looks.push_back(look);
  if (one->looks.size() > RankEvidence::kMostLooks) one->looks.pop_front();
}

void CardFold::links(std::vector<CardLink> links) {
  links_ = std::move(links);
}

api::Card CardFold::card() const {
  return make_card({job_, world_size_, ranks_, links_, false, {}, nodes_});
}

}  // namespace trimtab::coordinator
