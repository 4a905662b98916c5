#pragma once

// The files over which a launch's ranks find each other: DIRECTORY/RUN-..., made by the ranks. Those of runs that are
// over are of no use to anybody.

#include <cstdint>
#include <set>
#include <string>

namespace trimtab::coordinator {

// Removes the files of all runs but these. What cannot be removed stays, and is tried again next time.
void keep_rendezvous_files_of(const std::string& directory, const std::set<std::int64_t>& runs);

}  // namespace trimtab::coordinator
