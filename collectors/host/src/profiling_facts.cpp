#include "host/profiling_facts.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gpu/driver_files.hpp"
#include "gpu/mps_daemon.hpp"
#include "library_search.hpp"
#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

std::string on_disk(const std::string& root, const std::string& path) {
  return (root.ends_with('/') ? root : root + "/") + path;
}

std::vector<DeviceFile> device_files(const std::string& root) {
  std::vector<std::string> paths = gpu_device_files(root);
  if (paths.empty()) return {};
  for (const char* control : {"dev/nvidiactl", "dev/nvidia-uvm"}) paths.emplace_back(control);
  std::vector<DeviceFile> files;
  for (const std::string& path : paths) {
    files.push_back({"/" + path, ::access(on_disk(root, path).c_str(), R_OK | W_OK) == 0});
  }
  return files;
}

std::optional<Bytes> size_of_shared_memory(const std::string& root) {
  struct statvfs space {};
  if (::statvfs(on_disk(root, "dev/shm").c_str(), &space) != 0) return std::nullopt;
  return static_cast<Bytes>(space.f_blocks) * static_cast<Bytes>(space.f_frsize);
}

bool can_seal_memory() {
  const int descriptor = ::memfd_create("trimtab-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return false;
  const bool sealed = ::ftruncate(descriptor, 4096) == 0 && ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
  ::close(descriptor);
  return sealed;
}

std::optional<std::int64_t> integer_of(const std::string& root, const std::string& path) {
  const auto text = read_system_file(root, path);
  return text.ok() ? parse_integer(*text) : std::nullopt;
}

}  // namespace

ProfilingFacts read_profiling_facts(const ProfilingInput& input) {
  ProfilingFacts facts;
  facts.gpus = input.gpus;
  facts.kernel_driver = driver_version(input.root);
  const auto parameters = read_system_file(input.root, "proc/driver/nvidia/params");
  if (parameters.ok()) facts.counters_admin_only = parse_admin_only(*parameters);
  facts.device_files = device_files(input.root);
  const MpsDaemon mps = find_mps(input.root, input.environment);
  if (mps.on()) facts.mps_pipe = mps.pipe_directory;
  facts.mps_seen = mps.seen;
  const std::vector<std::string> places = library_places(input.environment, input.library_directories);
  facts.cupti = find_library(input.root, places, "libcupti.so");
  facts.nccl = find_library(input.root, places, "libnccl.so");
  facts.shared_memory = size_of_shared_memory(input.root);
  facts.sealed_memory = can_seal_memory();
  facts.perf_event_paranoid = integer_of(input.root, "proc/sys/kernel/perf_event_paranoid");
  return facts;
}

}  // namespace trimtab::host
