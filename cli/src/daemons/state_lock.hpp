#pragma once

// One command at a time starts, stops or counts the daemons of a state directory.

#include <optional>

#include "base/clock.hpp"
#include "files.hpp"

namespace trimtab::cli {

// Held until the descriptor is closed; the kernel lets go of it when its owner dies. Makes the directory where it was
// not there, and refuses one that somebody else could have prepared (check_own_state). Waits for who holds it, for ever
// or so long.
[[nodiscard]] Result<Descriptor> lock_state(const std::string& directory, const Clock& clock,
                                            std::optional<Nanoseconds> patience = std::nullopt);

}  // namespace trimtab::cli
