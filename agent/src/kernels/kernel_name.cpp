#include "kernels/kernel_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace trimtab::agent {

namespace {

constexpr std::size_t kLongestName = 160;
// In a mangled name "S0_" and "T_" stand for an earlier part, with the references in it: some dozens make a text of any
// length, and take as long.
constexpr std::size_t kMostReferences = 16;

struct ClassRule {
  std::string_view part;  // in lower case
  KernelClass kernel_class;
};

// The first that the name contains counts: attention before gemm, since fused attention kernels name their products.
constexpr ClassRule kClassRules[] = {{"flash", KernelClass::kAttention},
                                     {"fmha", KernelClass::kAttention},
                                     {"attention", KernelClass::kAttention},
                                     {"attn", KernelClass::kAttention},
                                     {"sdpa", KernelClass::kAttention},
                                     {"layer_norm", KernelClass::kNormalization},
                                     {"layernorm", KernelClass::kNormalization},
                                     {"rms_norm", KernelClass::kNormalization},
                                     {"rmsnorm", KernelClass::kNormalization},
                                     {"batch_norm", KernelClass::kNormalization},
                                     {"batchnorm", KernelClass::kNormalization},
                                     {"group_norm", KernelClass::kNormalization},
                                     {"groupnorm", KernelClass::kNormalization},
                                     {"gammabeta", KernelClass::kNormalization},
                                     {"softmax", KernelClass::kNormalization},
                                     {"gemm", KernelClass::kGemm},
                                     {"gemv", KernelClass::kGemm},
                                     {"cutlass", KernelClass::kGemm},
                                     {"xmma", KernelClass::kGemm},
                                     {"nvjet", KernelClass::kGemm},
                                     {"matmul", KernelClass::kGemm},
                                     {"splitk", KernelClass::kGemm},
                                     {"wgrad", KernelClass::kGemm},
                                     {"elementwise", KernelClass::kElementwise},
                                     {"pointwise", KernelClass::kElementwise},
                                     {"multi_tensor_apply", KernelClass::kElementwise},
                                     {"triton_poi", KernelClass::kElementwise},
                                     {"fillfunctor", KernelClass::kElementwise},
                                     {"dropout", KernelClass::kElementwise},
                                     {"adam", KernelClass::kElementwise}};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return result;
}

std::size_t references_in(std::string_view mangled) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = mangled.find_first_of("ST", at)) != std::string_view::npos;) {
    const std::size_t end = mangled.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", ++at);
    if (end != std::string_view::npos && mangled[end] == '_') ++count;
  }
  return count;
}

// Empty where it is no mangled name.
std::string demangled(const std::string& name) {
  if (references_in(name) > kMostReferences) return "";
  int status = -1;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    &std::free);
  return status == 0 && text ? text.get() : "";
}

std::string hash_digits(std::string_view text) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  std::string digits;
  for (int shift = 28; shift >= 0; shift -= 4)
    digits += "0123456789abcdef"[(hash >> static_cast<unsigned>(shift)) & 15U];
  return digits;
}

}  // namespace

std::string_view to_string(KernelClass kernel_class) {
  constexpr std::array<std::string_view, kKernelClasses.size()> kNames = {"gemm", "attention", "normalization",
                                                                          "elementwise", "other"};
  return kNames[static_cast<std::size_t>(kernel_class)];
}

KernelClass kernel_class_of(std::string_view name) {
  const std::string text = lower(name);
  for (const ClassRule& rule : kClassRules) {
    if (text.find(rule.part) != std::string::npos) return rule.kernel_class;
  }
  return KernelClass::kOther;
}

std::string readable_kernel_name(std::string_view name) {
  const std::string mangled(name);
  const std::string readable = demangled(mangled);
  const std::string& full = readable.empty() ? mangled : readable;
  if (full.size() <= kLongestName) return full;
  return full.substr(0, kLongestName - 9) + "#" + hash_digits(full);
}

}  // namespace trimtab::agent
