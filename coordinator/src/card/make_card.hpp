#pragma once

// A job's card out of what is known of it. Pure.

#include "card/evidence.hpp"
#include "schema/api/card.hpp"

namespace trimtab::coordinator {

[[nodiscard]] api::Card make_card(const JobEvidence& job);

}  // namespace trimtab::coordinator
