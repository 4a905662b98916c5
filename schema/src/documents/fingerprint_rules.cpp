// Which hardware shares costs, wholly or as a prior.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "schema/fingerprint.hpp"

namespace trimtab {

namespace {

constexpr std::array<std::string_view, 16> kCostVariables = {"ATEN_CPU_CAPABILITY",
                                                             "BLIS_NUM_THREADS",
                                                             "DNNL_MAX_CPU_ISA",
                                                             "GLOO_DEVICE_TRANSPORT",
                                                             "GLOO_SOCKET_IFNAME",
                                                             "GOMP_CPU_AFFINITY",
                                                             "KMP_AFFINITY",
                                                             "MALLOC_ARENA_MAX",
                                                             "MKL_CBWR",
                                                             "MKL_NUM_THREADS",
                                                             "ONEDNN_MAX_CPU_ISA",
                                                             "OMP_NUM_THREADS",
                                                             "OMP_PLACES",
                                                             "OMP_PROC_BIND",
                                                             "OPENBLAS_CORETYPE",
                                                             "OPENBLAS_NUM_THREADS"};

constexpr std::array<std::string_view, 10> kGpuCostVariables = {
    "CUBLASLT_WORKSPACE_SIZE",        "CUBLAS_WORKSPACE_CONFIG",           "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",           "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY",
    "NVIDIA_TF32_OVERRIDE",           "PYTORCH_CUDA_ALLOC_CONF",           "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_NCCL_AVOID_RECORD_STREAMS"};

// What NCCL says and who listens, not what it does.
constexpr std::array<std::string_view, 4> kNcclTalk = {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS",
                                                       "NCCL_PROFILER_PLUGIN"};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

using Layer = std::map<std::string, std::string>;

constexpr std::string_view kKindKey = "kind";
constexpr std::string_view kMemory = "memory_gib";
constexpr double kSameMemory = 1.0 / 30;

double number_of(const std::string& text) {
  double value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? value : 0;
}

// A kernel keeps more or less of it to itself.
bool same_memory(const std::string& one, const std::string& other) {
  const double a = number_of(one);
  const double b = number_of(other);
  return one == other || (a > 0 && b > 0 && std::abs(a - b) <= std::max(1.0, kSameMemory * std::max(a, b)));
}

bool same_devices(const Layer& one, const Layer& other) {
  return std::ranges::equal(one, other, [](const auto& a, const auto& b) {
    return a.first == b.first && (a.second == b.second || (a.first == kMemory && same_memory(a.second, b.second)));
  });
}

// "550" of "550.54.14", "glibc 2" of "glibc 2.36".
std::string_view first_number(std::string_view version) {
  return version.substr(0, version.find('.'));
}

bool is_below_ranks(const std::string& key) {
  return key == "kernel" || key == "libc";
}

double steps_between(const std::string& key, const std::string& from, const std::string& to) {
  const bool alike = !from.empty() && !to.empty() && first_number(from) == first_number(to);
  return (alike ? 1 : 2) * (is_below_ranks(key) ? 0.5 : 1.0);
}

std::string value_in(const Layer& layer, const std::string& key) {
  const auto found = layer.find(key);
  return found == layer.end() ? "" : found->second;
}

std::string difference(const std::string& key, const std::string& from, const std::string& to) {
  const auto shown = [](const std::string& version) { return version.empty() ? std::string("none") : version; };
  return key + " " + shown(to) + " instead of " + shown(from);
}

// On a node where some devices are divided and some are not, what a job has is its own choice. Instances' names differ
// from node to node and change no cost.
bool takes_instances(const std::string& variable, const std::string& value) {
  return variable == "CUDA_VISIBLE_DEVICES" && value.find("MIG-") != std::string::npos;
}

}  // namespace

bool is_gpu(const Fingerprint& node) {
  return value_in(node.device, std::string(kKindKey)) == "gpu";
}

bool changes_costs(const std::string& variable, const Fingerprint& node) {
  const bool gpu = is_gpu(node);
  if (gpu && holds(kNcclTalk, variable)) return false;
  if (gpu && holds(kGpuCostVariables, variable)) return true;
  return variable.starts_with("NCCL_") || holds(kCostVariables, variable);
}

Fingerprint fingerprint_of_job(Fingerprint node, const Layer& environment, const Layer& software) {
  for (const auto& [name, value] : environment) {
    if (changes_costs(name, node)) node.environment[name] = value;
    if (is_gpu(node) && takes_instances(name, value)) node.environment["mig_instances"] = "chosen";
  }
  for (const auto& [name, value] : software) node.software[name] = value;
  return node;
}

std::optional<Distance> distance(const Fingerprint& from, const Fingerprint& to) {
  const bool same =
      same_devices(from.device, to.device) && from.fabric == to.fabric && from.environment == to.environment;
  if (!same || from.device.empty()) return std::nullopt;
  std::set<std::string> keys;
  for (const Layer* const layer : {&from.software, &to.software}) {
    for (const auto& [key, version] : *layer) keys.insert(key);
  }
  Distance found;
  for (const std::string& key : keys) {
    const std::string before = value_in(from.software, key);
    const std::string now = value_in(to.software, key);
    if (before == now) continue;
    found.steps += steps_between(key, before, now);
    found.differences += (found.differences.empty() ? "" : ", ") + difference(key, before, now);
  }
  if (from.device != to.device) {
    found.steps += 0.5;
    found.differences +=
        (found.differences.empty() ? "" : ", ") +
        difference("memory_gib", value_in(from.device, "memory_gib"), value_in(to.device, "memory_gib"));
  }
  if (found.steps > kFarthest) return std::nullopt;
  return found;
}

}  // namespace trimtab
