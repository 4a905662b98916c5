#include "doctor_checks.hpp"

#include <catch2/catch.hpp>

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

TEST_CASE("an interpreter without PyTorch fails with its own last words") {
  const Check check = check_torch("python3", {1, false, "Traceback\nModuleNotFoundError: No module named 'torch'\n"});
  CHECK(check.health == Health::kFail);
  CHECK(check.found == "python3: ModuleNotFoundError: No module named 'torch'");
  CHECK(check_torch("python3", {0, false, "torch 1.13.1\n"}).health == Health::kOk);
  CHECK(check_torch("python3", {-1, true, ""}).health == Health::kFail);
}

TEST_CASE("the worst finding decides") {
  CHECK(overall({}) == Health::kOk);
  CHECK(overall({check_cores(2, 2), check_cores(1, 2)}) == Health::kWarn);
  CHECK(overall({check_switched_off("0"), check_cores(1, 2)}) == Health::kFail);
  CHECK(remaining_detail({check_switched_off("0"), check_cores(1, 2)}) == Detail::kOff);
  CHECK(remaining_detail({check_switched_off(""), check_cores(1, 2)}) == Detail::kRanges);
}
