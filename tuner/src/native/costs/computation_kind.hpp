#pragma once

// What kinds of kernels an operator is made of, by its kind: overlap slowdowns are measured by the kernels' class.
// Pure.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trimtab::tuner {

// As agents and benchmarks name them (docs/protocols.md, "Cost kinds").
enum class KernelClass : std::uint8_t { kGemm, kAttention, kNormalization, kElementwise, kOther };
inline constexpr std::size_t kKernelClasses = 5;
[[nodiscard]] std::optional<KernelClass> kernel_class_named(std::string_view name);

enum class ComputationKind : std::uint8_t { kProducts, kAttention, kNormalization, kElementwise, kLookup, kUnknown };
inline constexpr std::size_t kComputationKinds = 6;

// Of an operator of this kind ("attention", "mlp", ...): the first of a list of words that its kind contains.
[[nodiscard]] ComputationKind computation_of(std::string_view operator_kind);

// The classes that such an operator spends its time in; none = nobody knows.
[[nodiscard]] std::span<const KernelClass> classes_of(ComputationKind kind);

}  // namespace trimtab::tuner
