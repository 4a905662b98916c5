#pragma once

// Pictures of one training step, predicted and measured: what report.json has of them. Times are in ms.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/api/fields.hpp"
#include "schema/timeline.hpp"

namespace trimtab::api {

struct TimelineBar {
  static constexpr const char* kName = "timeline_bar";
  std::int64_t stage = -1;
  Word<TimelineKind> kind;
  std::int64_t microbatch = -1;
  double begin_ms = 0;
  double end_ms = 0;

  static constexpr void fields(auto&& visit) {
    visit("stage", &TimelineBar::stage, Presence::kAlways, "", Sign::kAny);
    visit("kind", &TimelineBar::kind, Presence::kAlways, "");
    visit("microbatch", &TimelineBar::microbatch, Presence::kUsual, "-1: of all.", Sign::kAny);
    visit("begin_ms", &TimelineBar::begin_ms, Presence::kUsual, "", Sign::kAny);
    visit("end_ms", &TimelineBar::end_ms, Presence::kUsual, "", Sign::kAny);
  }
};

using Timeline = std::vector<TimelineBar>;

// Pictures of one step. Those that nobody has made are missing.
struct Timelines {
  std::string adopted_hash;
  std::optional<Timeline> initial;
  std::optional<Timeline> initial_measured;
  std::optional<Timeline> adopted;
  std::optional<Timeline> adopted_measured;

  static constexpr void fields(auto&& visit) {
    visit("adopted_hash", &Timelines::adopted_hash, Presence::kIfAny, "Of the plan that `adopted` is of.");
    visit("initial", &Timelines::initial, Presence::kIfAny, "As predicted.");
    visit("initial_measured", &Timelines::initial_measured, Presence::kIfAny, "Empty: not recorded.");
    visit("adopted", &Timelines::adopted, Presence::kIfAny, "As predicted.");
    visit("adopted_measured", &Timelines::adopted_measured, Presence::kIfAny, "Empty: not recorded.");
  }
};

}  // namespace trimtab::api
