#pragma once

// The searches that are asked for, by number: one for the job as it runs, and beside it one for each other purpose. A
// search for the job makes those beside it worthless.

#include <cstdint>
#include <map>
#include <optional>

#include "tuning/outcome.hpp"

namespace trimtab::coordinator {

// What survives the coordinator.
struct SearchCounts {
  std::uint64_t searches = 0;
  std::uint64_t evaluations = 0;
  double seconds = 0;
};

class SearchRequests {
 public:
  explicit SearchRequests(SearchCounts& counts) : counts_(counts) {}

  void ask(SearchFor purpose, Outcome& out);
  // What the answer is for; nothing = it is not the latest search's.
  [[nodiscard]] std::optional<SearchFor> answered(const SearchFinished& search);
  // A search for the purpose is asked for and not answered.
  [[nodiscard]] bool is_asked(SearchFor purpose) const { return beside_.contains(purpose); }
  // It never will be, another was asked for since: it is given up. False where that is not so.
  [[nodiscard]] bool take_lost(SearchFor purpose);
  // The latest search is one beside the job's, and not answered.
  [[nodiscard]] bool searches_beside() const;

 private:
  SearchCounts& counts_;
  std::map<SearchFor, std::uint64_t> beside_;
};

}  // namespace trimtab::coordinator
