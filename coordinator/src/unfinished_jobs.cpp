#include "unfinished_jobs.hpp"

#include <utility>

#include "wire/agent.pb.h"

namespace trimtab::coordinator {

bool UnfinishedJobs::look() {
  wire::ToAgent message;
  wire::UnfinishedJobs& unfinished = *message.mutable_unfinished_jobs();
  unfinished.set_complete(jobs_.knows_all());
  for (const auto& [name, job] : jobs_.jobs()) {
    if (job->active()) unfinished.add_jobs(name);
  }
  if (static_cast<std::size_t>(unfinished.jobs_size()) > kMost) {
    unfinished.set_complete(false);
    unfinished.clear_jobs();
  }
  const std::string before = std::exchange(frame_, message.SerializeAsString());
  return frame_ != before;
}

}  // namespace trimtab::coordinator
