#include "activity_decoder.hpp"

#include <cstdlib>

namespace trimtab::inject::cupti {

namespace {

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

template <typename Times>
bool set_times(const Times& activity, RecordFields& fields) {
  fields.begin_ns = activity.start;
  fields.end_ns = activity.end;
  return activity.start != 0 && activity.end >= activity.start;
}

void set_place(RecordFields& fields, std::uint32_t device, std::uint32_t stream) {
  fields.thread = stream;
  fields.depth = narrow(device);
}

Outcome decode_kernel(const KernelActivity& kernel, RecordFields& fields) {
  fields.kind = record::kKernel;
  set_place(fields, kernel.device, kernel.stream);
  fields.domain = static_cast<std::uint32_t>(kernel.grid[0]);
  fields.payload = with_context(kernel.correlation, kernel.context);
  fields.detail[0] = narrow(kernel.grid[1]);
  fields.detail[1] = narrow(kernel.grid[2]);
  for (int i = 0; i < 3; ++i) fields.detail[2 + i] = narrow(kernel.block[i]);
  return set_times(kernel, fields) ? Outcome::kRecord : Outcome::kLostStamps;
}

template <typename Copy>
Outcome decode_copy(const Copy& copy, RecordFields& fields) {
  fields.kind = record::kMemcpy;
  set_place(fields, copy.device, copy.stream);
  fields.domain = copy.correlation;
  fields.payload = static_cast<std::int64_t>(copy.bytes);
  fields.detail[0] = copy.copy_kind;
  fields.detail[1] = copy.source_kind;
  fields.detail[2] = copy.destination_kind;
  return set_times(copy, fields) ? Outcome::kRecord : Outcome::kLostStamps;
}

Outcome decode_copy2(const Memcpy2Activity& copy, RecordFields& fields) {
  fields.detail[3] = narrow(copy.source_device);
  fields.detail[4] = narrow(copy.destination_device);
  return decode_copy(copy, fields);
}

Outcome decode_memset(const MemsetActivity& set, RecordFields& fields) {
  fields.kind = record::kMemset;
  set_place(fields, set.device, set.stream);
  fields.domain = set.correlation;
  fields.payload = static_cast<std::int64_t>(set.bytes);
  return set_times(set, fields) ? Outcome::kRecord : Outcome::kLostStamps;
}

Outcome decode_graph(const GraphActivity& graph, RecordFields& fields) {
  fields.kind = record::kGraph;
  set_place(fields, graph.device, graph.stream);
  fields.domain = graph.graph;
  fields.payload = with_context(graph.correlation, graph.context);
  return set_times(graph, fields) ? Outcome::kRecord : Outcome::kLostStamps;
}

// Loading modules and a full command buffer would cost the same without us.
bool caused_by_collecting(std::uint32_t overhead) {
  return overhead == kOverheadBufferFlush || overhead == kOverheadInstrumentation || overhead == kOverheadResource ||
         overhead == kOverheadBufferRequest || overhead == kOverheadUvmInit;
}

Outcome decode_overhead(const OverheadActivity& overhead, RecordFields& fields, std::uint64_t& cost_ns) {
  fields.kind = record::kOverhead;
  fields.payload = overhead.overhead;
  if (!set_times(overhead, fields)) return Outcome::kLostStamps;
  if (caused_by_collecting(overhead.overhead)) cost_ns += overhead.end - overhead.start;
  return Outcome::kRecord;
}

Outcome decode_launch(const ExternalCorrelationActivity& launch, RecordFields& fields) {
  if (launch.external_kind != kExternalCustom2) return Outcome::kForeign;
  fields.kind = record::kLaunch;
  fields.domain = static_cast<std::uint32_t>(launch.external_id);
  fields.payload = launch.correlation;
  return Outcome::kRecord;
}

template <std::size_t count>
bool contains(const std::uint32_t (&list)[count], std::uint32_t value) {
  for (const std::uint32_t entry : list) {
    if (entry == value) return true;
  }
  return false;
}

// Calls that we have switched on come only because the external ids hang on them.
Outcome decode_call(const ApiActivity& call, bool correlates) {
  const bool ours = call.kind == kKindDriver
                        ? contains(kDriverLaunches, call.callback)
                        : contains(kRuntimeLaunches, call.callback) || contains(kRuntimeLaunches13, call.callback);
  return correlates && ours ? Outcome::kNothing : Outcome::kForeign;
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

bool is_work(std::uint16_t kind) {
  return kind >= record::kKernel && kind <= record::kGraph;
}

}  // namespace

Decoded ActivityDecoder::decode(std::uint8_t* buffer, std::size_t valid_bytes, const DecodeTarget& target) const {
  Decoded decoded;
  Batch batch(target.ring);
  Activity* activity = nullptr;
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
        return decode_launch(as<ExternalCorrelationActivity>(*activity), fields);
      case kKindDriver:
      case kKindRuntime:
        return decode_call(as<ApiActivity>(*activity), library_->correlates());
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
    RecordFields& fields = batch.next();
    fields = {};
    switch (decode_one(fields)) {
      case Outcome::kRecord:
        decoded.kernels += is_work(fields.kind) ? 1 : 0;
        decoded.graphs += fields.kind == record::kGraph ? 1 : 0;
        batch.keep();
        break;
      case Outcome::kLostStamps:
        ++decoded.lost_stamps;
        break;
      case Outcome::kForeign:
        ++decoded.foreign;
        break;
      case Outcome::kNothing:
        break;
    }
  }
  decoded.malformed = result != kMaxLimitReached;
  batch.publish();
  return decoded;
}

}  // namespace trimtab::inject::cupti
