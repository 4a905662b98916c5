#pragma once

// A file of a MiB beside the databases, which is given up while they are opened. A disk that is full when a coordinator
// ends has no page for the next one's locks and indexes of logs: with the reserve it starts, and says why it stores
// nothing.

#include <string>

#include "base/result.hpp"

namespace trimtab::coordinator {

// Gives it up, where it is there.
void release_reserve(const std::string& directory);
// Takes it again, or as much of it as the disk has; kUnavailable where that is nothing.
[[nodiscard]] Status hold_reserve(const std::string& directory);

}  // namespace trimtab::coordinator
