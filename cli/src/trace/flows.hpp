#pragma once

// Arrows from a launch to its kernel: joins launches, the ranges that they were made in and kernels, in whatever order
// they come. Bounded: of each the latest are remembered; what is forgotten has no arrow, and is counted. Pure.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace trimtab::cli {

struct TracePlace {
  std::int64_t thread = 0;  // the track
  std::uint64_t time_ns = 0;
};
struct TraceArrow {
  TracePlace from;
  TracePlace to;
};

// Of one process.
class TraceFlows {
 public:
  explicit TraceFlows(std::size_t most = std::size_t{1} << 18) : most_(most) {}

  // Each may complete arrows.
  [[nodiscard]] std::vector<TraceArrow> add_range(std::uint32_t id, TracePlace begin);
  [[nodiscard]] std::vector<TraceArrow> add_launch(std::uint32_t correlation, std::uint32_t range);
  [[nodiscard]] std::vector<TraceArrow> add_kernel(std::uint32_t correlation, TracePlace begin);
  // Kernels that no arrow has been drawn to.
  [[nodiscard]] std::uint64_t without_arrow() const { return kernels_seen_ - arrows_; }

 private:
  template <typename Value>
  class Latest {
   public:
    void put(std::uint32_t key, Value value, std::size_t most) {
      if (values_.insert_or_assign(key, value).second) order_.push_back(key);
      if (order_.size() <= most) return;
      values_.erase(order_.front());
      order_.pop_front();
    }
    [[nodiscard]] const Value* find(std::uint32_t key) const {
      const auto found = values_.find(key);
      return found == values_.end() ? nullptr : &found->second;
    }
    [[nodiscard]] Value* find(std::uint32_t key) {
      const auto found = values_.find(key);
      return found == values_.end() ? nullptr : &found->second;
    }

   private:
    std::unordered_map<std::uint32_t, Value> values_;
    std::deque<std::uint32_t> order_;
  };

  std::size_t most_;
  Latest<TracePlace> ranges_;
  Latest<std::uint32_t> launches_;                     // correlation to range
  Latest<std::vector<TracePlace>> kernels_;            // by correlation, while their launch is missing
  Latest<std::vector<TracePlace>> waiting_for_range_;  // by range
  std::uint64_t kernels_seen_ = 0;
  std::uint64_t arrows_ = 0;
};

}  // namespace trimtab::cli
