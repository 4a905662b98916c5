#pragma once

// Gantt pictures of steps as the ranks' own ranges saw them, by plan: the measured beside the predicted timeline of the
// report. In memory only, bounded. Loop thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace trimtab::coordinator {

class MeasuredTimelines {
 public:
  static constexpr std::size_t kMaxPlans = 64;

  // One rank's step under the plan of `hash`. `bars_json` comes from a peer and is checked: a list of
  // [kind, begin_ns, end_ns]. A later picture of the same plan and rank replaces the earlier one.
  [[nodiscard]] Status add(const std::string& hash, std::int32_t rank, std::uint64_t begin_ns,
                           const std::string& bars_json);

  // A list of {stage, kind, microbatch, begin_ms, end_ms}, one row a stage (its first replica's); "[]" while a stage's
  // picture is missing. Clocks of one node are the same; those of several nodes are aligned at the step's beginning.
  [[nodiscard]] std::string timeline_json(const std::string& hash, const std::string& plan_json) const;

 private:
  struct Bar {
    std::string kind;
    double begin_ms = 0;
    double end_ms = 0;
  };
  struct Picture {
    std::uint64_t begin_ns = 0;
    std::vector<Bar> bars;
  };
  std::map<std::string, std::map<std::int32_t, Picture>> plans_;
};

}  // namespace trimtab::coordinator
