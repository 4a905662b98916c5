#pragma once

// Costs that another program measured on hardware whose fingerprint a database already has: they join its costs, so
// that one search sees both. What the two say of the hardware must agree.

#include <string>

#include "base/result.hpp"
#include "schema/published.hpp"

namespace trimtab::cli {

// Gives every profile the fingerprint of `database` that begins with `wanted`. Refused: no such fingerprint, or one
// that says another GPU, NCCL or NCCL variable than a profile does. Reads the database only.
[[nodiscard]] Status adopt_fingerprint(const std::string& database, const std::string& wanted, Published& published);

// What differs of two fingerprints that could be one machine's: "NCCL 2.28.9, but 2.27.3"; empty when nothing does. A
// key that only one of them has is no difference, but for NCCL's variables. Pure.
[[nodiscard]] std::string disagreement(const Fingerprint& measured, const Fingerprint& target);

}  // namespace trimtab::cli
