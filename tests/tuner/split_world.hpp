#pragma once

// Random worlds in which stages may be split in more ways than into replicas.

#include "world.hpp"

namespace trimtab::tuner::test {

// Operators measured at 2 and 4 tensor-parallel ranks, some along a second dimension, and every collective.
void add_splits(Random& random, World& world);
// Copies between devices and hosts, and the optimizer on the host: what memory switches are priced by.
void add_host_copies(Random& random, World& world);
// Slowdowns that training has seen, by kernel class, bytes, primitive and placement, and of any two primitives at once;
// operators of kinds that have classes.
void add_training_slowdowns(Random& random, World& world);
// random_world() with add_splits(), and in some worlds two nodes with a slower link between them.
[[nodiscard]] World random_split_world(Random& random, const RandomWorldOptions& options = {});

}  // namespace trimtab::tuner::test
