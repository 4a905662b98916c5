#pragma once

// What ranks recorded, as a trace event file (Chrome's JSON, which Perfetto opens), written as it comes: memory does
// not grow with the file. A process is a rank; its threads are the job's threads with their ranges, the device's
// streams with kernels and copies, and the communicators with their collectives. Times are microseconds since the first
// record.

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>

#include "trace/flows.hpp"
#include "wire/agent.pb.h"

namespace trimtab::cli {

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
