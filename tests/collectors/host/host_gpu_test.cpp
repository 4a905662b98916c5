#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "gpu/gpu_layout.hpp"
#include "host/gpu_inventory.hpp"
#include "nvml_script.hpp"

using namespace trimtab;
using namespace trimtab::host;
using trimtab::test::NvmlScript;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kLong = 60s;

void divide_first_gpu(NvmlScript& script) {
  script.set("0 nvmlDeviceGetMigMode", "1 1");
  script.set("0 nvmlDeviceGetMaxMigDeviceCount", "7");
  script.set("0 nvmlDeviceGetNumGpuCores", "!3");
  script.set("0 nvmlDeviceGetMigDeviceHandleByIndex/0", "ok");
  script.set("0 nvmlDeviceGetMigDeviceHandleByIndex/2", "ok");
  script.set("0.0 nvmlDeviceGetName", "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
  script.set("0.0 nvmlDeviceGetAttributes_v2", "60 3 3 40448");
  script.set("0.2 nvmlDeviceGetName", "!3");
  script.set("0.2 nvmlDeviceGetAttributes_v2", "16 2 1 20096");
}

}  // namespace

TEST_CASE("NVML tells what changes the costs of each GPU") {
  const NvmlScript script("h100_x2");
  const GpuInventory inventory = read_gpu_inventory(FAKE_NVML, kLong);
  INFO(inventory.reason);
  REQUIRE(inventory.access == GpuAccess::kReadable);
  CHECK(inventory.driver_version == "550.54.15");
  CHECK(inventory.cuda_version == "12.4");
  CHECK(inventory.confidential == false);
  REQUIRE(inventory.gpus.size() == 2);
  const GpuFacts& gpu = inventory.gpus[0];
  CHECK(gpu.name == "NVIDIA H100 80GB HBM3");
  CHECK(gpu.uuid == "GPU-aaaaaaaa-0000-0000-0000-000000000000");
  CHECK(gpu.bus_id == "00000000:19:00.0");
  CHECK(gpu.compute_capability == "9.0");
  CHECK(gpu.multiprocessors == 132);
  CHECK(gpu.memory == 85520809984);
  CHECK(gpu.sm_clock_max_mhz == 1980);
  CHECK(gpu.memory_clock_max_mhz == 2619);
  CHECK_FALSE(gpu.application_clock_mhz.has_value());
  CHECK(gpu.power_limit_mw == 700000);
  CHECK(gpu.ecc == true);
  CHECK(gpu.mig == false);
  CHECK(gpu.compute_mode == "default");
  CHECK(gpu.virtualization == "none");
  CHECK(gpu.pcie_generation == 5);
  CHECK(gpu.pcie_width == 16);
  REQUIRE(gpu.nvlinks.size() == 2);
  CHECK(gpu.nvlinks[0].version == "4.0");
  CHECK(gpu.nvlinks[0].end == NvLinkEnd::kGpu);
  CHECK(gpu.nvlinks[0].remote_bus_id == "00000000:3B:00.0");
  CHECK(gpu.refusals.empty());
  REQUIRE(inventory.paths.size() == 1);
  CHECK(inventory.paths[0].over == "numa_node");
}

TEST_CASE("where no NVML, no driver or no device is, there are no GPUs and nothing is wrong") {
  CHECK(read_gpu_inventory("libnvidia-ml-that-is-not-there.so.1", kLong).access == GpuAccess::kAbsent);
  NvmlScript script("h100_x2");
  for (const char* code : {"!9", "!12", "!28"}) {
    script.set("system nvmlInit_v2", code);
    const GpuInventory inventory = read_gpu_inventory(FAKE_NVML, kLong);
    CHECK(inventory.access == GpuAccess::kAbsent);
    CHECK(inventory.reason.find("NVML does not start") != std::string::npos);
  }
  script.remove("system nvmlInit_v2");
  script.set("system nvmlDeviceGetCount_v2", "0");
  CHECK(read_gpu_inventory(FAKE_NVML, kLong).access == GpuAccess::kAbsent);
}

TEST_CASE("an NVML that does not fit the driver is said, with its own words") {
  NvmlScript script("h100_x2");
  script.set("system nvmlInit_v2", "!18");
  const GpuInventory inventory = read_gpu_inventory(FAKE_NVML, kLong);
  CHECK(inventory.access == GpuAccess::kUnreadable);
  CHECK(inventory.reason.find("Driver/library version mismatch (NVML code 18)") != std::string::npos);
}

TEST_CASE("a lost GPU does not hide the others") {
  NvmlScript script("h100_x2");
  script.set("0 nvmlDeviceGetHandleByIndex_v2", "!15");
  const GpuInventory inventory = read_gpu_inventory(FAKE_NVML, kLong);
  REQUIRE(inventory.gpus.size() == 2);
  CHECK(inventory.gpus[0].failure == "GPU is lost (NVML code 15)");
  CHECK(inventory.gpus[1].failure.empty());
  CHECK(inventory.gpus[1].name == "NVIDIA H100 80GB HBM3");
  CHECK(inventory.paths.empty());
}

TEST_CASE("any question may fail alone, and only a real failure is remembered") {
  for (const char* name :
       {"nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMaxClockInfo/1",
        "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetNvLinkVersion/0"}) {
    INFO(name);
    NvmlScript script("h100_x2");
    script.set(std::string("1 ") + name, "!999");
    const GpuInventory refused = read_gpu_inventory(FAKE_NVML, kLong);
    REQUIRE(refused.gpus.size() == 2);
    CHECK(refused.gpus[0].refusals.empty());
    REQUIRE(refused.gpus[1].refusals.size() == 1);
    CHECK(refused.gpus[1].refusals[0].find("NVML code 999") != std::string::npos);
    script.set(std::string("1 ") + name, "!3");
    const GpuInventory unsupported = read_gpu_inventory(FAKE_NVML, kLong);
    REQUIRE(unsupported.gpus.size() == 2);
    CHECK(unsupported.gpus[1].refusals.empty());
  }
}

TEST_CASE("an old driver lacks functions; what it has is read") {
  const NvmlScript script("h100_x2");
  const GpuInventory inventory = read_gpu_inventory(FAKE_NVML_OLD, kLong);
  REQUIRE(inventory.access == GpuAccess::kReadable);
  CHECK_FALSE(inventory.confidential.has_value());
  const GpuFacts& gpu = inventory.gpus.at(0);
  CHECK_FALSE(gpu.multiprocessors.has_value());
  CHECK_FALSE(gpu.mig.has_value());
  CHECK(gpu.nvlinks.at(0).end == NvLinkEnd::kOther);
  CHECK(gpu.sm_clock_max_mhz == 1980);
  CHECK(gpu.refusals.empty());
}

TEST_CASE("a divided GPU is its instances") {
  NvmlScript script("h100_x2");
  divide_first_gpu(script);
  const GpuInventory inventory = read_gpu_inventory(FAKE_NVML, kLong);
  const GpuFacts& gpu = inventory.gpus.at(0);
  CHECK(gpu.mig == true);
  CHECK_FALSE(gpu.multiprocessors.has_value());
  REQUIRE(gpu.instances.size() == 2);
  CHECK(gpu.instances[0].profile == "3g.40gb");
  CHECK(gpu.instances[0].multiprocessors == 60);
  CHECK(gpu.instances[0].memory == Bytes{40448} << 20);
  CHECK(gpu.instances[1].profile == "1c.2g.20gb");
  CHECK(gpu.refusals.empty());
  CHECK(inventory.gpus.at(1).instances.empty());
}

TEST_CASE("an NVML that does not answer is left alone") {
  NvmlScript script("h100_x2");
  script.set("1 nvmlDeviceGetEnforcedPowerLimit", "hang");
  const GpuInventory inventory = read_gpu_inventory(FAKE_NVML, 20ms);
  CHECK(inventory.access == GpuAccess::kUnreadable);
  CHECK(inventory.reason.find("has not answered within") != std::string::npos);
  script.remove("1 nvmlDeviceGetEnforcedPowerLimit");  // its thread may end
}

TEST_CASE("a MIG profile is named as NVIDIA names it") {
  CHECK(mig_profile_in_name("NVIDIA A100-SXM4-40GB MIG 1g.5gb") == "1g.5gb");
  CHECK(mig_profile_in_name("NVIDIA A100-SXM4-40GB").empty());
  CHECK(mig_profile_of({14, 1, 0, 0, 0, 0, 1, 1, 4864}) == "1g.5gb");
  CHECK(mig_profile_of({14, 1, 0, 0, 0, 0, 3, 1, 19968}) == "1c.3g.20gb");
  CHECK(mig_profile_of({98, 7, 0, 0, 0, 0, 7, 7, 40192}) == "7g.40gb");
}
