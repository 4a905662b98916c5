#pragma once

// Hardware and software of a node on which less is measured, or what is measured is no whole device's: agents name it
// as they begin, cards beside what they say. Pure.

#include <string>
#include <vector>

#include "schema/fingerprint.hpp"

namespace trimtab {

// What is missing, and what works all the same, a text for each; none on an ordinary node.
[[nodiscard]] std::vector<std::string> unusual_hardware(const Fingerprint& node);

inline constexpr const char* kUnknownCupti =
    "a CUPTI later than 13, whose records this release does not know: no kernel is recorded. Collectives, ranges and "
    "steps are";

}  // namespace trimtab
