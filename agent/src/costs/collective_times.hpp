#pragma once

// How long the node's sampled collectives take, as histograms by job, function and size. Bounded: jobs beyond the limit
// push out the one that was silent longest. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "costs/collective_samples.hpp"
#include "net/metric_text.hpp"

namespace trimtab::agent {

class CollectiveTimes final {
 public:
  static constexpr std::size_t kMostJobs = 8;

  // Waiting for later ranks is in a collective's time.
  void add(const std::string& job, const std::vector<CollectiveStamp>& stamps);
  void append(std::vector<net::Metric>& into) const;

 private:
  struct Job {
    std::uint64_t touched = 0;
    std::map<std::pair<std::uint8_t, std::size_t>, net::Histogram> times;  // by function and size bucket
  };
  Job& job_of(const std::string& name);

  std::map<std::string, Job> jobs_;
  std::uint64_t turn_ = 0;
};

}  // namespace trimtab::agent
