#include <catch2/catch.hpp>
#include <string>

#include "host/profiling_facts.hpp"

using namespace trimtab;
using namespace trimtab::host;

namespace {

const std::string kNode = std::string(FIXTURES) + "/gpu_node";

}  // namespace

TEST_CASE("what restricts profiling is found in the driver's files") {
  const ProfilingFacts facts = read_profiling_facts(
      {kNode, {{"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"}, {"LD_LIBRARY_PATH", "/opt/nothing:/opt/cuda/lib"}}, {}, {}});
  CHECK(facts.kernel_driver == "550.54.15");
  CHECK(facts.counters_admin_only == true);
  CHECK(facts.mps_pipe == "/run/mps");
  CHECK(facts.mps_seen);
  CHECK(facts.cupti == "/opt/cuda/lib/libcupti.so.12");
  CHECK(facts.nccl == "/opt/cuda/lib/libnccl.so.2.19.3");
  CHECK(facts.perf_event_paranoid == 4);
  REQUIRE(facts.device_files.size() == 4);
  CHECK(facts.device_files[0].path == "/dev/nvidia0");
  CHECK(facts.device_files[3].path == "/dev/nvidia-uvm");
  CHECK(facts.device_files[3].accessible);
  CHECK(facts.sealed_memory);
}

TEST_CASE("AMD's GPUs are known by their driver, and a desktop processor's graphics are none") {
  const std::string node = std::string(FIXTURES) + "/amd_node";
  const ProfilingFacts facts = read_profiling_facts({node, {}, {}, {}});
  CHECK(amd_gpus_text(facts.amd_gpus) == "2 x AMD gfx942");
  REQUIRE(facts.amd_gpus.size() == 2);
  CHECK(facts.amd_gpus[0].memory == 206141652992);
  CHECK_FALSE(facts.amd_accessible);  // there is no /dev/kfd
  CHECK(amd_gpus_text({{"", Bytes{16} << 30}, {"gfx90a", Bytes{64} << 30}}) == "1 x AMD GPU, 1 x AMD gfx90a");
  CHECK(find_amd_gpus(kNode).empty());
}

TEST_CASE("libraries of the job's Python packages are found, too") {
  const ProfilingFacts facts = read_profiling_facts({kNode, {}, {"/opt/cuda/lib"}, {}});
  CHECK(facts.cupti == "/opt/cuda/lib/libcupti.so.12");
}

TEST_CASE("a machine without a driver has no such facts") {
  const ProfilingFacts facts = read_profiling_facts({std::string(FIXTURES) + "/bare", {}, {}, {}});
  CHECK(facts.kernel_driver.empty());
  CHECK_FALSE(facts.counters_admin_only.has_value());
  CHECK(facts.device_files.empty());
  CHECK(facts.mps_pipe.empty());
  CHECK(facts.cupti.empty());
  CHECK_FALSE(facts.shared_memory.has_value());
}
