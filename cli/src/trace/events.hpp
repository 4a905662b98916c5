#pragma once

// What ranks recorded, as a trace event file (Chrome's JSON, which Perfetto opens), written as it comes: memory does
// not grow with the file. A process is a rank; its threads are the job's threads with their ranges, the device's
// streams with kernels and copies, and the communicators with their collectives. Times are microseconds since the first
// record.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wire/agent.pb.h"

namespace trimtab::cli {

struct TracePlace {
  std::int64_t thread = 0;  // the track
  std::uint64_t time_ns = 0;
};
struct TraceArrow {
  TracePlace from;
  TracePlace to;
};

// Arrows from a launch to its kernel, of one process: joins launches, the ranges that they were made in and kernels, in
// whatever order they come. Bounded: of each the latest are remembered; what is forgotten has no arrow, and is counted.
// Pure.
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

class TraceEvents {
 public:
  // Begins the document. `out` must outlive it.
  explicit TraceEvents(std::ostream& out);

  // So much is taken off the times of a node's records: how far its clock is ahead of the others'. Before its first
  // chunk.
  void set_clock(const std::string& node, std::int64_t ahead_ns) { clocks_ahead_[node] = ahead_ns; }
  // False, with nothing written, for a chunk that contradicts itself.
  [[nodiscard]] bool add(const wire::TraceChunk& chunk);
  // Ends the document. `other_json` is an object: what else the file should say of itself.
  void finish(const std::string& other_json);

  struct Counts {
    std::uint64_t records = 0;
    std::uint64_t ranges = 0;
    std::uint64_t kernels = 0;
    std::uint64_t collectives = 0;
    std::uint64_t arrows = 0;
    std::uint64_t malformed = 0;  // chunks
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::size_t processes() const { return processes_.size(); }

 private:
  struct Process {
    std::uint32_t number = 0;  // in the file
    std::set<std::int64_t> tracks;
    std::map<std::string, std::int64_t> communicators;
    std::map<std::uint32_t, std::string> devices;  // UUIDs
    TraceFlows flows;
  };
  // One record with its texts.
  struct Record {
    const wire::TraceRecord& fields;
    std::string_view name;
    std::string_view domain;
    std::uint64_t begin_ns;
    [[nodiscard]] std::uint32_t detail(int index) const {
      return index < fields.detail_size() ? fields.detail(index) : 0;
    }
  };
  Process& process_of(const wire::TraceChunk& chunk);
  void add(Process& process, const Record& record);
  void add_range(Process& process, const Record& record);
  void add_on_stream(Process& process, const Record& record);
  void add_collective(Process& process, const Record& record);
  void event(const Process& process, std::string_view phase, std::string_view name, std::string_view category,
             std::int64_t track, std::uint64_t begin_ns, const std::string& more);
  void slice(const Process& process, const Record& record, std::string_view name, std::string_view category,
             std::int64_t track, const std::string& arguments);
  void arrows(const Process& process, const std::vector<TraceArrow>& found);
  void name_track(Process& process, std::int64_t track, const std::string& name);
  void metadata(const Process& process, std::string_view what, std::int64_t track, const std::string& name);
  [[nodiscard]] std::string time(std::uint64_t nanoseconds) const;
  void begin_event();

  std::ostream& out_;
  bool first_ = true;
  std::uint64_t base_ns_ = 0;
  std::map<std::string, std::int64_t> clocks_ahead_;  // by node
  std::map<std::string, Process> processes_;          // by node, rank and pid
  std::uint64_t next_arrow_ = 0;
  std::uint64_t next_async_ = 0;
  Counts counts_;
};

}  // namespace trimtab::cli
