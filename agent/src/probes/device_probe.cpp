#include "probes/device_probe.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <charconv>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <string_view>

#include "base/numbers.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kSide = 160;  // of square matrices of floats, which fit into a core's own cache
constexpr std::size_t kCopied = (std::size_t{8} << 20) / 8;  // doubles, more than that cache holds

// Memory that goes back to the system when it is let go. An allocator may keep a block of this size for good: in a
// thread's arena it does so where anything allocated later, such as the probe's answer, lies behind it.
class CopiedArray {
 public:
  CopiedArray() : at_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  CopiedArray(const CopiedArray&) = delete;
  CopiedArray& operator=(const CopiedArray&) = delete;
  ~CopiedArray() {
    if (there()) (void)::munmap(at_, kBytes);
  }
  [[nodiscard]] bool there() const { return at_ != MAP_FAILED; }
  [[nodiscard]] double* data() const { return static_cast<double*>(at_); }
  void fill(double value) { std::fill_n(data(), kCopied, value); }
  void copy_from(const CopiedArray& other) { std::memcpy(at_, other.at_, kBytes); }

 private:
  static constexpr std::size_t kBytes = kCopied * sizeof(double);
  void* at_;
};

// The same work each time; what it gives is kept, so that no compiler leaves it out.
struct Work {
  std::vector<float> a = std::vector<float>(kSide * kSide, 1.25F);
  std::vector<float> b = std::vector<float>(kSide * kSide, 0.75F);
  std::vector<float> c = std::vector<float>(kSide * kSide, 0);
  CopiedArray from;
  CopiedArray to;

  void multiply() {
    std::fill(c.begin(), c.end(), 0.0F);
    for (std::size_t i = 0; i < kSide; ++i) {
      for (std::size_t k = 0; k < kSide; ++k) {
        const float factor = a[i * kSide + k];
        for (std::size_t j = 0; j < kSide; ++j) c[i * kSide + j] += factor * b[k * kSide + j];
      }
    }
    asm volatile("" : : "g"(c.data()) : "memory");
  }
  [[nodiscard]] bool can_copy() {
    if (!from.there() || !to.there()) return false;
    from.fill(1);  // else both would be the system's one page of zeros
    to.fill(0);
    return true;
  }
  void copy() {
    to.copy_from(from);
    asm volatile("" : : "g"(to.data()) : "memory");
  }
};

std::optional<DeviceSpeed> timed(const char* work, const std::function<void()>& run, const CpuBudget& budget,
                                 const Clock& cpu_time, const ProbeWait& wait) {
  std::vector<double> ms;
  run();  // untimed: pages are touched, caches filled
  const Nanoseconds first = cpu_time.monotonic();
  for (int i = 0; i < budget.repetitions && wait.check(work).ok(); ++i) {
    const Nanoseconds begin = cpu_time.monotonic();
    if (i > 0 && begin - first >= budget.time / 2) break;
    run();
    ms.push_back(std::chrono::duration<double, std::milli>(cpu_time.monotonic() - begin).count());
  }
  if (ms.empty() || wait.cancelled) return std::nullopt;
  std::sort(ms.begin(), ms.end());
  const double fastest = std::max(ms.front(), 1e-6);
  return DeviceSpeed{0, work, fastest, ms[ms.size() / 2] / fastest - 1, ""};
}

}  // namespace

void step_back() {
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH, &none);
  constexpr int kLowest = 19;
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kLowest);
}

std::vector<DeviceSpeed> probe_cpu(const CpuBudget& budget, const Clock& cpu_time, const ProbeWait& wait) {
  Work work;
  std::vector<DeviceSpeed> speeds;
  const auto add = [&](const char* name, const std::function<void()>& run) {
    if (auto speed = timed(name, run, budget, cpu_time, wait)) speeds.push_back(std::move(*speed));
  };
  add("computation", [&work] { work.multiply(); });
  if (work.can_copy()) add("memory", [&work] { work.copy(); });
  return speeds;
}

Nanoseconds ThreadCpuClock::monotonic() const {
  timespec now{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + Nanoseconds(now.tv_nsec);
}

namespace {

struct Gpu {
  double sm_hertz = 0;
  double watts = 0;
  double most_watts = 0;
  bool idle = false;
  std::string reasons;
};

std::string label(const host::Sample& sample, std::string_view name) {
  for (const auto& [key, value] : sample.labels) {
    if (key == name) return value;
  }
  return "";
}

void take(const host::Sample& sample, Gpu& gpu) {
  const std::string_view name = sample.measure->name;
  if (name == "trimtab_device_power_watts") gpu.watts = sample.value;
  if (name == "trimtab_device_power_limit_watts") gpu.most_watts = sample.value;
  if (name == "trimtab_device_clock_hertz" && label(sample, "clock") == "sm") gpu.sm_hertz = sample.value;
  if (name != "trimtab_device_throttled" || sample.value == 0) return;
  const std::string reason = label(sample, "reason");
  if (reason == "gpu_idle") {
    gpu.idle = true;
  } else {
    gpu.reasons += (gpu.reasons.empty() ? "" : ", ") + reason;
  }
}

std::string remark_of(const Gpu& gpu) {
  std::string text = gpu.reasons.empty() ? "" : "throttled: " + gpu.reasons;
  if (gpu.most_watts <= 0 || gpu.watts <= 0) return text;
  return text + (text.empty() ? "" : ", ") + format_number(gpu.watts, 0) + " W of " + format_number(gpu.most_watts, 0) +
         " W";
}

}  // namespace

std::vector<DeviceSpeed> gpu_speeds(const host::Samples& samples) {
  std::map<int, Gpu> gpus;
  for (const host::Sample& sample : samples) {
    const std::string device = label(sample, "device");
    int index = -1;
    const auto [end, failure] = std::from_chars(device.data(), device.data() + device.size(), index);
    const bool is_gpu = std::string_view(sample.measure->name).starts_with("trimtab_device_");
    if (is_gpu && failure == std::errc() && end == device.data() + device.size()) take(sample, gpus[index]);
  }
  std::vector<DeviceSpeed> speeds;
  for (const auto& [index, gpu] : gpus) {
    if (gpu.sm_hertz <= 0 || gpu.idle) continue;
    speeds.push_back({index, "clock", 1e9 / gpu.sm_hertz, 0, remark_of(gpu)});
  }
  return speeds;
}

}  // namespace trimtab::agent
