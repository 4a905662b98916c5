#include "jobs/near_hardware.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tuner/needed_costs.hpp"

namespace trimtab::coordinator {

namespace {

// Those that are read, the nearest first: what a database knows of fleets is large.
constexpr std::size_t kMostRead = 8;

struct Candidate {
  NearFound found;
  double steps = 0;
};

std::vector<Candidate> candidates(const std::vector<Fingerprint>& known, const Fingerprint& own) {
  std::vector<Candidate> near;
  for (const Fingerprint& one : known) {
    const auto apart = distance(one, own);
    if (!apart || apart->steps <= 0) continue;
    near.push_back({{hash(one), apart->differences, apart->doubt()}, apart->steps});
  }
  std::ranges::sort(near, {}, [](const Candidate& one) { return std::pair(one.steps, one.found.fingerprint); });
  if (near.size() > kMostRead) near.resize(kMostRead);
  return near;
}

}  // namespace

std::optional<NearCosts> read_near(const CostDatabase& costs, const NearFound& found) {
  auto read = costs.costs(found.fingerprint);
  if (!read.ok()) {
    spdlog::error("costs of near hardware {} cannot be read: {}", found.fingerprint, read.error().message);
    return std::nullopt;
  }
  return NearCosts{found, {found.fingerprint, found.doubt, std::move(read).value()}};
}

std::optional<NearCosts> find_near(const CostDatabase& costs, const Fingerprint& own, const Model& model,
                                   const Cluster& cluster, const Knobs& knobs, bool launches) {
  const auto known = costs.fingerprints();
  if (!known.ok()) {
    spdlog::error("fingerprints of known hardware cannot be read: {}", known.error().message);
    return std::nullopt;
  }
  const std::size_t all = tuner::needed_costs(model, cluster, knobs, {}, launches).size();
  std::vector<std::pair<std::size_t, NearCosts>> found;  // by what they know
  std::size_t most = 0;
  for (const Candidate& one : candidates(*known, own)) {
    auto near = read_near(costs, one.found);
    if (!near) continue;
    const std::size_t has = all - tuner::needed_costs(model, cluster, knobs, near->hardware.costs, launches).size();
    most = std::max(most, has);
    found.emplace_back(has, *std::move(near));
  }
  for (auto& [has, near] : found) {
    if (has > 0 && 2 * has >= most) return std::move(near);
  }
  return std::nullopt;
}

}  // namespace trimtab::coordinator
