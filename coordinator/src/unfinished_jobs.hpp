#pragma once

// Which jobs are not over, as agents are told: what those have left on a node is kept there, however long it lies.
// Event loop's thread only.

#include <cstddef>
#include <string>

#include "job_table.hpp"

namespace trimtab::coordinator {

class UnfinishedJobs {
 public:
  // Where there are more, agents are told that not all are known.
  static constexpr std::size_t kMost = 10'000;

  // `jobs` must outlive it.
  explicit UnfinishedJobs(const JobTable& jobs) : jobs_(jobs) {}

  // Looks again; true where something has changed since the last look.
  [[nodiscard]] bool look();
  // What was seen then: a ToAgent message as it is sent.
  [[nodiscard]] const std::string& frame() const { return frame_; }

 private:
  const JobTable& jobs_;
  std::string frame_;
};

}  // namespace trimtab::coordinator
