#include "doctor/checks.hpp"

#include <catch2/catch.hpp>

#include "doctor/services.hpp"

using namespace trimtab::cli;

TEST_CASE("what is missing comes with its remedy and what is there does not") {
  CHECK(check_program("trimtab-agent", "/x", true).health == Health::kOk);
  CHECK(check_program("trimtab-agent", "/x", true).remedy.empty());
  CHECK(check_program("trimtab-agent", "/x", false).health == Health::kFail);
  CHECK_FALSE(check_program("trimtab-agent", "/x", false).remedy.empty());
  CHECK(check_library("shim", "/x", false, "less is seen").health == Health::kWarn);
  CHECK(check_directory("state", "/x", false).health == Health::kFail);
}

TEST_CASE("cores and memory are judged against the job's ranks") {
  CHECK(check_cores(2, 2).health == Health::kOk);
  CHECK(check_cores(2, 3).health == Health::kWarn);
  CHECK(check_memory(2'000'000'000, 700'000'000, 2).health == Health::kOk);
  CHECK(check_memory(1'000'000'000, 700'000'000, 2).health == Health::kWarn);
  CHECK(check_memory(100'000'000, 0, 1).health == Health::kWarn);
}

TEST_CASE("the best BLAS kernels of the processor are advised where none are chosen") {
  CHECK(check_openblas("", "fpu avx2 avx512f").remedy.find("SkylakeX") != std::string::npos);
  CHECK(check_openblas("", "fpu avx2").remedy.find("Haswell") != std::string::npos);
  CHECK(check_openblas("", "fpu avx512fake").health == Health::kOk);
  CHECK(check_openblas("Zen", "avx512f").health == Health::kOk);
}

TEST_CASE("an interpreter without PyTorch fails a job with its own last words, and warns where none was given") {
  const CommandOutcome missing{1, false, "Traceback\nModuleNotFoundError: No module named 'torch'\n"};
  const Check check = check_torch("python3", missing, Health::kFail);
  CHECK(check.health == Health::kFail);
  CHECK(check.found == "python3: ModuleNotFoundError: No module named 'torch'");
  CHECK(check_torch("python3", {0, false, "torch 1.13.1\n"}, Health::kFail).health == Health::kOk);
  CHECK(check_torch("python3", {-1, true, ""}, Health::kFail).health == Health::kFail);
  const Check nobody_needs_it = check_torch("python3", missing, Health::kWarn);
  CHECK(nobody_needs_it.health == Health::kWarn);
  CHECK(nobody_needs_it.remedy.starts_with("the reference trainer and its benchmarks need it"));
}

TEST_CASE("a machine needs the programs of its services, and both where it has none") {
  const Scope agent = scope_of({true, false}, false, false);
  CHECK(agent.agent_program);
  CHECK_FALSE(agent.coordinator_program);
  const Scope coordinator = scope_of({false, true}, false, false);
  CHECK(coordinator.coordinator_program);
  CHECK_FALSE(coordinator.agent_program);
  for (const Services both : {Services{false, false}, Services{true, true}}) {
    CHECK(scope_of(both, false, false).agent_program);
    CHECK(scope_of(both, false, false).coordinator_program);
  }
}

TEST_CASE("room of 'trimtab up' is looked at where no service is, or somebody means to use it") {
  CHECK(scope_of({false, false}, false, false).up_directories);
  for (const Services services : {Services{true, false}, Services{false, true}, Services{true, true}}) {
    CHECK_FALSE(scope_of(services, false, false).up_directories);
    CHECK(scope_of(services, true, false).up_directories);
    CHECK(scope_of(services, false, true).up_directories);
    CHECK(scope_of(services, true, true).up_port == !services.coordinator);
  }
}

TEST_CASE("PyTorch is a must for a job alone, and nothing to a coordinator's machine") {
  CHECK(scope_of({false, false}, false, false).without_torch == Health::kWarn);
  CHECK(scope_of({true, false}, false, false).without_torch == Health::kWarn);
  CHECK(scope_of({true, true}, false, false).without_torch == Health::kWarn);
  CHECK_FALSE(scope_of({false, true}, false, true).without_torch.has_value());
  for (const Services services : {Services{false, false}, Services{true, false}, Services{false, true}}) {
    CHECK(scope_of(services, true, false).without_torch == Health::kFail);
  }
}

TEST_CASE("the worst finding decides") {
  CHECK(overall({}) == Health::kOk);
  CHECK(overall({check_cores(2, 2), check_cores(1, 2)}) == Health::kWarn);
  CHECK(overall({check_turned_off("0"), check_cores(1, 2)}) == Health::kFail);
  CHECK(remaining_detail({check_turned_off("0"), check_cores(1, 2)}) == Detail::kOff);
  CHECK(remaining_detail({check_turned_off(""), check_cores(1, 2)}) == Detail::kRanges);
}
