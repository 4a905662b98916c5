#include "strategies/strategy_table.hpp"

#include <array>

namespace trimtab::tuner {
namespace {

constexpr std::array<Strategy, 8> kStrategies{{{"aceso", run_aceso},
                                               {"autopipe", run_autopipe},
                                               {"galvatron", run_galvatron},
                                               {"h3t", run_h3t},
                                               {"oases", run_oases},
                                               {"target", run_target},
                                               {"unified", run_unified},
                                               {"exhaustive", run_exhaustive}}};

}  // namespace

std::span<const Strategy> strategy_table() {
  return kStrategies;
}

}  // namespace trimtab::tuner
