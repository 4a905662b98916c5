#pragma once

// Jobs on a page of metrics that every user of the machine may read: in the place of a job's name stands a label that
// tells jobs apart, stays the same, and says nothing of them to who has not the agent's key.

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "net/metric_text.hpp"

namespace trimtab::agent {

class OpaqueJobs {
 public:
  // The key is in the file, which its user alone may read; made where there is none.
  [[nodiscard]] static Result<OpaqueJobs> open(const std::string& path);
  explicit OpaqueJobs(std::string key) : key_(std::move(key)) {}

  // Every label `job`.
  void hide(std::vector<net::Metric>& metrics) const;

 private:
  [[nodiscard]] std::string hidden(const std::string& labels) const;
  [[nodiscard]] std::string label_of(const std::string& job) const;

  std::string key_;
};

}  // namespace trimtab::agent
