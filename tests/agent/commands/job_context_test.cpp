#include "commands/job_context.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "../temporary_directory.hpp"
#include "commands/scratch.hpp"
#include "other_software.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

Fingerprint node(const char* kind) {
  Fingerprint fingerprint;
  fingerprint.device = {{"kind", kind}, {"model", "M"}};
  fingerprint.software = {{"libc", "glibc 2.36"}};
  return fingerprint;
}

Job job_with(std::map<std::string, std::string> environment, std::map<std::string, std::string> software) {
  Job job;
  job.name = "gpt";
  job.environment = std::move(environment);
  job.software = std::move(software);
  return job;
}

Fingerprint of(const Fingerprint& on, const Job& job) {
  const TemporaryDirectory state;
  auto parsed = parse_fingerprint(JobContext(state.path(), on).fingerprint_json(job), "test");
  if (!parsed.ok()) FAIL(parsed.error().message);
  return std::move(parsed).value();
}

}  // namespace

TEST_CASE("what a job runs on is part of the fingerprint of its costs") {
  const Fingerprint plain = of(node("gpu"), job_with({}, {}));
  CHECK(plain == node("gpu"));
  const Fingerprint told = of(node("gpu"), job_with({}, {{"nccl", "2.28.9"}, {"cublas", "12.4"}}));
  CHECK(told.software ==
        std::map<std::string, std::string>{{"cublas", "12.4"}, {"libc", "glibc 2.36"}, {"nccl", "2.28.9"}});
  CHECK(test::only_software_differs(told, of(node("gpu"), job_with({}, {{"nccl", "2.29.0"}, {"cublas", "12.4"}}))));
}

TEST_CASE("of a job's environment only what changes costs on that kind of node counts") {
  const Job job = job_with({{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}, {"OMP_NUM_THREADS", "1"}, {"HOME", "/root"}}, {});
  CHECK(of(node("cpu"), job).environment == std::map<std::string, std::string>{{"OMP_NUM_THREADS", "1"}});
  CHECK(of(node("gpu"), job).environment ==
        std::map<std::string, std::string>{{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}, {"OMP_NUM_THREADS", "1"}});
}

TEST_CASE("after a change of the node new costs belong to the new fingerprint") {
  const TemporaryDirectory state;
  JobContext context(state.path(), node("gpu"));
  const Job job = job_with({{"NCCL_ALGO", "Ring"}}, {});
  REQUIRE(context.remember_job(job).ok());
  const std::string before = context.fingerprint_json("gpt");
  Fingerprint divided = node("gpu");
  divided.device["mig"] = "3g.40gb";
  context.node_changed(divided);
  const auto after = parse_fingerprint(context.fingerprint_json("gpt"), "test");
  REQUIRE(after.ok());
  CHECK(after->device.at("mig") == "3g.40gb");
  CHECK(after->environment.at("NCCL_ALGO") == "Ring");
  CHECK(to_json(*after) != before);
}

TEST_CASE("the models of jobs that are over go, and are read again where somebody asks after all") {
  constexpr const char* kModel = R"({"schema":"trimtab.model/1","name":"m","global_batch":4,"dtype":"float32",
    "operators":[{"name":"block0","kind":"block","layer":0,"cost_key":"block-h8","cut_before":true,"parameter_bytes":8,
    "activation_bytes":8,"output_bytes":8,"forward_flops":8}]})";
  constexpr const char* kPlan = R"({"schema":"trimtab.plan/1","model":"m","global_batch":4,"microbatch":2,
    "stages":[{"devices":[0],"segments":[{"operators":[0,1]}]}]})";
  const TemporaryDirectory state;
  JobContext context(state.path(), node("cpu"));
  for (const char* job : {"gpt", "waits", "moved"}) REQUIRE(context.remember_model(job, kModel).ok());
  context.forget_all_but([](const std::string& job) { return job == "waits"; });
  CHECK(context.context("gpt", 0, kPlan));
  for (const char* job : {"waits", "moved"}) REQUIRE(::unlink(Scratch(state.path(), job, "").model().c_str()) == 0);
  CHECK(context.context("waits", 0, kPlan));
  CHECK_FALSE(context.context("moved", 0, kPlan));
}
