#include "kernels/kernel_name.hpp"

#include <catch2/catch.hpp>

#include "../kernel_records.hpp"
#include "costs/communication_keys.hpp"

using namespace trimtab;
using namespace trimtab::agent;

TEST_CASE("kernels of the common libraries are put into their classes") {
  CHECK(kernel_class_of("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64") == KernelClass::kGemm);
  CHECK(kernel_class_of("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn") == KernelClass::kGemm);
  CHECK(kernel_class_of("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT") == KernelClass::kGemm);
  CHECK(kernel_class_of("_ZN7cutlass6KernelI66cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16") == KernelClass::kGemm);
  CHECK(kernel_class_of("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>") == KernelClass::kAttention);
  CHECK(kernel_class_of("cudnn_generated_fort_native_sdpa_sm90_flash_bprop") == KernelClass::kAttention);
  CHECK(kernel_class_of("_ZN2at6native52_GLOBAL__N__vectorized_layer_norm_kernelIfEEv") == KernelClass::kNormalization);
  CHECK(kernel_class_of("_ZN12_GLOBAL__N_120softmax_warp_forwardIfffLi10EEvPT0_PKT_iii") ==
        KernelClass::kNormalization);
  CHECK(kernel_class_of("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>") ==
        KernelClass::kElementwise);
  CHECK(kernel_class_of("my_kernel") == KernelClass::kOther);
}

TEST_CASE("NCCL's kernels say what they do, as far as their names go") {
  const auto old = collective_kernel("ncclKernel_AllReduce_RING_LL128_Sum_float(ncclWorkElem)");
  REQUIRE(old);
  CHECK(old->primitive == "all_reduce");
  CHECK(old->algorithm == "ring");
  CHECK(old->protocol == "ll128");
  const auto recent =
      collective_kernel("_Z39ncclDevKernel_ReduceScatter_Sum_bf16_TREE_LL24ncclDevKernelArgsStorageILm4096EE");
  REQUIRE(recent);
  CHECK(recent->primitive == "reduce_scatter");
  CHECK(recent->algorithm == "tree");
  CHECK(recent->protocol == "ll");
  CHECK(collective_kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)")->primitive == "send_recv");
  CHECK(collective_kernel("ncclDevKernel_Generic_1(x)")->primitive == "collective");
  CHECK_FALSE(collective_kernel("my_ncclKernel_AllReduce"));
  CHECK_FALSE(collective_kernel("gemm"));
}

TEST_CASE("functions of NCCL's plugins have the cost kinds' names") {
  CHECK(primitive_named("AllReduce") == "all_reduce");
  CHECK(primitive_named("ncclReduceScatter") == "reduce_scatter");
  CHECK(primitive_named("Reduce") == "reduce");
  CHECK(primitive_named("SomethingNew") == "somethingnew");
}

TEST_CASE("names are demangled, and long ones stay different") {
  CHECK(readable_kernel_name("_Z3addPfS_i") == "add(float*, float*, int)");
  CHECK(readable_kernel_name("triton_poi_fused_add_0") == "triton_poi_fused_add_0");
  const std::string a = readable_kernel_name(std::string(300, 'x') + "1");
  const std::string b = readable_kernel_name(std::string(300, 'x') + "2");
  CHECK(a.size() == 160);
  CHECK(a != b);
}

TEST_CASE("a name whose parts stand for ever longer ones is not made readable") {
  CHECK(readable_kernel_name("_Z1f1AIiiES_IS0_S0_E") == "f(A<int, int>, A<A<int, int>, A<int, int> >)");
  // Each A<...> is three times as long as the one before it.
  const std::string grows =
      "_Z1f1AIiiES_IS0_S0_S0_ES_IS1_S1_S1_ES_IS2_S2_S2_ES_IS3_S3_S3_ES_IS4_S4_S4_ES_IS5_S5_S5_ES_IS6_S6_S6_ES_IS7_S7_"
      "S7_E";
  CHECK(readable_kernel_name(grows) == grows);
  CHECK(readable_kernel_name("_ZN7cutlass6KernelI24cutlass_80_tensorop_bf16EEvNT_6ParamsE") ==
        "void cutlass::Kernel<cutlass_80_tensorop_bf16>(cutlass_80_tensorop_bf16::Params)");
}

TEST_CASE("a collective's record becomes a key, its bytes a bucket") {
  const CommunicationKey key = communication_key(test::collective("AllReduce", 3'000'000, 0, 10));
  CHECK(key == CommunicationKey{"all_reduce", 3'000'000, 8, "ring", "ll128", 24});
  CHECK(bytes_bucket(0) == 0);
  CHECK(bytes_bucket(1024) == 1024);
  CHECK(bytes_bucket(1400) == 1024);
  CHECK(bytes_bucket(1500) == 2048);
  CHECK(bytes_bucket(INT64_MAX) == std::int64_t{1} << 62);
  RangeRecord unknown = test::collective("Later", -5, 0, 10);
  unknown.detail = {2, 0, 1, 255, 255, 0, 0};
  CHECK(communication_key(unknown) == CommunicationKey{"later", 0, 2, "", "", 24});
}

TEST_CASE("of many communications those beyond the bound share number 0") {
  CommunicationKeys keys(10);
  for (std::int64_t i = 1; i <= 10; ++i) CHECK(keys.number_of({"all_reduce", i, 2, "", "", 0}) == i);
  CHECK(keys.number_of({"all_reduce", 99, 2, "", "", 0}) == 0);
  CHECK(keys.number_of({"all_reduce", 3, 2, "", "", 0}) == 3);
  CHECK(keys.at(3).bytes == 3);
}
