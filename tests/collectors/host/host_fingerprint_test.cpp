#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "host/fingerprint_probe.hpp"
#include "proc_text.hpp"

using namespace trimtab;
using namespace trimtab::host;

namespace {

using Layer = std::map<std::string, std::string>;

Fingerprint probe(const std::string& fixture, std::map<std::string, std::string> environment = {}) {
  auto result = probe_fingerprint({std::string(FIXTURES) + "/" + fixture, std::move(environment), "glibc 2.36"});
  if (!result) FAIL(result.error().message);
  return std::move(result).value();
}

}  // namespace

TEST_CASE("an x86 node's fingerprint says what changes its costs") {
  const Fingerprint fingerprint = probe("x86_v1");
  CHECK(
      fingerprint.device ==
      Layer{{"kind", "cpu"},
            {"model", "Intel(R) Xeon(R) Platinum 8480+"},
            {"cores", "12"},
            {"isa", "amx_bf16 amx_int8 avx avx2 avx512_bf16 avx512_vnni avx512bw avx512dq avx512f avx512vl fma sse4_2"},
            {"memory_gib", "252"},
            {"max_frequency_mhz", "3800"},
            {"cpu_quota", "1.50"}});
  CHECK(fingerprint.software == Layer{{"kernel", "6.1"}, {"libc", "glibc 2.36"}});
  CHECK(fingerprint.fabric == Layer{{"topology", "single-host"}});
  CHECK(fingerprint.environment.empty());
}

TEST_CASE("an ARM node's fingerprint names its part and extensions") {
  const Fingerprint fingerprint = probe("arm_v2");
  CHECK(fingerprint.device == Layer{{"kind", "cpu"},
                                    {"model", "arm 0x41 0xd4f"},
                                    {"cores", "4"},
                                    {"isa", "asimd bf16 i8mm sve sve2"},
                                    {"memory_gib", "24"},
                                    {"cpu_quota", "3.50"}});
  CHECK(fingerprint.software.at("kernel") == "6.18");
}

TEST_CASE("a node that tells little still has a fingerprint") {
  const Fingerprint fingerprint = probe("bare");
  CHECK(fingerprint.device.at("model") == "unknown");
  CHECK(fingerprint.device.at("isa").empty());
  CHECK_FALSE(fingerprint.device.contains("cpu_quota"));
  CHECK(fingerprint.software.at("kernel") == "weird");
}

TEST_CASE("what a job costs on a node with AMD's GPUs is not taken for a processor's") {
  const Fingerprint node = probe("amd_node");
  CHECK(node.device.at("kind") == "cpu");
  CHECK(node.device.at("other_gpus") == "2 x AMD gfx942");
  Fingerprint bare = probe("bare");
  CHECK_FALSE(bare.device.contains("other_gpus"));
  CHECK(hash(node) != hash(bare));
  CHECK_FALSE(distance(node, bare));
  bare.device["other_gpus"] = "2 x AMD gfx942";
  CHECK(node == bare);
}

TEST_CASE("a node whose /proc is missing or broken is an error that names the file") {
  const auto missing = probe_fingerprint({"/nowhere", {}, ""});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().kind == ErrorKind::kUnavailable);
  CHECK(missing.error().message.find("/nowhere/proc/cpuinfo") != std::string::npos);
  CHECK_FALSE(probe_fingerprint({std::string(FIXTURES) + "/broken", {}, ""}).ok());
}

TEST_CASE("only variables that change costs are in the fingerprint") {
  const Fingerprint fingerprint = probe(
      "bare", {{"OPENBLAS_CORETYPE", "SkylakeX"}, {"OMP_NUM_THREADS", "1"}, {"NCCL_ALGO", "Ring"}, {"HOME", "/root"}});
  CHECK(fingerprint.environment ==
        Layer{{"NCCL_ALGO", "Ring"}, {"OMP_NUM_THREADS", "1"}, {"OPENBLAS_CORETYPE", "SkylakeX"}});
}

TEST_CASE("what the job knows of its software is merged over what the node says") {
  const Fingerprint of_job = fingerprint_of_job(probe("bare"), {{"OPENBLAS_NUM_THREADS", "1"}, {"HOME", "/root"}},
                                                {{"torch", "1.13.1"}, {"libc", "musl"}});
  CHECK(of_job.software.at("torch") == "1.13.1");
  CHECK(of_job.software.at("libc") == "musl");
  CHECK(of_job.software.contains("kernel"));
  CHECK(of_job.environment.contains("OPENBLAS_NUM_THREADS"));
  CHECK_FALSE(of_job.environment.contains("HOME"));
}

TEST_CASE("this machine has a fingerprint, twice the same") {
  const GpuInventory gpus = read_gpu_inventory(kNvmlLibrary, std::chrono::seconds(10));
  const auto first = probe_fingerprint(probe_input(gpus));
  const auto second = probe_fingerprint(probe_input(gpus));
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(*first == *second);
  CHECK(hash(*first) == hash(*second));
  CHECK(first->device.contains("kind"));
  CHECK(first->software.at("libc").starts_with("glibc"));
}

TEST_CASE("a CPU list counts its CPUs or is refused") {
  CHECK(*parse_cpu_list("0-3,8,10-11\n") == 7);
  CHECK(*parse_cpu_list("5") == 1);
  for (const char* wrong : {"", "a", "3-1", "-1", "0-", "0,,x", "0-99999999999"})
    CHECK_FALSE(parse_cpu_list(wrong).ok());
}

TEST_CASE("a kernel release is cut to what changes costs") {
  CHECK(parse_kernel_release("6.1.0-18-amd64\n") == "6.1");
  CHECK(parse_kernel_release("5.15") == "5.15");
  CHECK(parse_kernel_release("") == "");
}
