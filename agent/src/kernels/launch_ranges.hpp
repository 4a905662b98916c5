#pragma once

// What a communication was for, by the range that handed it out (docs/protocols.md, "Ranges"): a launch names the
// innermost range that was open, and the ranges around that one are found by their times. Bounded: of many ranges the
// oldest are forgotten, and nothing is said of them. Pure. Single-threaded.

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "records/step_shares.hpp"

namespace trimtab::agent {

class LaunchRanges final {
 public:
  explicit LaunchRanges(std::size_t most = std::size_t{1} << 16) : most_(most) {}  // a power of two

  // In the order in which the ranges of a thread ended.
  void add(const RangeRecord& record);
  // What was handed out in that range, a transfer or not.
  [[nodiscard]] Purpose purpose_of(std::uint32_t range) const;
  struct Transfer {
    bool sends = false;
    std::int64_t bytes = 0;
    std::int64_t peer = -1;  // the other end's rank in its communicator; -1 = not known
  };
  // Where it, or one around it, is a transfer's.
  [[nodiscard]] std::optional<Transfer> transfer_of(std::uint32_t range) const;

 private:
  struct Range {
    std::uint32_t id = 0;
    std::uint32_t around = 0;  // the id of the innermost range around it that has one; 0 = not known
    std::uint32_t thread = 0;
    RangeName::Kind kind = RangeName::Kind::kOther;
    bool sends = false;
    std::uint64_t end_ns = 0;
    std::int64_t payload = 0;
  };
  struct Ended {  // waits for the range around it
    std::uint32_t id;
    std::uint16_t depth;
    std::uint64_t begin_ns;
  };
  struct Step {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
    std::uint32_t thread;
    std::uint64_t last_pass_ns;
  };
  [[nodiscard]] const Range* find(std::uint32_t id) const;
  void keep(const RangeRecord& record, std::uint32_t id);
  [[nodiscard]] Purpose between_passes(const Range& range) const;
  // The first of the range and those around it of which this is true.
  template <typename Wanted>
  [[nodiscard]] const Range* around(std::uint32_t id, const Wanted& wanted) const;

  std::size_t most_;
  std::vector<Range> ranges_;                                    // by the low bits of their ids, made with the first
  std::unordered_map<std::uint32_t, std::vector<Ended>> ended_;  // by thread
  std::vector<Step> steps_;                                      // the latest, by their ends
  std::uint64_t last_pass_ns_ = 0;                               // of the step that runs
  std::uint32_t passing_ = 0;                                    // its thread
};

// What a transfer takes once both of its ends are there. Whoever comes second to a transfer does not wait for the
// other. In a pipeline that fills and drains each step that is a stage for some of what it sends. So of the latest
// sends of the same size to the same other end the shortest are those, where a few are about equally short and nothing
// was received faster: the middle one of them. Where the other end is not known, all are taken to be equally far away.
// Bounded. Pure.
class WireTimes final {
 public:
  static constexpr std::size_t kLeast = 8;    // sends
  static constexpr std::size_t kLatest = 64;  // of them
  static constexpr std::size_t kAgree = 3;
  static constexpr double kAgreeWithin = 0.15;
  static constexpr std::size_t kMost = 1024;  // sizes

  void add(const LaunchRanges::Transfer& transfer, std::uint64_t length_ns);
  [[nodiscard]] std::optional<std::uint64_t> of(const LaunchRanges::Transfer& transfer) const;
  void clear() { times_.clear(); }

 private:
  struct Times {
    std::deque<std::uint64_t> sent;
    std::deque<std::uint64_t> received;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Times> times_;  // by peer and bytes
};

}  // namespace trimtab::agent
