#include "host/profiling_facts.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gpu/driver_files.hpp"
#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

std::vector<DeviceFile> device_files(const std::string& root) {
  std::vector<std::string> paths = gpu_device_files(root);
  if (paths.empty()) return {};
  for (const char* control : {"dev/nvidiactl", "dev/nvidia-uvm"}) paths.emplace_back(control);
  std::vector<DeviceFile> files;
  for (const std::string& path : paths) {
    files.push_back({"/" + path, ::access(system_path(root, path).c_str(), R_OK | W_OK) == 0});
  }
  return files;
}

std::optional<Bytes> size_of_shared_memory(const std::string& root) {
  struct statvfs space {};
  if (::statvfs(system_path(root, "dev/shm").c_str(), &space) != 0) return std::nullopt;
  return static_cast<Bytes>(space.f_blocks) * static_cast<Bytes>(space.f_frsize);
}

bool can_seal_memory() {
  const int descriptor = ::memfd_create("trimtab-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return false;
  const bool sealed = ::ftruncate(descriptor, 4096) == 0 && ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
  ::close(descriptor);
  return sealed;
}

// LD_LIBRARY_PATH, `more`, then where distributions and CUDA's installers put libraries.
std::vector<std::string> library_places(const std::map<std::string, std::string>& environment,
                                        const std::vector<std::string>& more) {
  std::vector<std::string> places;
  const auto chosen = environment.find("LD_LIBRARY_PATH");
  if (chosen != environment.end()) {
    for (const std::string_view place : split(chosen->second, ':')) places.emplace_back(place);
  }
  places.insert(places.end(), more.begin(), more.end());
  for (const char* usual :
       {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib",
        "/usr/local/cuda/targets/sbsa-linux/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64", "/usr/local/lib", "/opt/nvidia/lib"}) {
    places.emplace_back(usual);
  }
  return places;
}

// The first file named `name` or `name`.N...; empty where there is none.
std::string find_library(const std::string& root, const std::vector<std::string>& places, const std::string& name) {
  for (const std::string& place : places) {
    for (const std::string& file : list_system_directory(root, place)) {
      if (file == name || file.starts_with(name + ".")) return place + "/" + file;
    }
  }
  return "";
}

}  // namespace

ProfilingFacts read_profiling_facts(const ProfilingInput& input) {
  ProfilingFacts facts;
  facts.gpus = input.gpus;
  facts.amd_gpus = find_amd_gpus(input.root);
  facts.amd_accessible = can_open_amd_gpus(input.root);
  facts.kernel_driver = driver_version(input.root);
  facts.counters_admin_only = parse_admin_only(system_text(input.root, "proc/driver/nvidia/params"));
  facts.device_files = device_files(input.root);
  const MpsDaemon mps = find_mps(input.root, input.environment);
  if (mps.on()) facts.mps_pipe = mps.pipe_directory;
  facts.mps_seen = mps.seen;
  const std::vector<std::string> places = library_places(input.environment, input.library_directories);
  facts.cupti = find_library(input.root, places, "libcupti.so");
  facts.nccl = find_library(input.root, places, "libnccl.so");
  facts.shared_memory = size_of_shared_memory(input.root);
  facts.sealed_memory = can_seal_memory();
  facts.perf_event_paranoid = system_integer(input.root, "proc/sys/kernel/perf_event_paranoid");
  facts.links_below = below_their_best(input.samples);
  return facts;
}

}  // namespace trimtab::host
