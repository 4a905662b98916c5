#pragma once

// A stage as a chain of operators, each run in one of several ways, recomputed or not: which of them take the least
// time under a limit of bytes, where times and bytes add up and a change of layout between neighbours takes time.
// Labels (time, bytes) operator by operator, without those that another label of the same way beats in both. Pure.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trimtab::tuner {

struct AddedCost {
  double time = std::numeric_limits<double>::infinity();  // infinite: the operator cannot be run so
  double bytes = 0;
};

struct StageTerms {
  std::size_t operators = 0, ways = 0, layouts = 0;
  std::vector<std::size_t> layout_of;  // by way: ways of one layout follow each other without a change
  std::vector<AddedCost> kept, again;  // [operator][way]: not recomputed, recomputed
  std::vector<double> change;          // ms, [operator][layout before it][its own]
};

// Of a whole stage. Under `ample`, bytes make no difference; `ample` is at most `limit`.
struct ByteWindow {
  double ample = 0;
  double limit = std::numeric_limits<double>::infinity();
};

struct OperatorWay {
  std::uint32_t way = 0;
  bool again = false;
  bool operator==(const OperatorWay&) const = default;
};

struct StageWays {
  double time = 0, bytes = 0;
  std::vector<OperatorWay> operators;
};

inline constexpr std::size_t kStageLabels = 64;

// Fastest first, each with fewer bytes than the one before it; empty where nothing is within the limit. The first is
// the best there is, and all of them are, unless some way of some operator had more than `labels` labels: of those as
// many are kept, evenly, the fastest and the leanest among them.
[[nodiscard]] std::vector<StageWays> solve_stage(const StageTerms& terms, const ByteWindow& window,
                                                 std::size_t labels = kStageLabels);

}  // namespace trimtab::tuner
