#pragma once

// What one training step of one rank looked like: the bars of a Gantt picture, from the rank's records. One step is
// kept for each epoch, the fourth, when warm-up is over. Pure; memory is bounded. Single-threaded.

#include "records/ring_reader.hpp"
#include "schema/timeline.hpp"

namespace trimtab::agent {

// `bars_json` is a list of [kind, begin_ns, end_ns], times since begin_ns, in order of their beginnings. Kinds are the
// names of TimelineKind.
struct StepPicture {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
  std::uint64_t begin_ns = 0;  // CLOCK_REALTIME, so that ranks of one node share it
  std::string bars_json;
};

class StepTimeline final {
 public:
  static constexpr std::size_t kMaxBars = 4096;

  // The epoch that runs before any `switch` range is seen.
  void begin_epoch(std::uint64_t epoch);
  // The picture that this record completes, if it does.
  [[nodiscard]] std::optional<StepPicture> add(const RangeRecord& record);

 private:
  struct Bar {
    TimelineKind kind;
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };
  [[nodiscard]] static std::optional<TimelineKind> kind_of(const RangeName& range);
  [[nodiscard]] StepPicture picture(const RangeRecord& step);
  [[nodiscard]] std::vector<Bar> merged(const RangeRecord& step);
  [[nodiscard]] static std::string bars_json(const std::vector<Bar>& bars, std::uint64_t begin_ns);

  std::uint64_t epoch_ = 0;
  int steps_ = 0;  // of this epoch
  std::vector<Bar> bars_;
};

}  // namespace trimtab::agent
