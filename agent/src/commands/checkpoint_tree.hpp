#pragma once

// A copy of a job's checkpoint that nothing written to it can reach out of: a link to a place outside becomes what it
// stands for, one to a place inside leads to the copy of that place, and one that stands for nothing is left out. Any
// thread.

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace trimtab::agent {

// What the copying thread and its owner share.
struct CopyWatch {
  std::atomic<bool> cancelled = false;  // looked at every 16 MiB and every entry
  std::atomic<std::uint64_t> bytes = 0;
};

// `source` is a file or a directory, or a link to one; `destination` must not exist. On failure, cancelling included,
// what there is of the copy stays and is the caller's to remove.
[[nodiscard]] Status copy_tree(const std::string& source, const std::string& destination, CopyWatch& watch);

}  // namespace trimtab::agent
