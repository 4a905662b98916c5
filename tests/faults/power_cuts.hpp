#pragma once

// Each runs a part of the daemons' storage for some lives, which end by a cut of the power or a kill at a seeded point.

#include <cstdint>

namespace trimtab::test {

void agent_cuts(std::uint64_t seed);
void coordinator_cuts(std::uint64_t seed);
void upgrade_cuts(std::uint64_t seed);

}  // namespace trimtab::test
