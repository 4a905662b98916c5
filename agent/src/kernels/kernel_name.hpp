#pragma once

// What a kernel's name says: its class (of NCCL's kernels see schema/traces/collective_kernel.hpp). Names are the
// compiler's, mangled or not, possibly cut. Rules of thumb over the public names of cuBLAS, cuDNN, CUTLASS, Triton and
// PyTorch kernels; what no rule knows is `other`. Pure.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "schema/traces/collective_kernel.hpp"

namespace trimtab::agent {

enum class KernelClass : std::uint8_t { kGemm, kAttention, kNormalization, kElementwise, kOther };
inline constexpr std::array<KernelClass, 5> kKernelClasses = {KernelClass::kGemm, KernelClass::kAttention,
                                                              KernelClass::kNormalization, KernelClass::kElementwise,
                                                              KernelClass::kOther};
[[nodiscard]] std::string_view to_string(KernelClass kernel_class);  // "gemm", "attention", ...
[[nodiscard]] KernelClass kernel_class_of(std::string_view name);

// For people and for keys: demangled where that is possible, at most 160 bytes; what was longer ends in '#' and eight
// hexadecimal digits of its hash, so that different names stay different.
[[nodiscard]] std::string readable_kernel_name(std::string_view name);

}  // namespace trimtab::agent
