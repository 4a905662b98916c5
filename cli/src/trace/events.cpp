#include "trace/events.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "json_text.hpp"
#include "schema/record.hpp"

namespace trimtab::cli {

namespace {

// Tracks of a process in the file; readers keep 32 bits. Kernel threads are below 2^22; the others stand beyond.
constexpr std::int64_t kStreams = std::int64_t{1} << 24;
constexpr std::int64_t kCollectives = std::int64_t{1} << 28;
constexpr std::int64_t kCollector = std::int64_t{1} << 29;

constexpr std::array<const char*, 7> kAlgorithms = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                                    "nvls_tree", "pat"};
constexpr std::array<const char*, 3> kProtocols = {"ll", "ll128", "simple"};

std::string json_string(std::string_view text) {
  return json_text(nlohmann::json(text));
}

template <std::size_t Count>
std::string named(const std::array<const char*, Count>& names, std::uint32_t index) {
  return index < Count ? json_string(names[index]) : "null";
}

std::string triple(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
}

std::string signed_time(bool negative, std::uint64_t nanoseconds) {
  std::string fraction = std::to_string(nanoseconds % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return (negative ? "-" : "") + std::to_string(nanoseconds / 1000) + "." + fraction;
}

bool usable(const wire::TraceChunk& chunk, const wire::TraceRecord& record) {
  const auto names = static_cast<std::uint32_t>(chunk.names_size());
  return record.kind() <= UINT16_MAX && record.name() < names && record.duration_ns() <= std::uint64_t{1} << 60 &&
         (record::domain_is_value(static_cast<std::uint16_t>(record.kind())) || record.domain() < names);
}

}  // namespace

TraceEvents::TraceEvents(std::ostream& out) : out_(out) {
  out_ << R"({"displayTimeUnit":"ms","traceEvents":[)";
}

bool TraceEvents::add(const wire::TraceChunk& chunk) {
  const bool sound = std::ranges::all_of(chunk.records(), [&](const auto& record) { return usable(chunk, record); });
  if (!sound) {
    ++counts_.malformed;
    return false;
  }
  const auto ahead = clocks_ahead_.find(chunk.node());
  const std::uint64_t from_ns =
      chunk.base_ns() - (ahead == clocks_ahead_.end() ? 0 : static_cast<std::uint64_t>(ahead->second));
  if (base_ns_ == 0) base_ns_ = from_ns;
  Process& process = process_of(chunk);
  for (const wire::TraceRecord& fields : chunk.records()) {
    const bool value = record::domain_is_value(static_cast<std::uint16_t>(fields.kind()));
    const std::string_view domain =
        value ? std::string_view() : std::string_view(chunk.names(static_cast<int>(fields.domain())));
    add(process, {fields, chunk.names(static_cast<int>(fields.name())), domain,
                  from_ns + static_cast<std::uint64_t>(fields.begin_ns())});
    ++counts_.records;
  }
  return true;
}

TraceEvents::Process& TraceEvents::process_of(const wire::TraceChunk& chunk) {
  const std::string key =
      chunk.node() + "/" + std::to_string(chunk.rank()) + "/" + chunk.variant() + "/" + std::to_string(chunk.pid());
  const auto known = processes_.find(key);
  if (known != processes_.end()) return known->second;
  // A rank's number is its process's; a second process of the same rank stands beyond all of them.
  const bool taken =
      std::ranges::any_of(processes_, [&](const auto& other) { return other.second.number == chunk.rank(); });
  Process& process = processes_[key];
  process.number = taken ? static_cast<std::uint32_t>(1'000'000 + processes_.size()) : chunk.rank();
  metadata(
      process, "process_name", 0,
      "rank " + std::to_string(chunk.rank()) + " (" + chunk.node() + ", process " + std::to_string(chunk.pid()) + ")");
  begin_event();
  out_ << R"({"name":"process_sort_index","ph":"M","pid":)" << process.number << R"(,"tid":0,"args":{"sort_index":)"
       << process.number << "}}";
  return process;
}

void TraceEvents::add(Process& process, const Record& record) {
  const std::int64_t thread = record.fields.thread();
  switch (record.fields.kind()) {
    case record::kRange:
      return add_range(process, record);
    case record::kMark:
      return event(process, "i", record.name, "mark", thread, record.begin_ns, R"(,"s":"t")");
    case record::kThreadName:
      process.tracks.insert(thread);
      return metadata(process, "thread_name", thread, std::string(record.name));
    case record::kDevice:
      process.devices[record.fields.depth()] = record.name;
      return;
    case record::kKernel:
    case record::kGraph:
    case record::kMemcpy:
    case record::kMemset:
      return add_on_stream(process, record);
    case record::kLaunch:
      return arrows(process, process.flows.add_launch(static_cast<std::uint32_t>(record.fields.payload() & 0xffffffff),
                                                      record.fields.domain()));
    case record::kCollective:
    case record::kP2p:
      return add_collective(process, record);
    case record::kOverhead:
    case record::kWindow:
    case record::kRangesLeftOut:
      name_track(process, kCollector, "collector");
      return slice(process, record, record.fields.kind() == record::kOverhead ? "CUPTI" : "not all is recorded",
                   "collector", kCollector, R"("why":)" + json_string(record.name));
    default:
      return;  // of a later release
  }
}

void TraceEvents::add_range(Process& process, const Record& record) {
  ++counts_.ranges;
  const std::int64_t thread = record.fields.thread();
  name_track(process, thread, "thread " + std::to_string(thread));
  std::string arguments;
  if (!record.domain.empty()) arguments = R"("domain":)" + json_string(record.domain);
  if ((record.fields.flags() & record::kPayloadValid) != 0) {
    arguments += (arguments.empty() ? "" : ",") + (R"("payload":)" + std::to_string(record.fields.payload()));
  }
  const std::string_view category = record.domain.empty() ? std::string_view("range") : record.domain;
  if ((record.fields.flags() & record::kCrossThread) == 0) {
    slice(process, record, record.name, category, thread, arguments);
  } else {
    // May overlap others without lying inside them: a track of its own.
    const std::string id = R"(,"id":)" + std::to_string(++next_async_) + R"(,"args":{)" + arguments + "}";
    event(process, "b", record.name, category, thread, record.begin_ns, id);
    event(process, "e", record.name, category, thread, record.begin_ns + record.fields.duration_ns(), id);
  }
  arrows(process, process.flows.add_range(record.detail(0) | record.detail(1) << 16U, {thread, record.begin_ns}));
}

void TraceEvents::add_on_stream(Process& process, const Record& record) {
  const std::uint32_t kind = record.fields.kind();
  const std::int64_t track = kStreams | static_cast<std::int64_t>(record.fields.depth() & 0xffU) << 16 |
                             static_cast<std::int64_t>(record.fields.thread() & 0xffffU);
  const auto device = process.devices.find(record.fields.depth());
  name_track(process, track,
             "device " + std::to_string(record.fields.depth()) +
                 (device == process.devices.end() ? "" : " (" + device->second + ")") + " stream " +
                 std::to_string(record.fields.thread()));
  const bool copy = kind == record::kMemcpy || kind == record::kMemset;
  const auto correlation =
      copy ? record.fields.domain() : static_cast<std::uint32_t>(record.fields.payload() & 0xffffffff);
  std::string arguments = R"("correlation":)" + std::to_string(correlation);
  std::string name(record.name);
  if (kind == record::kKernel) {
    arguments += R"(,"grid":)" + triple(record.fields.domain(), record.detail(0), record.detail(1)) + R"(,"block":)" +
                 triple(record.detail(2), record.detail(3), record.detail(4));
  } else if (kind == record::kGraph) {
    name = "CUDA graph " + std::to_string(record.fields.domain());
  } else {
    arguments += R"(,"bytes":)" + std::to_string(record.fields.payload());
    name = kind == record::kMemset ? "memset" : "memcpy";
  }
  ++counts_.kernels;
  slice(process, record, name, copy ? "copy" : "kernel", track, arguments);
  arrows(process, process.flows.add_kernel(correlation, {track, record.begin_ns}));
}

void TraceEvents::add_collective(Process& process, const Record& record) {
  ++counts_.collectives;
  const std::string communicator(record.domain);
  const auto number = static_cast<std::int64_t>(process.communicators.size());
  const std::int64_t track = kCollectives + process.communicators.emplace(communicator, number).first->second;
  name_track(process, track, "communicator " + communicator);
  const bool p2p = record.fields.kind() == record::kP2p;
  const std::string arguments =
      R"("bytes":)" + std::to_string(record.fields.payload()) + (p2p ? R"(,"peer":)" : R"(,"sequence":)") +
      std::to_string(record.fields.thread()) + R"(,"channels":)" + std::to_string(record.fields.depth()) +
      R"(,"ranks":)" + std::to_string(record.detail(0)) + R"(,"rank":)" + std::to_string(record.detail(1)) +
      R"(,"nodes":)" + std::to_string(record.detail(2)) + R"(,"algorithm":)" + named(kAlgorithms, record.detail(3)) +
      R"(,"protocol":)" + named(kProtocols, record.detail(4)) + R"(,"datatype":)" + std::to_string(record.detail(5)) +
      R"(,"communicator":)" + json_string(communicator);
  slice(process, record, record.name, p2p ? "p2p" : "collective", track, arguments);
}

void TraceEvents::slice(const Process& process, const Record& record, std::string_view name, std::string_view category,
                        std::int64_t track, const std::string& arguments) {
  event(process, "X", name, category, track, record.begin_ns,
        R"(,"dur":)" + signed_time(false, record.fields.duration_ns()) + R"(,"args":{)" + arguments + "}");
}

void TraceEvents::event(const Process& process, std::string_view phase, std::string_view name,
                        std::string_view category, std::int64_t track, std::uint64_t begin_ns,
                        const std::string& more) {
  begin_event();
  out_ << R"({"name":)" << json_string(name) << R"(,"cat":)" << json_string(category) << R"(,"ph":")" << phase
       << R"(","ts":)" << time(begin_ns) << R"(,"pid":)" << process.number << R"(,"tid":)" << track << more << "}";
}

void TraceEvents::arrows(const Process& process, const std::vector<TraceArrow>& found) {
  for (const TraceArrow& arrow : found) {
    const std::string id = R"(,"id":)" + std::to_string(++next_arrow_);
    event(process, "s", "launch", "launch", arrow.from.thread, arrow.from.time_ns, id);
    event(process, "f", "launch", "launch", arrow.to.thread, arrow.to.time_ns, id + R"(,"bp":"e")");
    ++counts_.arrows;
  }
}

void TraceEvents::name_track(Process& process, std::int64_t track, const std::string& name) {
  if (process.tracks.insert(track).second) metadata(process, "thread_name", track, name);
}

void TraceEvents::metadata(const Process& process, std::string_view what, std::int64_t track, const std::string& name) {
  begin_event();
  out_ << R"({"name":")" << what << R"(","ph":"M","pid":)" << process.number << R"(,"tid":)" << track
       << R"(,"args":{"name":)" << json_string(name) << "}}";
}

std::string TraceEvents::time(std::uint64_t nanoseconds) const {
  const bool before = nanoseconds < base_ns_;
  return signed_time(before, before ? base_ns_ - nanoseconds : nanoseconds - base_ns_);
}

void TraceEvents::begin_event() {
  out_ << (first_ ? "\n" : ",\n");
  first_ = false;
}

void TraceEvents::finish(const std::string& other_json) {
  out_ << "\n],\"otherData\":" << other_json << "}\n";
}

std::vector<TraceArrow> TraceFlows::add_range(std::uint32_t id, TracePlace begin) {
  if (id == 0) return {};
  ranges_.put(id, begin, most_);
  std::vector<TracePlace>* kernels = waiting_for_range_.find(id);
  if (kernels == nullptr) return {};
  std::vector<TraceArrow> arrows;
  for (const TracePlace& kernel : std::exchange(*kernels, {})) arrows.push_back({begin, kernel});
  arrows_ += arrows.size();
  return arrows;
}

std::vector<TraceArrow> TraceFlows::add_launch(std::uint32_t correlation, std::uint32_t range) {
  if (range == 0 && launches_.find(correlation) != nullptr) return {};  // another record has said in which
  launches_.put(correlation, range, most_);
  std::vector<TracePlace>* waiting = kernels_.find(correlation);
  if (waiting == nullptr) return {};
  std::vector<TraceArrow> arrows;
  for (const TracePlace& kernel : std::exchange(*waiting, {})) {
    --kernels_seen_;
    for (const TraceArrow& arrow : add_kernel(correlation, kernel)) arrows.push_back(arrow);
  }
  return arrows;
}

std::vector<TraceArrow> TraceFlows::add_kernel(std::uint32_t correlation, TracePlace begin) {
  ++kernels_seen_;
  const std::uint32_t* range = launches_.find(correlation);
  if (range != nullptr && *range == 0) return {};  // launched in no range
  auto& waiting = range == nullptr ? kernels_ : waiting_for_range_;
  const std::uint32_t key = range == nullptr ? correlation : *range;
  const TracePlace* known = range == nullptr ? nullptr : ranges_.find(*range);
  if (known != nullptr) {
    ++arrows_;
    return {{*known, begin}};
  }
  if (std::vector<TracePlace>* kernels = waiting.find(key)) {
    kernels->push_back(begin);
  } else {
    waiting.put(key, {begin}, most_);
  }
  return {};
}

}  // namespace trimtab::cli
