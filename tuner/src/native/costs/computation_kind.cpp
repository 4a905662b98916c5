#include "native/costs/computation_kind.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

constexpr std::array<std::string_view, kKernelClasses> kNames{"gemm", "attention", "normalization", "elementwise",
                                                              "other"};

struct Word {
  std::string_view part;
  ComputationKind kind;
};
// The first that occurs counts: an attention's head is attention, a model's is a product.
constexpr Word kWords[] = {{"attention", ComputationKind::kAttention},   {"norm", ComputationKind::kNormalization},
                           {"softmax", ComputationKind::kNormalization}, {"loss", ComputationKind::kNormalization},
                           {"embed", ComputationKind::kLookup},          {"gelu", ComputationKind::kElementwise},
                           {"relu", ComputationKind::kElementwise},      {"activation", ComputationKind::kElementwise},
                           {"dropout", ComputationKind::kElementwise},   {"elementwise", ComputationKind::kElementwise},
                           {"mlp", ComputationKind::kProducts},          {"gemm", ComputationKind::kProducts},
                           {"feedforward", ComputationKind::kProducts},  {"linear", ComputationKind::kProducts},
                           {"dense", ComputationKind::kProducts},        {"qkv", ComputationKind::kProducts},
                           {"expert", ComputationKind::kProducts},       {"conv", ComputationKind::kProducts},
                           {"head", ComputationKind::kProducts}};

constexpr std::array kProducts{KernelClass::kGemm};
constexpr std::array kAttention{KernelClass::kGemm, KernelClass::kAttention};
constexpr std::array kNormalization{KernelClass::kNormalization};
constexpr std::array kElementwise{KernelClass::kElementwise};
constexpr std::array kLookup{KernelClass::kOther};

}  // namespace

std::optional<KernelClass> kernel_class_named(std::string_view name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<KernelClass>(found - kNames.begin());
}

ComputationKind computation_of(std::string_view operator_kind) {
  for (const Word& word : kWords) {
    if (operator_kind.find(word.part) != std::string_view::npos) return word.kind;
  }
  return ComputationKind::kUnknown;
}

std::span<const KernelClass> classes_of(ComputationKind kind) {
  switch (kind) {
    case ComputationKind::kProducts:
      return kProducts;
    case ComputationKind::kAttention:
      return kAttention;
    case ComputationKind::kNormalization:
      return kNormalization;
    case ComputationKind::kElementwise:
      return kElementwise;
    case ComputationKind::kLookup:
      return kLookup;
    case ComputationKind::kUnknown:
      break;
  }
  return {};
}

}  // namespace trimtab::tuner
