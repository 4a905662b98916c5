#pragma once

// The table of choices that a launch gives its ranks (schema/nccl_table.hpp), read once into memory of our own. A
// mapping of the file would do the same until somebody truncates it, which would kill the training process.

#include <cstdint>

#include "schema/nccl_table.hpp"

namespace trimtab::nccl {

struct LoadedTable {
  TableView view;               // empty when there is no table
  const char* fault = nullptr;  // why a table that was named is not used
};

// `path` nullptr or empty = there is none. `id` is the table's id in hexadecimal, as the launch said; a file with
// another id is of another launch and is refused. The memory is read-only and stays for good.
LoadedTable load_table(const char* path, const char* id);

}  // namespace trimtab::nccl
