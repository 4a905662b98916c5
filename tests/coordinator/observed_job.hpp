#pragma once

// A job that is launched and watched, and never tuned.

#include <cstdint>
#include <string>

#include "schema/job.hpp"

namespace trimtab::coordinator {

inline Job job_of(const std::string& name, std::int32_t ranks) {
  Job job;
  job.name = name;
  job.mode = JobMode::kObserve;
  job.delivery = Delivery::kRestart;
  job.world_size = ranks;
  job.steps = 10;
  job.working_directory = "/";
  job.train = {"train"};
  return job;
}

}  // namespace trimtab::coordinator
