#pragma once

// What a kernel's name says: its class, and of NCCL's kernels the collective. Names are the compiler's, mangled or not,
// possibly cut. Rules of thumb over the public names of cuBLAS, cuDNN, CUTLASS, Triton and PyTorch kernels; what no
// rule knows is `other`. Pure.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trimtab::agent {

enum class KernelClass : std::uint8_t { kGemm, kAttention, kNormalization, kElementwise, kOther };
inline constexpr std::array<KernelClass, 5> kKernelClasses = {KernelClass::kGemm, KernelClass::kAttention,
                                                              KernelClass::kNormalization, KernelClass::kElementwise,
                                                              KernelClass::kOther};
[[nodiscard]] std::string_view to_string(KernelClass kernel_class);  // "gemm", "attention", ...
[[nodiscard]] KernelClass kernel_class_of(std::string_view name);

// Of NCCL's kernels. What newer releases do not write into the name (one kernel serves several) is empty.
struct CollectiveKernel {
  std::string_view primitive;  // the cost kinds' names: "all_reduce", "send_recv", ...; "collective" where not said
  std::string_view algorithm;  // "ring", "tree", "nvls", ...
  std::string_view protocol;   // "ll", "ll128", "simple"
};
// Nothing where the name begins neither with ncclDevKernel nor with ncclKernel.
[[nodiscard]] std::optional<CollectiveKernel> collective_kernel(std::string_view name);
// "AllReduce" (as NCCL's plugins call it) to "all_reduce"; what is not known comes back in lower case.
[[nodiscard]] std::string primitive_named(std::string_view function);

// For people and for keys: demangled where that is possible, at most 160 bytes; what was longer ends in '#' and eight
// hexadecimal digits of its hash, so that different names stay different.
[[nodiscard]] std::string readable_kernel_name(std::string_view name);

}  // namespace trimtab::agent
