#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "gpu/driver_files.hpp"
#include "host/fingerprint_probe.hpp"
#include "nvml_script.hpp"
#include "other_software.hpp"

using namespace trimtab;
using namespace trimtab::host;
using trimtab::test::NvmlScript;
using namespace std::chrono_literals;

namespace {

using Layer = std::map<std::string, std::string>;

ProbeInput input_of(const std::string& fixture, Layer environment = {}) {
  return {std::string(FIXTURES) + "/" + fixture, std::move(environment), "glibc 2.36",
          read_gpu_inventory(FAKE_NVML, 60s)};
}

Fingerprint probe(const ProbeInput& input) {
  auto result = probe_fingerprint(input);
  if (!result) FAIL(result.error().message);
  return std::move(result).value();
}

const std::string kCpuHash = "cd2de9ed5eb2afe6";

}  // namespace

TEST_CASE("a GPU node's fingerprint says what changes its costs, layer by layer") {
  const NvmlScript script("h100_x2");
  const Fingerprint fingerprint = probe(input_of("x86_v1"));
  CHECK(fingerprint.device == Layer{{"kind", "gpu"},
                                    {"model", "NVIDIA H100 80GB HBM3"},
                                    {"compute_capability", "9.0"},
                                    {"multiprocessors", "132"},
                                    {"memory_gib", "80"},
                                    {"sm_clock_max_mhz", "1980"},
                                    {"memory_clock_max_mhz", "2619"},
                                    {"power_limit_w", "700"},
                                    {"ecc", "on"},
                                    {"mig", "off"},
                                    {"cpu_quota", "1.50"},
                                    {"host_cpu", "Intel(R) Xeon(R) Platinum 8480+"}});
  CHECK(fingerprint.software ==
        Layer{{"kernel", "6.1"}, {"libc", "glibc 2.36"}, {"driver", "550.54.15"}, {"cuda", "12.4"}});
  CHECK(fingerprint.fabric == Layer{{"topology", "single-host"},
                                    {"gpus", "2"},
                                    {"pcie", "gen5 x16"},
                                    {"gpu_paths", "numa_node:1"},
                                    {"nvlink", "4.0 to gpu:2"},
                                    {"nvlink_pairs", "0-1:2"}});
  CHECK(fingerprint.environment.empty());
}

TEST_CASE("network cards are part of a GPU node's fabric") {
  const NvmlScript script("h100_x2");
  CHECK(probe(input_of("gpu_node")).fabric.at("network") == "Ethernet 100 Gb/s:1, InfiniBand 400 Gb/s:1");
}

TEST_CASE("a driver bump is a near fingerprint; another power cap, clock, division or ECC mode is another device") {
  NvmlScript script("h100_x2");
  const Fingerprint before = probe(input_of("x86_v1"));
  script.set("system nvmlSystemGetDriverVersion", "550.90.07");
  CHECK(test::only_software_differs(before, probe(input_of("x86_v1"))));
  script.set("system nvmlSystemGetDriverVersion", "550.54.15");
  CHECK(before == probe(input_of("x86_v1")));
  for (const auto& [question, answer] : Layer{{"1 nvmlDeviceGetEnforcedPowerLimit", "500000"},
                                              {"* nvmlDeviceGetMaxClockInfo/1", "1755"},
                                              {"* nvmlDeviceGetClock/1/1", "1410"},
                                              {"* nvmlDeviceGetEccMode", "0 0"},
                                              {"0 nvmlDeviceGetMigMode", "1 1"},
                                              {"* nvmlDeviceGetVirtualizationMode", "2"}}) {
    INFO(question);
    NvmlScript other("h100_x2");
    other.set(question, answer);
    const Fingerprint after = probe(input_of("x86_v1"));
    CHECK(before.device != after.device);
    CHECK_FALSE(test::only_software_differs(before, after));
  }
}

TEST_CASE("devices that differ all count") {
  NvmlScript script("h100_x2");
  script.set("1 nvmlDeviceGetEnforcedPowerLimit", "500000");
  CHECK(probe(input_of("x86_v1")).device.at("power_limit_w") == "500 + 700");
}

TEST_CASE("costs under MIG or MPS or confidential computing have a fingerprint of their own") {
  NvmlScript script("h100_x2");
  const Fingerprint plain = probe(input_of("x86_v1"));
  const Fingerprint mps = probe(input_of("gpu_node", {{"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"}}));
  CHECK(mps.environment == Layer{{"mps", "on"}, {"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"}});
  CHECK(plain.environment.empty());
  const Layer instances{{"CUDA_VISIBLE_DEVICES", "MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"}};
  CHECK(probe(input_of("x86_v1", instances)).environment == Layer{{"mig_instances", "chosen"}});
  CHECK(fingerprint_of_job(plain, instances, {}).environment == Layer{{"mig_instances", "chosen"}});
  CHECK(fingerprint_of_job(plain, {{"CUDA_VISIBLE_DEVICES", "0,1"}}, {}) == plain);
  script.set("system nvmlSystemGetConfComputeState", "1 0");
  CHECK(probe(input_of("x86_v1")).environment == Layer{{"confidential_computing", "on"}});
  for (const char* gpu : {"0", "1"}) {
    const std::string device = gpu;
    script.set(device + " nvmlDeviceGetMigMode", "1 1");
    script.set(device + " nvmlDeviceGetMaxMigDeviceCount", "7");
    script.set(device + " nvmlDeviceGetMigDeviceHandleByIndex/0", "ok");
    script.set(device + ".0 nvmlDeviceGetAttributes_v2", "60 3 3 40448");
    script.set(device + ".0 nvmlDeviceGetName", "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
  }
  const Fingerprint mig = probe(input_of("x86_v1"));
  CHECK(mig.device.at("mig") == "3g.40gb");
  CHECK(mig.device.at("multiprocessors") == "60");
  CHECK(mig.device.at("memory_gib") == "40");
  CHECK(hash(mig) != hash(plain));
}

TEST_CASE("a GPU node whose NVML does not work is still no CPU node") {
  NvmlScript script("h100_x2");
  script.set("system nvmlInit_v2", "!18");
  const Fingerprint fingerprint = probe(input_of("gpu_node"));
  CHECK(fingerprint.device == Layer{{"kind", "gpu"},
                                    {"nvml", "unreadable"},
                                    {"model", "NVIDIA H100 80GB HBM3"},
                                    {"cpu_quota", "3.50"},
                                    {"host_cpu", "Intel(R) Xeon(R) Platinum 8480+"}});
  CHECK(fingerprint.software.at("driver") == "550.54.15");
  CHECK(fingerprint.fabric.at("gpus") == "2");
}

TEST_CASE("a CPU node keeps the fingerprint that its costs are stored under") {
  NvmlScript script("h100_x2");
  script.set("system nvmlInit_v2", "!9");
  const Layer variables{{"OMP_NUM_THREADS", "1"}, {"CUDA_DEVICE_MAX_CONNECTIONS", "1"}, {"NCCL_DEBUG", "INFO"}};
  const Fingerprint without_driver = probe(input_of("x86_v1", variables));
  const Fingerprint not_asked = probe({std::string(FIXTURES) + "/x86_v1", variables, "glibc 2.36", {}});
  CHECK(without_driver == not_asked);
  CHECK(not_asked.environment == Layer{{"OMP_NUM_THREADS", "1"}, {"NCCL_DEBUG", "INFO"}});
  CHECK(hash(not_asked) == kCpuHash);
}

TEST_CASE("on a GPU node CUDA's variables count, and what NCCL only logs does not") {
  Fingerprint cpu;
  cpu.device["kind"] = "cpu";
  Fingerprint gpu;
  gpu.device["kind"] = "gpu";
  CHECK(changes_costs("CUDA_DEVICE_MAX_CONNECTIONS", gpu));
  CHECK_FALSE(changes_costs("CUDA_DEVICE_MAX_CONNECTIONS", cpu));
  CHECK_FALSE(changes_costs("NCCL_DEBUG", gpu));
  CHECK(changes_costs("NCCL_DEBUG", cpu));
  CHECK(changes_costs("NCCL_ALGO", gpu));
  CHECK(changes_costs("OMP_NUM_THREADS", gpu));
  CHECK_FALSE(changes_costs("HOME", gpu));
}

TEST_CASE("the kernel driver's own files are read with care") {
  CHECK(parse_driver_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n") ==
        "570.86.10");
  CHECK(parse_driver_version("").empty());
  CHECK(parse_driver_version("NVRM version: something else").empty());
  CHECK(parse_admin_only("RmProfilingAdminOnly: 1\n") == true);
  CHECK(parse_admin_only("RmProfilingAdminOnly: 0\n") == false);
  CHECK_FALSE(parse_admin_only("RmProfilingAdminOnlyX: 0\n").has_value());
  CHECK(gpu_device_files(std::string(FIXTURES) + "/gpu_node") ==
        std::vector<std::string>{"dev/nvidia0", "dev/nvidia1"});
  CHECK(gpu_device_files(std::string(FIXTURES) + "/bare").empty());
}
