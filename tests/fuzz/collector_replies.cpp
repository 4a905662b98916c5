// What a collector answers to a post of metrics. An input is a status (two bytes), the length of Retry-After (one
// byte), that header and the body.

#include "base/check.hpp"
#include "metrics/otlp_reply.hpp"
#include "target.hpp"

using namespace trimtab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr Nanoseconds kNow = std::chrono::seconds(1'700'000'000);
  fuzz::Script script(data, size);
  const int status = static_cast<int>(script.number(2));
  const std::string_view retry_after = script.bytes(script.byte());
  const net::OtlpVerdict verdict = net::judge({status, retry_after, script.rest()}, kNow);
  TRIMTAB_ASSERT(verdict.wait >= Nanoseconds(0) && verdict.wait <= net::kLongestOtlpWait, "no wait is for ever");
  TRIMTAB_ASSERT((verdict.result == net::OtlpResult::kOk) == verdict.reason.empty(), "what is not well has a reason");
  if (verdict.result == net::OtlpResult::kOk || verdict.result == net::OtlpResult::kPartial) {
    fuzz::understood();
  } else {
    fuzz::check_refusal(unavailable(verdict.reason));
  }
  return 0;
}
