#pragma once

// How the side that asks shows a link's probe that it knows the probe's token, which never goes over the link: the
// listening side makes up a challenge, the other answers with HMAC-SHA256(token, challenge). Any thread.

#include <array>
#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace trimtab::agent {

using ProbeChallenge = std::array<std::byte, 32>;
using ProbeProof = std::array<std::byte, 32>;

// From the system's random source; an error where that gives none.
[[nodiscard]] Result<ProbeChallenge> new_challenge();
[[nodiscard]] ProbeProof proof_of(const std::string& token, const ProbeChallenge& challenge);
// In a time that does not tell where they differ.
[[nodiscard]] bool same(const ProbeProof& one, const ProbeProof& other);

}  // namespace trimtab::agent
