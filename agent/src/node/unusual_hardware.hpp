#pragma once

// Hardware of a node on which less is measured, or what is measured is no whole device's: named once, as the agent
// begins. Pure.

#include <string>
#include <vector>

#include "schema/fingerprint.hpp"

namespace trimtab::agent {

// A sentence for each; none on an ordinary node.
[[nodiscard]] std::vector<std::string> unusual_hardware(const Fingerprint& node);

}  // namespace trimtab::agent
