#pragma once

// How often a plan may crash before it is given up (CrashSettings in schema/job.hpp). Pure.
//
// A crash counts for as long as it is recent in time or in steps. Time alone would let a plan of long steps crash every
// few of them for ever; steps alone, one of short steps that crashes every few minutes.

#include <cstdint>
#include <string>
#include <vector>

#include "schema/job.hpp"

namespace trimtab::coordinator {

struct Crash {
  std::int64_t wall_ns = 0;
  std::int64_t step = 0;  // that the job had come to
  std::uint64_t launch = 0;
  std::string plan_hash;
  std::string why;
};

// Whose the launches are in which no rank so much as connected.
inline constexpr const char* kNoPlan = "";

// Forgets those that count no more. A clock that was set back makes no crash older.
void forget_old(std::vector<Crash>& crashes, const CrashSettings& settings, std::int64_t wall_ns, std::int64_t step);

[[nodiscard]] std::int32_t crashes_of(const std::vector<Crash>& crashes, const std::string& plan_hash);

// "4 times, with 3 times within 3600 s or 200 steps allowed (crashes.limit)"
[[nodiscard]] std::string too_often(std::int32_t count, const CrashSettings& settings);

}  // namespace trimtab::coordinator
