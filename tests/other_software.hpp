#pragma once

#include "schema/fingerprint.hpp"

namespace trimtab::test {

// The same hardware and environment, other versions of its software.
inline bool only_software_differs(const Fingerprint& a, const Fingerprint& b) {
  return a.device == b.device && a.fabric == b.fabric && a.environment == b.environment && a.software != b.software;
}

}  // namespace trimtab::test
