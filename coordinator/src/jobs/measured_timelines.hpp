#pragma once

// Gantt pictures of steps as the ranks' own ranges saw them, by plan: the measured beside the predicted timeline of the
// report. In memory only; a hundred kilobytes a stage of each plan at most. Loop thread only.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/api/timeline.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

class MeasuredTimelines {
 public:
  // One rank's step under `plan`. `bars_json` comes from a peer and is checked: a list of [kind, begin_ns, end_ns]. A
  // later picture of the same plan and rank replaces the earlier one. Of ranks that timeline() does not draw
  // nothing is kept.
  [[nodiscard]] Status add(const PlanText& plan, std::int32_t rank, std::uint64_t begin_ns,
                           const std::string& bars_json);
  // Plans whose hashes are not `wanted` any more go.
  void keep(const std::function<bool(const std::string& hash)>& wanted);
  [[nodiscard]] std::size_t pictures() const;

  // One row a stage (its first replica's); empty while a stage's picture is missing. Clocks of one node are the same;
  // those of several nodes are aligned at the step's beginning.
  [[nodiscard]] api::Timeline timeline(const std::string& hash) const;

 private:
  struct Bar {
    TimelineKind kind = TimelineKind::kForward;
    double begin_ms = 0;
    double end_ms = 0;
  };
  // Of a stage, by its first device; without bars until one comes.
  struct Picture {
    std::int32_t rank = 0;
    std::uint64_t begin_ns = 0;
    std::vector<Bar> bars;
  };
  std::map<std::string, std::vector<Picture>> plans_;  // by hash; in the order of the stages
};

}  // namespace trimtab::coordinator
