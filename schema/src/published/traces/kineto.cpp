#include "published/traces/kineto.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "base/numbers.hpp"
#include "documents/json_document.hpp"
#include "published/traces/chrome_events.hpp"
#include "published/traces/collectives.hpp"
#include "published/traces/launches.hpp"
#include "published/traces/looks.hpp"
#include "schema/step_number.hpp"
#include "schema/traces/collective_kernel.hpp"

namespace trimtab::published {

namespace {

constexpr std::size_t kMostCategories = 8;  // for messages

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::string_view kLoaderInProcess = "_SingleProcessDataLoaderIter";

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

// Kineto's categories; those in capitals are of releases before 1.12.
bool is_kernel(std::string_view category) {
  return is_one_of(category, {"kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset"});
}
bool is_call(std::string_view category) {
  return is_one_of(category, {"cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "Runtime"});
}
bool is_operator(std::string_view category) {
  return is_one_of(category, {"cpu_op", "Operator"});
}
bool is_note(std::string_view category) {
  return is_one_of(category, {"user_annotation", "UserAnnotation"});
}

// "_allgather_base", "reduce_scatter_tensor_coalesced" and the like, as the cost kinds call them.
TracedKind kind_of_collective(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += c;
  }
  for (const std::string_view word : {"allreduce", "allgather", "reducescatter", "alltoall", "broadcast"}) {
    if (plain.starts_with(word)) return communication_named(primitive_named(word));
  }
  return communication_named(primitive_named(plain));
}

TracedKind kind_of_kernel(const ChromeEvent& event, const std::optional<CollectiveKernel>& collective) {
  if (collective) {
    const TracedKind named = communication_named(collective->primitive);
    // Some kernels of NCCL serve every collective, and those of sends all-to-alls, too.
    if (named != TracedKind::kCollective && named != TracedKind::kSendReceive) return named;
    const TracedKind told = kind_of_collective(event.collective);
    return told == TracedKind::kCollective ? named : told;
  }
  const bool copies = is_one_of(event.category, {"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"});
  return copies ? TracedKind::kCopy : TracedKind::kComputation;
}

// Operators that only wrap others, or wait, say nothing of what is computed.
std::optional<TracedKind> kind_of_operator(std::string_view name) {
  if (is_backend_range(name)) return kind_of_collective(name.substr(name.find(':') + 1));
  if (name.starts_with("c10d::") || name == "record_param_comms") return std::nullopt;
  if (name.starts_with("DistributedDataParallel.") || name.starts_with(kLoaderRange)) return std::nullopt;
  return TracedKind::kComputation;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Status take(const ChromeEvent& event) {
    if (event.phase == "i") remember_memory(event);
    if (event.phase != "X" || !event.has_begin || event.duration_ns < 0) return {};
    if (is_kernel(event.category)) return take_kernel(event);
    if (is_call(event.category)) {
      if (event.correlation >= 0) launches_.called(event.correlation, event.begin_ns);
    } else if (is_operator(event.category) || is_note(event.category)) {
      return take_host(event);
    } else if (categories_.size() < kMostCategories) {
      categories_.insert(event.category);
    }
    if (launches_.size() + host_.size() + rank_.work.size() > kMostWork) return too_many();
    return {};
  }

  Result<TracedRank> result(const ChromeTrace& trace) {
    if (rank_.work.empty() && categories_.contains("mtia_ccp_events")) {
      return bad_input("its device is an MTIA, whose events are not read; expected kernels of a GPU, or a host alone");
    }
    if (rank_.work.empty() && host_.empty() && rank_.steps.empty()) return no_profile(trace);
    rank_.file = path_;
    rank_.on_device = !rank_.work.empty();
    if (rank_.on_device) {
      launches_.join(rank_.work);
    } else {
      rank_.work = std::move(host_);
      rank_.remarks.emplace_back(
          "the trace has no kernels of a device, so the card is of the host's operators; record them with "
          "ProfilerActivity.CUDA where there is a GPU");
    }
    if (trace.rank >= 0 && trace.rank <= std::numeric_limits<std::int32_t>::max()) {
      rank_.rank = static_cast<std::int32_t>(trace.rank);
    }
    rank_.node = valid_text(trace.host_name);
    rank_.world_size = std::max<std::int64_t>(trace.world_size, 0);
    rank_.devices_there = static_cast<std::int64_t>(trace.devices.size());
    if (trace.nccl_version != "unknown") rank_.library_version = valid_text(trace.nccl_version);
    tell_device(trace);
    settle(rank_);
    (rank_.on_device ? collectives_ : host_collectives_).tell(rank_, trace.groups == 1);
    return std::move(rank_);
  }

 private:
  Status take_kernel(const ChromeEvent& event) {
    if (rank_.work.size() >= kMostWork) return too_many();
    const auto collective = collective_kernel(event.name);
    const TracedKind kind = kind_of_kernel(event, collective);
    const std::uint32_t place = collective ? collectives_.add(event, kind, false) : 0;
    rank_.work.push_back({event.begin_ns, event.begin_ns + event.duration_ns, TracedWork::kNotTold, kind, place});
    launches_.worked(event.correlation, event.stream);
    if (device_ < 0) device_ = event.device;
    return {};
  }

  Status take_host(const ChromeEvent& event) {
    const std::int64_t end_ns = event.begin_ns + event.duration_ns;
    const std::string_view name = event.name;
    if (name.starts_with(kStep)) {
      const auto number = parse_number<std::int64_t>(name.substr(kStep.size()));
      if (number && is_step_number(*number)) rank_.steps.push_back({*number, event.begin_ns, end_ns});
    } else if (name.starts_with(kLoaderRange)) {
      rank_.data.push_back({event.begin_ns, end_ns});
      if (name.find(kLoaderInProcess) != std::string_view::npos) rank_.facts.workers = 0;
    } else if (const auto kind = kind_of_operator(name); kind && (is_operator(event.category) || communicates(*kind))) {
      if (host_.size() >= kMostWork) return too_many();
      const std::uint32_t place = communicates(*kind) ? host_collectives_.add(event, *kind, true) : 0;
      host_.push_back({event.begin_ns, end_ns, TracedWork::kNotTold, *kind, place});
    }
    return {};
  }

  // Of events "[memory]", which profile_memory=True writes. 1: CUDA's.
  void remember_memory(const ChromeEvent& event) {
    if (event.name != "[memory]" || event.device_type != 1) return;
    rank_.facts.memory_used_bytes = std::max(rank_.facts.memory_used_bytes, event.total_reserved);
  }

  void tell_device(const ChromeTrace& trace) {
    rank_.facts.device = rank_.on_device ? "cuda" : "cpu";
    if (!rank_.on_device) return;
    const auto found = trace.devices.find(std::max<std::int64_t>(device_, 0));
    if (found == trace.devices.end()) return;
    rank_.facts.device_name = valid_text(found->second.name);
    rank_.facts.memory_total_bytes = std::max<std::int64_t>(found->second.memory_bytes, 0);
  }

  static Status too_many() {
    return bad_input("holds more than " + std::to_string(kMostWork / 1'000'000) +
                     " million events; profile fewer steps (torch.profiler.schedule(active=5, ...))");
  }

  [[nodiscard]] Error no_profile(const ChromeTrace& trace) const {
    return bad_input("it is " + look_of_json(trace, {categories_.begin(), categories_.end()}) + "; " +
                     std::string(kWantedTraces));
  }

  std::string path_;
  TracedRank rank_;
  std::vector<TracedWork> host_;
  Collectives collectives_;
  Collectives host_collectives_;
  Launches launches_;
  std::int64_t device_ = ChromeEvent::kNotTold;
  std::set<std::string> categories_;
};

}  // namespace

Result<TracedRank> read_kineto(ByteSource& source, const std::string& path) {
  Reader reader(path);
  auto trace = read_chrome_trace(source, [&reader](const ChromeEvent& event) { return reader.take(event); });
  if (!trace) return wrap(path, trace.error());
  auto rank = reader.result(*trace);
  if (!rank) return wrap(path, rank.error());
  return rank;
}

}  // namespace trimtab::published
