#pragma once

// What a job takes of the coordinator's memory. A job that goes on has its documents there: what its owner handed in,
// its model, its plans as texts and as they were read. One that is over leaves them to the database alone. Pure.

#include <cstdint>
#include <string>

#include "tuning/state.hpp"

namespace trimtab::coordinator {

// An estimate from above, by the lengths of texts and the number of entries.
[[nodiscard]] std::uint64_t held_bytes(const TuningState& state);
// Of a job that has just been handed in, with what its first search adds.
[[nodiscard]] std::uint64_t needed_bytes(const Job& job);

// Leaves what lists of jobs and metrics tell. What is left is not to be stored. REQUIRES: the job is over.
void let_documents_go(TuningState& state);

}  // namespace trimtab::coordinator
