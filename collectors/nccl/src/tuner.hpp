#pragma once

// The tuner plugin: chooses algorithm, protocol and channels from the launch's table, and nothing where the table has
// no entry, or there is none. Every call returns success. What is chosen depends on the table, the communicator's size
// and the call's arguments alone, all of which are the same on every rank.

#include <cstdint>

#include "abi.hpp"
#include "schema/nccl_table.hpp"

namespace trimtab::nccl {

// A communicator's size, as the context that NCCL keeps for us; both below 2^31. Never nullptr.
void* tuner_context(std::uint64_t ranks, std::uint64_t nodes);

// One decision. `costs` is NCCL's table, algorithms × protocols. False when nothing was changed: no entry, or one that
// this communicator cannot follow (its cost is negative there).
struct CostTable {
  float* costs = nullptr;
  int algorithms = 0;
  int protocols = 0;
};
bool choose(const TableView& table, const void* context, int function, std::uint64_t bytes, const CostTable& costs,
            int* channels);

}  // namespace trimtab::nccl

// What NCCL looks for by name.
extern "C" {
extern const trimtab::nccl::TunerV4 ncclTunerPlugin_v4 __attribute__((visibility("default")));
extern const trimtab::nccl::TunerV5 ncclTunerPlugin_v5 __attribute__((visibility("default")));
}
