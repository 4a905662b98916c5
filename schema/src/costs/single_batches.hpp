#pragma once

// Batches that are not folded: one row each, with their costs as text.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "costs/cost_tables.hpp"
#include "schema/database.hpp"
#include "schema/statistics.hpp"

namespace trimtab::cost_tables {

// One cost of a batch, as in its row's text: the key's id in this database.
struct KeyedCost {
  std::int64_t key = 0;
  Statistics statistics;
};

struct SingleBatch {
  std::int64_t origin = 0;
  std::int64_t number = 0;
  std::string fingerprint;  // hash
  std::string source;
  std::string costs;  // text
};

// One line: the key's id, a space, the statistics.
void append_cost(std::string& costs, std::int64_t key, const Statistics& statistics);
// Of the keys that are wanted; unset = of all.
[[nodiscard]] Result<std::vector<KeyedCost>> decode_costs(std::string_view costs,
                                                          const std::function<bool(std::int64_t key)>& wanted = {});

// The keys alone: quicker by far.
[[nodiscard]] Result<std::vector<std::int64_t>> decode_keys(std::string_view costs);

// REQUIRES: none of them is there.
[[nodiscard]] Status insert_batches(Database& database, std::vector<SingleBatch> batches);
// Which of an origin's batches after `after`, up to and with `last`, are there; in their order, at most 64 of them.
[[nodiscard]] Result<std::vector<SingleBatch>> next_batches(const Database& database, const Origin& origin,
                                                            std::int64_t after, std::int64_t last);

// What is wanted of a batch; empty = any.
struct BatchFilter {
  std::string fingerprint;  // hash
  std::string source;
};
// Calls `each` with the batches that have costs, some at a time; the caller holds a snapshot.
[[nodiscard]] Status read_batches(const Database& database, const BatchFilter& filter,
                                  const std::function<Status(const SingleBatch&)>& each);

}  // namespace trimtab::cost_tables
