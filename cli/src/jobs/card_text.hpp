#pragma once

// A job's verdict card for a terminal of 80 columns: what to do first. Pure.

#include <string>

#include "schema/api/card.hpp"

namespace trimtab::cli {

// At most some 25 lines, each at most 80 columns wide.
[[nodiscard]] std::string card_text(const api::Card& card);

}  // namespace trimtab::cli
