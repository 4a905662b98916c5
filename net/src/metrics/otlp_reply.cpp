#include "metrics/otlp_reply.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <iomanip>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>

namespace trimtab::net {

namespace {

using Json = nlohmann::json;

constexpr int kMostLevels = 4;
constexpr std::size_t kMostWords = 200;

// Nothing where it is no JSON; what is nested deeper than an answer is left out.
Json read_json(std::string_view text) {
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) { return depth <= kMostLevels; };
  return Json::parse(text, shallow, /*allow_exceptions=*/false);
}

std::string words(std::string_view text) {
  std::string kept(text.substr(0, kMostWords));
  std::ranges::replace_if(
      kept, [](char one) { return one < ' ' || one > '~'; }, '?');
  return kept;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// An int64, which JSON gives as a text or as a number.
std::int64_t integer_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  std::int64_t value = 0;
  const std::string text = text_of(object, key);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Seconds since the Unix epoch of "Sun, 06 Nov 1994 08:49:37 GMT"; 0 where it is no date.
std::int64_t date_of(std::string_view text) {
  std::tm fields{};
  std::istringstream in{std::string(text)};
  in.imbue(std::locale::classic());
  in >> std::get_time(&fields, "%a, %d %b %Y %H:%M:%S GMT");
  return in ? ::timegm(&fields) : 0;
}

Nanoseconds wait_of(std::string_view text, Nanoseconds now) {
  using std::chrono::seconds;
  constexpr std::int64_t kMost = std::chrono::duration_cast<seconds>(kLongestOtlpWait).count();
  std::int64_t wanted = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  const bool number = !text.empty() && end == text.data() + text.size();
  if (number && failure == std::errc::result_out_of_range) return kLongestOtlpWait;
  if (!number) wanted = date_of(text) - std::chrono::duration_cast<seconds>(now).count();
  return seconds(std::clamp<std::int64_t>(wanted, 0, kMost));
}

OtlpVerdict judge_success(std::string_view body) {
  if (body.empty()) return {};
  const Json answer = read_json(body);
  if (!answer.is_object()) {
    return {OtlpResult::kMalformed, "it answers with what is no ExportMetricsServiceResponse: is it a collector?"};
  }
  const auto partial = answer.find("partialSuccess");
  if (partial == answer.end() || !partial->is_object()) return {};
  const std::int64_t rejected = integer_of(*partial, "rejectedDataPoints");
  if (rejected <= 0) return {};
  const std::string said = words(text_of(*partial, "errorMessage"));
  return {OtlpResult::kPartial,
          "it rejects " + std::to_string(rejected) + " values" + (said.empty() ? "" : ": " + said)};
}

}  // namespace

const char* to_string(OtlpResult result) {
  constexpr const char* kNames[] = {"ok", "partial", "throttled", "refused", "malformed", "timeout", "unreachable"};
  return kNames[static_cast<std::size_t>(result)];
}

OtlpVerdict judge(const OtlpReply& reply, Nanoseconds now) {
  if (reply.status >= 200 && reply.status < 300) return judge_success(reply.body);
  const Json status = read_json(reply.body);
  const std::string said = status.is_object() ? text_of(status, "message") : std::string(reply.body);
  const std::string reason =
      "it answers with status " + std::to_string(reply.status) + (said.empty() ? "" : ": " + words(said));
  constexpr int kForLater[] = {429, 502, 503, 504};
  const bool later = std::ranges::find(kForLater, reply.status) != std::end(kForLater);
  if (!later) return {OtlpResult::kRefused, reason};
  return {OtlpResult::kThrottled, reason, wait_of(reply.retry_after, now)};
}

}  // namespace trimtab::net
