#include "costs/collective_times.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "schema/nccl.hpp"

namespace trimtab::agent {

namespace {

constexpr double kBounds[] = {10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 0.001, 0.0025, 0.005,
                              0.01,  0.025, 0.05,  0.1,    0.25,   0.5,    1,     5};

struct SizeBucket {
  std::int64_t below;
  const char* label;
};
constexpr std::array<SizeBucket, 6> kSizes{{{std::int64_t{4} << 10, "below_4KiB"},
                                            {std::int64_t{64} << 10, "below_64KiB"},
                                            {std::int64_t{1} << 20, "below_1MiB"},
                                            {std::int64_t{16} << 20, "below_16MiB"},
                                            {std::int64_t{256} << 20, "below_256MiB"},
                                            {std::numeric_limits<std::int64_t>::max(), "from_256MiB"}}};

std::size_t size_bucket(std::int64_t bytes) {
  const auto* found = std::ranges::find_if(kSizes, [&](const SizeBucket& one) { return bytes < one.below; });
  return std::min<std::size_t>(static_cast<std::size_t>(found - kSizes.begin()), kSizes.size() - 1);
}

}  // namespace

CollectiveTimes::Job& CollectiveTimes::job_of(const std::string& name) {
  if (!jobs_.contains(name) && jobs_.size() >= kMostJobs) {
    jobs_.erase(std::ranges::min_element(jobs_, {}, [](const auto& one) { return one.second.touched; }));
  }
  Job& job = jobs_[name];
  job.touched = ++turn_;
  return job;
}

void CollectiveTimes::add(const std::string& job, const std::vector<CollectiveStamp>& stamps) {
  auto& times = job_of(job).times;
  for (const CollectiveStamp& stamp : stamps) {
    if (stamp.function >= nccl::count_of(nccl::kFunctions) || stamp.end_ns < stamp.begin_ns) continue;
    auto& histogram =
        times.try_emplace({stamp.function, size_bucket(stamp.bytes)}, net::Histogram(kBounds)).first->second;
    histogram.observe(static_cast<double>(stamp.end_ns - stamp.begin_ns) / 1e9);
  }
}

void CollectiveTimes::append(std::vector<net::Metric>& into) const {
  for (const auto& [name, job] : jobs_) {
    for (const auto& [kind, histogram] : job.times) {
      const std::string labels = "{job=\"" + net::label_value(name) + "\",collective=\"" +
                                 nccl::kFunctions[kind.first].ours + "\",size=\"" + kSizes[kind.second].label + "\"}";
      histogram.append(into, "trimtab_agent_collective_seconds",
                       "Time of sampled collectives, waiting for later ranks included.", labels);
    }
  }
}

}  // namespace trimtab::agent
