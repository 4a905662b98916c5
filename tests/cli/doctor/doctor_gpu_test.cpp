#include "doctor/gpu.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;
using host::GpuAccess;
using host::GpuFacts;
using host::GpuInventory;

namespace {

GpuInventory two_gpus() {
  GpuInventory gpus;
  gpus.access = GpuAccess::kReadable;
  gpus.driver_version = "550.54.15";
  gpus.cuda_version = "12.4";
  gpus.confidential = false;
  gpus.gpus.resize(2);
  for (GpuFacts& gpu : gpus.gpus) {
    gpu.index = &gpu - gpus.gpus.data();
    gpu.name = "NVIDIA H100 80GB HBM3";
    gpu.virtualization = "none";
    gpu.mig = false;
  }
  return gpus;
}

host::ProfilingFacts good_node() {
  host::ProfilingFacts facts;
  facts.gpus = two_gpus();
  facts.kernel_driver = "550.54.15";
  facts.counters_admin_only = false;
  facts.device_files = {{"/dev/nvidia0", true}, {"/dev/nvidia1", true}, {"/dev/nvidiactl", true}};
  facts.cupti = "/usr/local/cuda/lib64/libcupti.so.12";
  facts.nccl = "/usr/lib/libnccl.so.2";
  facts.shared_memory = Bytes{64} << 30;
  facts.sealed_memory = true;
  facts.perf_event_paranoid = 4;
  return facts;
}

const Check& named(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::ranges::find(checks, name, &Check::name);
  REQUIRE(found != checks.end());
  return *found;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("on a GPU node where nothing restricts profiling, kernels are seen") {
  const auto checks = gpu_checks(good_node(), {});
  CHECK(overall(checks) == Health::kOk);
  CHECK(remaining_detail(checks) == Detail::kKernels);
  for (const Check& check : checks) CHECK(check.remedy.empty());
  CHECK(named(checks, "GPUs").found == "2 x NVIDIA H100 80GB HBM3, driver 550.54.15, CUDA 12.4");
  CHECK(says(named(checks, "privileges").found, "perf_event_paranoid=4 does not matter"));
}

TEST_CASE("links that are below their best are named, on any node") {
  host::ProfilingFacts facts = good_node();
  CHECK(named(gpu_checks(facts, {}), "PCIe links").found == "none is below its best");
  facts.links_below = {{"PCIe of GPU 1", "lanes", "runs at 8 lanes, and could at 16 lanes"}};
  const Check check = named(gpu_checks(facts, {}), "PCIe links");
  CHECK(check.health == Health::kWarn);
  CHECK(check.found == "PCIe of GPU 1 runs at 8 lanes, and could at 16 lanes");
  CHECK(says(check.remedy, "reseat the card"));
  facts.gpus = {};
  facts.device_files.clear();
  CHECK(named(gpu_checks(facts, {}), "PCIe links").found == check.found);
}

TEST_CASE("on a CPU node ranges are seen, and nothing is wrong") {
  host::ProfilingFacts facts;
  facts.gpus.reason = "NVML cannot be loaded";
  facts.shared_memory = Bytes{64} << 30;
  facts.sealed_memory = true;
  facts.kernel_driver = "550.54.15";  // of the host, seen from a container without its GPUs
  const auto checks = gpu_checks(facts, {});
  CHECK(overall(checks) == Health::kOk);
  CHECK(remaining_detail(checks) == Detail::kRanges);
  CHECK(checks.size() == 5);
}

TEST_CASE("AMD's GPUs are named with what still works there") {
  host::ProfilingFacts facts;
  facts.shared_memory = Bytes{64} << 30;
  facts.sealed_memory = true;
  facts.amd_gpus = {{"gfx942", Bytes{192} << 30}, {"gfx942", Bytes{192} << 30}};
  const auto checks = gpu_checks(facts, {});
  const Check& check = named(checks, "AMD GPUs");
  CHECK(check.health == Health::kWarn);
  CHECK(check.remains == Detail::kRanges);
  CHECK(says(check.found, "2 x AMD gfx942: not known, no kernels"));
  CHECK(says(check.found, "/dev/kfd cannot be opened"));
  CHECK(says(check.remedy, "steps, their parts, ranges and the host's metrics are measured"));
}

TEST_CASE("a job that names instances of a device that is not divided is told so") {
  const auto checks = gpu_checks(good_node(), {{"CUDA_VISIBLE_DEVICES", "MIG-5c89852c"}});
  CHECK(says(named(checks, "MIG").found, "names an instance"));
  CHECK(named(gpu_checks(good_node(), {{"CUDA_VISIBLE_DEVICES", "0,1"}}), "MIG").health == Health::kOk);
}

TEST_CASE("each restriction is named with the detail that remains and what to do") {
  struct Case {
    const char* check;
    void (*restrict)(host::ProfilingFacts&);
    Health health;
    Detail remains;
    const char* found;
    const char* remedy;
  };
  const Case cases[] = {
      {"RestrictProfilingToAdminUsers", [](auto& facts) { facts.counters_admin_only = true; }, Health::kWarn,
       Detail::kKernels, "administrators", "NVreg_RestrictProfilingToAdminUsers=0"},
      {"vGPU", [](auto& facts) { facts.gpus.gpus[1].virtualization = "vgpu"; }, Health::kWarn, Detail::kCollectives,
       "hypervisor", "enable_profiling=1"},
      {"confidential computing", [](auto& facts) { facts.gpus.confidential = true; }, Health::kWarn,
       Detail::kCollectives, "no kernels", "developer-tools mode"},
      {"confidential computing", [](auto& facts) { facts.gpus.confidential = facts.gpus.confidential_open = true; },
       Health::kWarn, Detail::kKernels, "fingerprint of their own", "nothing"},
      {"MIG",
       [](auto& facts) {
         facts.gpus.gpus[0].mig = true;
         facts.gpus.gpus[0].instances = {{"MIG-1", "3g.40gb", 60, Bytes{40} << 30}};
       },
       Health::kWarn, Detail::kKernels, "3g.40gb; costs measured here keep a fingerprint of their own", "nothing"},
      {"MIG", [](auto& facts) { facts.gpus.gpus[0].mig = true; }, Health::kWarn, Detail::kKernels, "no instances",
       "nvidia-smi mig"},
      {"MPS",
       [](auto& facts) {
         facts.mps_pipe = "/tmp/nvidia-mps";
         facts.mps_seen = true;
       },
       Health::kWarn, Detail::kKernels, "/tmp/nvidia-mps", "echo quit | nvidia-cuda-mps-control"},
      {"MPS", [](auto& facts) { facts.mps_pipe = "/tmp/nvidia-mps"; }, Health::kWarn, Detail::kKernels, "no daemon",
       "remove the directory"},
      {"CUPTI", [](auto& facts) { facts.cupti.clear(); }, Health::kWarn, Detail::kCollectives, "no libcupti.so",
       "LD_LIBRARY_PATH"},
      {"CUPTI", [](auto& facts) { facts.cupti = "/usr/local/cuda/lib64/libcupti.so.14"; }, Health::kWarn,
       Detail::kCollectives, "later than 13", "earlier libcupti"},
      {"NCCL", [](auto& facts) { facts.nccl.clear(); }, Health::kWarn, Detail::kKernels, "no libnccl.so", "one GPU"},
      {"device files", [](auto& facts) { facts.device_files[1].accessible = false; }, Health::kFail, Detail::kRanges,
       "/dev/nvidia1", "container"},
      {"/dev/shm", [](auto& facts) { facts.shared_memory = Bytes{64} << 20; }, Health::kWarn, Detail::kKernels,
       "64.0 MiB", "--shm-size"},
      {"/dev/shm", [](auto& facts) { facts.shared_memory.reset(); }, Health::kWarn, Detail::kKernels, "not there",
       "tmpfs"},
      {"sealed memory", [](auto& facts) { facts.sealed_memory = false; }, Health::kFail, Detail::kOff, "refused",
       "seccomp"},
      {"GPUs",
       [](auto& facts) {
         facts.gpus = {};
         facts.gpus.access = GpuAccess::kUnreadable;
         facts.gpus.reason = "NVML does not start: Driver/library version mismatch";
       },
       Health::kWarn, Detail::kKernels, "version mismatch (kernel driver 550.54.15)", "reboot"},
      {"GPUs", [](auto& facts) { facts.gpus.gpus[1].failure = "GPU is lost"; }, Health::kFail, Detail::kKernels,
       "GPU 1: GPU is lost", "reset"},
      {"GPUs", [](auto& facts) { facts.gpus.gpus[1].refusals = {"nvmlDeviceGetEccMode: no permission"}; },
       Health::kWarn, Detail::kKernels, "NVML refuses: nvmlDeviceGetEccMode", "missing from metrics"},
  };
  for (const Case& one : cases) {
    INFO(one.check << ": " << one.found);
    host::ProfilingFacts facts = good_node();
    one.restrict(facts);
    const auto checks = gpu_checks(facts, {});
    const Check& check = named(checks, one.check);
    CHECK(check.health == one.health);
    CHECK(check.remains == one.remains);
    CHECK(says(check.found, one.found));
    CHECK(says(check.remedy, one.remedy));
    CHECK(remaining_detail(checks) == one.remains);
    CHECK(overall(checks) == one.health);
  }
}

TEST_CASE("another profiler in the job's environment is named, ours is not") {
  for (const Environment& theirs :
       {Environment{{"CUDA_INJECTION64_PATH", "/opt/nsight/libToolsInjection64.so"}},
        Environment{{"NVTX_INJECTION64_PATH", "/opt/other.so"}}, Environment{{"NSYS_PROFILING_SESSION_ID", "7"}},
        Environment{{"LD_PRELOAD", "/usr/lib/libevent_hook.so"}}}) {
    const Check check = check_other_profilers(theirs);
    INFO(check.found);
    CHECK(check.health == Health::kWarn);
    CHECK(check.remains == Detail::kCollectives);
    CHECK(says(check.found, theirs.begin()->first));
  }
  for (const Environment& ours : {Environment{}, Environment{{"CUDA_INJECTION64_PATH", "none"}},
                                  Environment{{"CUDA_INJECTION64_PATH", "/usr/lib/libtrimtab-inject.so"},
                                              {"NVTX_INJECTION64_PATH", "/usr/lib/libtrimtab-inject.so"},
                                              {"LD_PRELOAD", "/usr/lib/libjemalloc.so"}}}) {
    CHECK(check_other_profilers(ours).health == Health::kOk);
  }
}

TEST_CASE("the least detail of all checks remains") {
  CHECK(remaining_detail({}) == Detail::kRanges);
  CHECK(remaining_detail({check_cupti(""), check_nccl("")}) == Detail::kCollectives);
  CHECK(remaining_detail({check_cupti(""), check_sealed_memory(false)}) == Detail::kOff);
}
