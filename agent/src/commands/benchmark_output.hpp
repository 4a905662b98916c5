#pragma once

// What a benchmark command prints, from all ranks of it on this node, folded into statistics by cost
// (docs/protocols.md, "The benchmark command"). Pure. Memory is bounded: by the number of items, and of costs.

#include <set>

#include "schema/cost.hpp"

namespace trimtab::agent {

// How many items a requests document has.
[[nodiscard]] Result<std::uint32_t> count_items(std::string_view requests_json);

struct ItemError {
  std::uint32_t item = 0;
  std::uint32_t rank = 0;
  std::string message;
};

class BenchmarkFold {
 public:
  static constexpr std::size_t kMaxCosts = 65536;

  BenchmarkFold(std::uint32_t items, std::uint32_t ranks) : items_(items), ranks_(ranks) {}

  // One line of a rank's standard output. Lines that are not JSON objects are log text and pass.
  void line(std::uint32_t rank, std::string_view text);

  // Items that every rank here has finished or given up.
  [[nodiscard]] std::uint32_t items_done() const;
  [[nodiscard]] std::uint32_t items() const { return items_; }
  // A pass of which the launch was told, too, was measured behind a cover.
  [[nodiscard]] std::vector<Cost> costs() const;
  [[nodiscard]] const std::vector<ItemError>& errors() const { return errors_; }
  // Lines that were JSON objects and yet not understood, with the first of the reasons.
  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }
  [[nodiscard]] const std::string& first_malformed() const { return first_malformed_; }

 private:
  void finished(std::uint32_t rank, std::uint32_t item);
  [[nodiscard]] bool tells_launch_of(const CostKey& key) const;
  void reject(const std::string& why) {
    if (malformed_++ == 0) first_malformed_ = why;
  }

  std::uint32_t items_;
  std::uint32_t ranks_;
  std::map<std::pair<CostKey, CostSource>, Statistics> costs_;
  std::map<std::uint32_t, std::set<std::uint32_t>> done_;  // item to ranks
  std::vector<ItemError> errors_;
  std::uint64_t malformed_ = 0;
  std::string first_malformed_;
};

}  // namespace trimtab::agent
