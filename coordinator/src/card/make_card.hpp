#pragma once

// A job's card out of what is known of it. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "card/evidence.hpp"
#include "schema/api/card.hpp"

namespace trimtab::coordinator {

struct JobEvidence {
  const std::string& job;
  std::int32_t world_size;
  const std::map<std::int32_t, RankEvidence>& ranks;
  const std::vector<CardLink>& links;
  const std::optional<MicrobatchProbe>& probe;
};

[[nodiscard]] api::Card make_card(const JobEvidence& job);

}  // namespace trimtab::coordinator
