#include "probes/cpu_probe.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <functional>
#include <optional>
#include <utility>

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

}  // namespace trimtab::agent
