#pragma once

// What a job's ranks run on, and what of that is not measured. Pure.

#include <vector>

#include "card/evidence.hpp"
#include "schema/api/card.hpp"

namespace trimtab::coordinator {

// The most ranks first. Nothing of ranks of which neither they nor their agent say anything.
[[nodiscard]] std::vector<api::CardDevices> devices_of(const JobEvidence& job);

}  // namespace trimtab::coordinator
