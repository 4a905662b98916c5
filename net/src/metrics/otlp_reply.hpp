#pragma once

// What became of a post, and what a collector's answer means. The collector is not trusted. Pure.

#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace trimtab::net {

enum class OtlpResult {
  kOk,
  kPartial,      // taken, but for some of it
  kThrottled,    // 429, 502, 503, 504: too much now
  kRefused,      // any other status
  kMalformed,    // no HTTP, or no answer that a collector gives
  kTimeout,      // not there in time
  kUnreachable,  // no connection, TLS included, or it broke
};
inline constexpr OtlpResult kOtlpResults[] = {OtlpResult::kOk,         OtlpResult::kPartial,   OtlpResult::kThrottled,
                                              OtlpResult::kRefused,    OtlpResult::kMalformed, OtlpResult::kTimeout,
                                              OtlpResult::kUnreachable};
[[nodiscard]] const char* to_string(OtlpResult result);

struct OtlpVerdict {
  OtlpResult result = OtlpResult::kOk;
  std::string reason;   // printable; empty where all is well
  Nanoseconds wait{0};  // how long the collector wants to be left alone, at most kLongestOtlpWait
};
inline constexpr Nanoseconds kLongestOtlpWait = std::chrono::minutes(10);

struct OtlpReply {
  int status = 0;
  std::string_view retry_after;  // seconds or a date; empty: none
  std::string_view body;
};
// `now` is the wall clock.
[[nodiscard]] OtlpVerdict judge(const OtlpReply& reply, Nanoseconds now);

}  // namespace trimtab::net
