#include "activity_decoder.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace trimtab::inject::cupti {

namespace {

std::uint32_t first_entry(const char* text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text);
  return static_cast<std::uint32_t>((address * 0x9e3779b97f4a7c15ULL) >> 40) & (KernelNames::kCapacity - 1);
}

enum class Outcome { kRecord, kNothing, kLostStamps, kForeign };

std::uint16_t narrow(std::uint32_t value) {
  return static_cast<std::uint16_t>(value < 0xffff ? value : 0xffff);
}
std::uint16_t narrow(std::int32_t value) {
  return value < 0 ? std::uint16_t{0} : narrow(static_cast<std::uint32_t>(value));
}

std::int64_t with_context(std::uint32_t correlation, std::uint32_t context) {
  return static_cast<std::int64_t>(std::uint64_t{context} << 32 | correlation);
}

Outcome outcome_of(RecordFields& fields, std::uint64_t start, std::uint64_t end) {
  fields.begin_ns = start;
  fields.end_ns = end;
  return start != 0 && end >= start ? Outcome::kRecord : Outcome::kLostStamps;
}

// What all work on a device tells.
template <typename Work>
Outcome decode_work(record::Kind kind, const Work& work, RecordFields& fields) {
  fields.kind = kind;
  fields.thread = work.stream;
  fields.depth = narrow(work.device);
  return outcome_of(fields, work.start, work.end);
}

Outcome decode_kernel(const KernelActivity& kernel, RecordFields& fields) {
  fields.domain = static_cast<std::uint32_t>(kernel.grid[0]);
  fields.payload = with_context(kernel.correlation, kernel.context);
  fields.detail[0] = narrow(kernel.grid[1]);
  fields.detail[1] = narrow(kernel.grid[2]);
  for (int i = 0; i < 3; ++i) fields.detail[2 + i] = narrow(kernel.block[i]);
  return decode_work(record::kKernel, kernel, fields);
}

template <typename Copy>
Outcome decode_copy(const Copy& copy, RecordFields& fields) {
  fields.domain = copy.correlation;
  fields.payload = static_cast<std::int64_t>(copy.bytes);
  fields.detail[0] = copy.copy_kind;
  fields.detail[1] = copy.source_kind;
  fields.detail[2] = copy.destination_kind;
  return decode_work(record::kMemcpy, copy, fields);
}

Outcome decode_copy2(const Memcpy2Activity& copy, RecordFields& fields) {
  fields.detail[3] = narrow(copy.source_device);
  fields.detail[4] = narrow(copy.destination_device);
  return decode_copy(copy, fields);
}

Outcome decode_memset(const MemsetActivity& set, RecordFields& fields) {
  fields.domain = set.correlation;
  fields.payload = static_cast<std::int64_t>(set.bytes);
  return decode_work(record::kMemset, set, fields);
}

Outcome decode_graph(const GraphActivity& graph, RecordFields& fields) {
  fields.domain = graph.graph;
  fields.payload = with_context(graph.correlation, graph.context);
  return decode_work(record::kGraph, graph, fields);
}

// Loading modules and a full command buffer would cost the same without us.
bool caused_by_collecting(std::uint32_t overhead) {
  return overhead == kOverheadBufferFlush || overhead == kOverheadInstrumentation || overhead == kOverheadResource ||
         overhead == kOverheadBufferRequest || overhead == kOverheadUvmInit;
}

Outcome decode_overhead(const OverheadActivity& overhead, RecordFields& fields, std::uint64_t& cost_ns) {
  fields.kind = record::kOverhead;
  fields.payload = overhead.overhead;
  const Outcome outcome = outcome_of(fields, overhead.start, overhead.end);
  const bool counts = outcome == Outcome::kRecord && caused_by_collecting(overhead.overhead);
  if (counts) cost_ns += overhead.end - overhead.start;
  return outcome;
}

Outcome decode_launch(const ExternalCorrelationActivity& launch, RecordFields& fields) {
  if (launch.external_kind != kExternalCustom2) return Outcome::kForeign;
  fields.kind = record::kLaunch;
  fields.domain = static_cast<std::uint32_t>(launch.external_id);
  fields.payload = launch.correlation;
  return Outcome::kRecord;
}

// A launch, in the range that `fields` hold already where there is one, or a wait.
Outcome decode_call(const ApiActivity& call, bool correlates, RecordFields& fields) {
  const auto among = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), call.callback) != std::end(list);
  };
  const bool driver = call.kind == kKindDriver;
  const bool launches = driver ? among(kDriverLaunches) : among(kRuntimeLaunches) || among(kRuntimeLaunches13);
  const bool waits = driver ? among(kDriverWaits) : among(kRuntimeWaits);
  if (!correlates || !(launches || waits)) return Outcome::kForeign;
  if (waits) fields.domain = call.correlation;
  fields.payload = launches ? call.correlation : 0;
  fields.kind = launches ? record::kLaunch : record::kWait;
  // Without usable times a launch still says whose it was.
  if (outcome_of(fields, call.start, call.end) == Outcome::kRecord) return Outcome::kRecord;
  fields.begin_ns = fields.end_ns = 0;
  return launches && fields.domain != 0 ? Outcome::kRecord : Outcome::kNothing;
}

template <typename T>
const T& as(const Activity& activity) {
  return reinterpret_cast<const T&>(activity);
}

// Collects records and publishes them a batch at a time.
class Batch {
 public:
  explicit Batch(const RingWriter* ring) : ring_(ring) {}
  RecordFields& next() { return records_[used_]; }
  void keep() {
    if (++used_ == RingWriter::kMaxBatch) publish();
  }
  void publish() {
    if (ring_ != nullptr) ring_->publish(records_, used_);
    used_ = 0;
  }

 private:
  const RingWriter* ring_;
  std::uint32_t used_ = 0;
  RecordFields records_[RingWriter::kMaxBatch];
};

// A launch whose range is known, until the call that comes behind it says when.
class PendingLaunch {
 public:
  // Takes what is a record; it comes later.
  Outcome hold(Outcome outcome, const RecordFields& fields) {
    if (outcome != Outcome::kRecord) return outcome;
    fields_ = fields;
    held_ = true;
    return Outcome::kNothing;
  }
  // Where it is of this call, `fields` begin with it.
  void take(std::uint32_t correlation, RecordFields& fields) {
    if (!held_ || fields_.payload != correlation) return;
    fields = fields_;
    held_ = false;
  }
  // Gives it up unless this record may be between it and its call, or be that.
  void release_before(const Activity* next, Batch& batch) {
    if (!held_ || (next != nullptr && may_belong(*next))) return;
    batch.next() = fields_;
    batch.keep();
    held_ = false;
  }

 private:
  [[nodiscard]] bool may_belong(const Activity& next) const {
    if (next.kind == kKindExternalCorrelation) {
      return reinterpret_cast<const ExternalCorrelationActivity&>(next).correlation == fields_.payload;
    }
    const bool call = next.kind == kKindDriver || next.kind == kKindRuntime;
    return call && reinterpret_cast<const ApiActivity&>(next).correlation == fields_.payload;
  }

  RecordFields fields_ = {};
  bool held_ = false;
};

bool is_work(std::uint16_t kind) {
  return kind >= record::kKernel && kind <= record::kGraph;
}

}  // namespace

std::uint32_t KernelNames::index_of(const char* text, const RingNames& ring) {
  if (text == nullptr) return 0;
  std::uint32_t at = first_entry(text);
  Entry* free = nullptr;
  for (std::uint32_t probe = 0; probe < kProbes; ++probe, at = (at + 1) & (kCapacity - 1)) {
    Entry& entry = entries_[at];
    const char* known_text = entry.text.load(std::memory_order_acquire);
    if (known_text == nullptr) {
      free = &entry;
      break;
    }
    if (known_text != text) continue;
    const std::uint64_t known = entry.known.load(std::memory_order_relaxed);
    const auto index = static_cast<std::uint32_t>(known);
    if (known >> 32 == ring.generation && index != 0 && ring.table->matches_distinct(index, text)) [[likely]]
      return index;
    free = &entry;  // another ring, or another name at this address
    break;
  }
  const std::uint32_t index = ring.table->intern_distinct(text);
  if (free == nullptr || index == 0) return index;  // a crowded neighbourhood is only slow
  const char* expected = nullptr;
  if (free->text.load(std::memory_order_relaxed) == text ||
      free->text.compare_exchange_strong(expected, text, std::memory_order_acq_rel) || expected == text) {
    free->known.store(std::uint64_t{ring.generation} << 32 | index, std::memory_order_relaxed);
  }
  return index;
}

Decoded ActivityDecoder::decode(std::uint8_t* buffer, std::size_t valid_bytes, const DecodeTarget& target) const {
  Decoded decoded;
  Batch batch(target.ring);
  Activity* activity = nullptr;
  PendingLaunch pending;
  const auto decode_one = [&](RecordFields& fields) {
    switch (activity->kind) {
      case kKindConcurrentKernel: {
        const auto& kernel = as<KernelActivity>(*activity);
        const Outcome outcome = decode_kernel(kernel, fields);
        if (outcome == Outcome::kRecord && target.ring != nullptr) {
          fields.name = names_->index_of(kernel.name, target.names);
          if (fields.name == 0) target.ring->header().names_dropped.fetch_add(1, std::memory_order_relaxed);
        }
        return outcome;
      }
      case kKindMemcpy:
        return decode_copy(as<MemcpyActivity>(*activity), fields);
      case kKindMemcpy2:
        return decode_copy2(as<Memcpy2Activity>(*activity), fields);
      case kKindMemset:
        return decode_memset(as<MemsetActivity>(*activity), fields);
      case kKindGraphTrace:
        return decode_graph(as<GraphActivity>(*activity), fields);
      case kKindOverhead: {
        const auto& overhead = as<OverheadActivity>(*activity);
        if (library_->version >= kVersion13_0 && overhead.overhead == kOverheadCommandBufferFull) free(overhead.data);
        return decode_overhead(overhead, fields, decoded.overhead_ns);
      }
      case kKindExternalCorrelation:
        return pending.hold(decode_launch(as<ExternalCorrelationActivity>(*activity), fields), fields);
      case kKindDriver:
      case kKindRuntime: {
        const auto& call = as<ApiActivity>(*activity);
        pending.take(call.correlation, fields);
        return decode_call(call, library_->correlates(), fields);
      }
      case kKindMarker:
      case kKindCudaEvent:
      case kKindSynchronization:
        return Outcome::kForeign;
      default:
        return Outcome::kNothing;
    }
  };
  Result result = kSuccess;
  while ((result = library_->get_next_record(buffer, valid_bytes, &activity)) == kSuccess && activity != nullptr) {
    ++decoded.records;
    pending.release_before(activity, batch);
    RecordFields& fields = batch.next();
    fields = {};
    const Outcome outcome = decode_one(fields);
    decoded.lost_stamps += outcome == Outcome::kLostStamps ? 1 : 0;
    decoded.foreign += outcome == Outcome::kForeign ? 1 : 0;
    if (outcome != Outcome::kRecord) continue;
    decoded.kernels += is_work(fields.kind) ? 1 : 0;
    decoded.graphs += fields.kind == record::kGraph ? 1 : 0;
    batch.keep();
  }
  decoded.malformed = result != kMaxLimitReached;
  pending.release_before(nullptr, batch);
  batch.publish();
  return decoded;
}

}  // namespace trimtab::inject::cupti
