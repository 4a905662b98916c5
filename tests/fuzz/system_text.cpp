// What the kernel, a container runtime and the GPU's driver write into /proc and /sys. In a container another may have
// mounted it.

#include "gpu/driver_files.hpp"
#include "proc_text.hpp"
#include "target.hpp"

using namespace trimtab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  (void)host::parse_cpuinfo(text);
  (void)host::parse_kilobytes_line(text, "MemTotal");
  (void)fuzz::judge(host::parse_cpu_list(text));
  (void)host::parse_kernel_release(text);
  (void)fuzz::judge(host::parse_stat(text));
  (void)host::parse_cgroup_paths(text);
  (void)host::parse_memory_limit(text);
  (void)host::parse_cpu_max(text);
  (void)host::parse_integer(text);
  (void)fuzz::judge(host::parse_machine_stat(text));
  (void)fuzz::judge(host::parse_pressure(text));
  (void)host::parse_keyed_integer(text, "throttled_usec");
  (void)host::parse_infiniband_rate(text);
  (void)host::parse_driver_version(text);
  (void)host::parse_admin_only(text);
  return 0;
}
