#include "model_operators.hpp"

#include <catch2/catch.hpp>

#include "fake_device.hpp"
#include "kernels.hpp"

using namespace trimtab;
using namespace trimtab::bench;

namespace {

std::int64_t flops(const Chain& chain) {
  std::int64_t sum = 0;
  for (const Kernel& kernel : chain) {
    if (const auto* gemm = std::get_if<Gemm>(&kernel.work)) sum += 2 * gemm->batch * gemm->m * gemm->n * gemm->k;
  }
  return sum;
}

OperatorKernels kernels_of(const char* cost_key, std::int64_t samples, std::int64_t tp) {
  const auto model = parse_model_operators(sample_model(), "model.json");
  REQUIRE(model.ok());
  auto kernels = operator_kernels(model->by_cost_key.at(cost_key), Dtype::kFloat16, samples, tp);
  REQUIRE(kernels.ok());
  return *kernels;
}

}  // namespace

TEST_CASE("an operator's kernels do the work that its document says", "[gpu_bench]") {
  for (const char* const key : {"attention", "feedforward", "head"}) {
    CAPTURE(key);
    const std::int64_t said = parse_model_operators(sample_model(), "m")->by_cost_key.at(key).forward_flops;
    const OperatorKernels whole = kernels_of(key, 3, 1);
    CHECK(flops(whole.forward) == 3 * said);
    CHECK(flops(whole.backward) == 6 * said);
    const OperatorKernels half = kernels_of(key, 3, 2);
    CHECK(2 * flops(half.forward) == flops(whole.forward));
    CHECK(half.stored_bytes < whole.stored_bytes);
    CHECK(whole.working_bytes > 0);
  }
}

TEST_CASE("a tensor-parallel operator sums over its ranks, once a pass", "[gpu_bench]") {
  const OperatorKernels half = kernels_of("attention", 2, 2);
  CHECK(describe(half.forward.back()) == "all_reduce 128 KiB among 2 float16");
  CHECK(describe(half.backward.back()) == "all_reduce 128 KiB among 2 float16");
  CHECK(describe(kernels_of("attention", 2, 1).forward.back()) == "elementwise 65536 float16");
}

TEST_CASE("what cannot be split or is not known is refused by name", "[gpu_bench]") {
  const auto model = parse_model_operators(sample_model(), "model.json");
  const auto uneven = operator_kernels(model->by_cost_key.at("attention"), Dtype::kFloat16, 1, 3);
  REQUIRE_FALSE(uneven.ok());
  CHECK(uneven.error().message == "tp must divide heads (4), found 3");
  const auto unknown = operator_kernels(model->by_cost_key.at("mixture"), Dtype::kFloat16, 1, 1);
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.find("\"mixture\"") != std::string::npos);
  CHECK_FALSE(parse_model_operators("{}", "model.json").ok());
  CHECK_FALSE(parse_model_operators(R"({"schema": "trimtab.model/1", "operators": []})", "model.json").ok());
  const auto bad = parse_model_operators(
      R"({"schema": "trimtab.model/1", "operators": [{"cost_key": "a", "kind": "head", "shape": {"hidden": -1}}]})",
      "m");
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().message == "m: operators[0]: hidden must be a whole number of 1 or more");
}

TEST_CASE("classes of kernels are found in an operator", "[gpu_bench]") {
  const Chain attention = kernels_of("attention", 1, 1).forward;
  const auto core = kernels_of_class(attention, "attention");
  REQUIRE(core.ok());
  REQUIRE(core->size() == 3);
  CHECK(describe((*core)[0]) == "gemm 4 times 128x128x64 float16");
  CHECK(describe((*core)[1]) == "softmax 512x128 float16");
  CHECK(describe((*core)[2]) == "gemm 4 times 128x64x128 float16");
  CHECK(describe(kernels_of_class(attention, "gemm")->front()) == "gemm 128x768x256 float16");
  CHECK_FALSE(kernels_of_class(kernels_of("feedforward", 1, 1).forward, "attention").ok());
  CHECK_FALSE(kernels_of_class(attention, "teleport").ok());
}

TEST_CASE("buffers hold what a kernel touches, in sets beyond the cache", "[gpu_bench]") {
  for (const char* const key : {"attention", "feedforward", "head"}) {
    for (const Kernel& kernel : kernels_of(key, 2, 1).backward) {
      Bytes sum = 0;
      for (const Buffer& buffer : buffers_of(kernel)) sum += buffer.bytes;
      CHECK(sum == touched_bytes(kernel));
    }
  }
  const Bytes mib = 1 << 20;
  CHECK(rotation_sets(10 * mib, 50 * mib, 100'000 * mib) == 12);
  CHECK(rotation_sets(1000 * mib, 50 * mib, 100'000 * mib) == 2);
  CHECK(rotation_sets(10 * mib, 50 * mib, 80 * mib) == 2);
  CHECK(rotation_sets(10 * mib, 50 * mib, 0) == 1);
  CHECK(rotation_sets(1, 50 * mib, 100'000 * mib) == kMostSets);
  CHECK(rotation_sets(0, 50 * mib, 0) == 1);
}
