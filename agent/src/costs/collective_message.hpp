#pragma once

// A rank's sampled collectives as a message to the coordinator. Pure.

#include <cstdint>
#include <vector>

#include "costs/collective_samples.hpp"
#include "costs/cost_batches.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

[[nodiscard]] wire::FromAgent stamps_message(const CostOwner& owner, std::uint32_t rank,
                                             const std::vector<CollectiveStamp>& stamps);

}  // namespace trimtab::agent
