#pragma once

// A job as its findings look at it. Plain values; `evidence` outlives it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "card/evidence.hpp"
#include "card/rows.hpp"
#include "schema/api/card.hpp"
#include "schema/api/facts.hpp"

namespace trimtab::coordinator {

struct JobLook {
  const JobEvidence& evidence;
  api::RankFacts facts;  // of the first rank that tells any
  api::CardMemory memory;
  bool on_device = false;   // its work runs on a device: the host's parts say nothing of computation
  Rows steps = {};          // the host's parts
  Rows devices = {};        // looks at devices
  double microbatches = 1;  // in a step
  double samples = 0;       // of a rank in a microbatch; 0 = not known
  // Of a device; 0 = not known.
  double kernels_per_step = 0;
  double kernel_us = 0;

  // Where computation and communication are.
  [[nodiscard]] const Rows& work() const { return on_device ? devices : steps; }
  // Ranks that take the same samples.
  [[nodiscard]] std::int64_t ranks_of_replica() const;
  [[nodiscard]] std::size_t nodes() const;
  // Of a trace: its ranks send to each other, as the stages of a pipeline do. Which rank is of which stage is not told.
  [[nodiscard]] bool has_untold_stages() const;
  // " on node b", where there are several.
  [[nodiscard]] std::string node_words(std::int32_t rank) const;
  // The share of a step in which ranks wanted a CPU and had none; 0 where it is not told.
  [[nodiscard]] double crowding() const;
};

[[nodiscard]] JobLook look_at(const JobEvidence& job);

}  // namespace trimtab::coordinator
