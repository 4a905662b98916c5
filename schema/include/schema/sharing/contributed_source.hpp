#pragma once

// Costs that one team contributes to another's coordinator. They are stored as an import whose name begins with who
// contributed them, so they are never averaged with what the cluster measured itself, and stand behind it
// (tuner/cost_choice.hpp). The name comes from the coordinator, which has seen a token or a certificate. Pure; any
// thread.

#include <optional>
#include <string>

#include "base/result.hpp"
#include "schema/cost.hpp"

namespace trimtab {

// What the source is stored as when `contributor` contributes it. Refused, each with why, is what is no measurement of
// theirs: estimates, what is taken over, what another contributed, and what does not say how it was measured. A
// benchmark's clock is not kept: an import that names a clock was seen in training.
[[nodiscard]] Result<CostSource> contributed_source(const CostSource& measured, const std::string& contributor);

// Who contributed it; nothing: nobody did.
[[nodiscard]] std::optional<std::string> contributor_of(const CostSource& source);

// Why a key is of no use to other teams, for people; empty: it is.
[[nodiscard]] std::string why_not_contributed(const CostKey& key);

// Of a contributor's name, as tokens have it: 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-'.
[[nodiscard]] Status check_contributor(const std::string& name);

}  // namespace trimtab
