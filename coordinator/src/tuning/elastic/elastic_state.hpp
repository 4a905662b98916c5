#pragma once

// How a job that takes fewer nodes, or more, has been resized, and what is ready for the next time: the persisted part
// of Elastic. A plain value.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tuning/event.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {

// The best plan for one node fewer, as far as is known now.
struct Spare {
  PlanText plan;
  Predicted predicted;
  ClusterText cluster;  // that it is for
};

// The job went on with fewer nodes, or with more.
struct Resize {
  std::int64_t step = 0;
  std::string lost;  // nodes
  std::int32_t devices = 0;
  std::string plan_hash;
  std::string joined = {};          // nodes
  std::string outcome = {};         // of joined ones: "kept", "left: why"; empty = not known yet
  std::int32_t trials_before = -1;  // ids up to here were of the devices before
};

// What the job ran on before it was begun anew on more nodes; without nodes: it was not.
struct Before {
  std::vector<NodeShare> nodes;
  ClusterText cluster;
  std::int32_t ranks = 0;
  PlanText plan;
  Predicted predicted;
  Measured measured;
  std::map<std::int32_t, double> slow_devices;
};

struct ElasticState {
  Spare spare;
  std::vector<Resize> resizes;
  Before before;
};

}  // namespace trimtab::coordinator
