#pragma once

// What the card knows of a job: per rank, and of its links. Plain values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "card/kept_steps.hpp"
#include "schema/api/card.hpp"
#include "schema/api/facts.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::coordinator {

// One link, inside of a node (`peer` empty) or between two, as a probe found it. The rest of the job's own traffic is
// accounted for by the prober.
struct CardLink {
  std::string node;
  std::string peer;
  double bytes_per_s = 0;
  double spread = 0;               // relative, of the probe's repetitions
  double earlier_bytes_per_s = 0;  // when the job's links were looked at first; 0 = this is that look
};

// The calls of one kernel in a look.
struct KernelLook {
  std::size_t signature = 0;  // a hash of name and shape
  std::uint32_t count = 0;    // 0 = none
  float us = 0;               // their mean
};

// What the device did in a step, a mean over its latest ones: shares of it, from kernels that were recorded.
struct DeviceLook {
  double step_ms = 0;
  double computation = 0;
  double exposed_communication = 0;
  double exposed_copy = 0;
  double idle = 0;
  double kernels_per_step = 0;             // 0 = not known
  double kernel_us = 0;                    // their mean; 0 = not known
  std::array<KernelLook, 3> kernels = {};  // the busiest; no collectives
};

// What a kernel took in the first looks that it was seen in: a mean.
struct FirstKernel {
  double us = 0;
  int looks = 0;
};

struct RankEvidence {
  static constexpr std::size_t kMostLooks = 32;

  explicit RankEvidence(std::size_t capacity, std::int64_t warmup = KeptSteps::kWarmup) : steps(capacity, warmup) {}

  std::string node;
  std::int64_t launch = 0;
  KeptSteps steps;
  api::RankFacts facts;
  double trained_s = 0;          // until they were told
  std::deque<DeviceLook> looks;  // the latest last
  std::int64_t peak_bytes = 0;
  bool unknown_cupti = false;
  std::map<std::size_t, FirstKernel> first_kernels;  // by signature
};

// All of it.
struct JobEvidence {
  const std::string& job;
  std::int32_t world_size;
  const std::map<std::int32_t, RankEvidence>& ranks;
  const std::vector<CardLink>& links;
  bool traced = false;  // by a profiler: few steps, and all of them
  // Of a trace, the largest first.
  std::vector<api::CardCommunication> communication = {};
  // Nodes of ranks, as far as they are known.
  std::map<std::string, Fingerprint> nodes = {};
};

}  // namespace trimtab::coordinator
