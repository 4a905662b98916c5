#pragma once

// What each of Megatron-LM's options may change, by name: of its parser in Core 0.20, and of older ones that its users'
// scripts still have. What reads a model reads its own options before it asks.

#include <string_view>

namespace trimtab {

enum class MegatronRole {
  kNeutral,    // neither the model, nor its memory, nor its time; or what a plan says
  kHowItRuns,  // its times, and a little of its memory: costs are measured with it
  kUnknown,    // may change anything
};

// Thread-safe.
[[nodiscard]] MegatronRole role_of(std::string_view option);

// What an option says that is not counted from arguments: "a model with a retriever". Empty: it says no such thing.
// Thread-safe.
[[nodiscard]] std::string_view uncounted(std::string_view option);

}  // namespace trimtab
