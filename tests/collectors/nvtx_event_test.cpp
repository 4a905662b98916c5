#include "nvtx_event.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

using namespace trimtab::inject;
using namespace trimtab::inject::nvtx;

namespace {

EventAttributes ascii(const char* text) {
  EventAttributes attributes{};
  attributes.version = 3;
  attributes.size = sizeof(attributes);
  attributes.message_type = kMessageAscii;
  attributes.message.ascii = text;
  return attributes;
}

EventAttributes real(double value) {
  EventAttributes attributes = ascii("x");
  attributes.payload_type = kPayloadDouble;
  attributes.payload.float64 = value;
  return attributes;
}

}  // namespace

TEST_CASE("every integer payload becomes an int64") {
  EventAttributes attributes = ascii("x");
  std::int64_t payload = 0;
  attributes.payload_type = kPayloadInt32;
  attributes.payload.int32 = -7;
  CHECK(decode_payload(attributes, payload));
  CHECK(payload == -7);
  attributes.payload_type = kPayloadUint32;
  attributes.payload.uint32 = 4000000000U;
  CHECK(decode_payload(attributes, payload));
  CHECK(payload == 4000000000);
  attributes.payload_type = kPayloadInt64;
  attributes.payload.int64 = INT64_MIN;
  CHECK(decode_payload(attributes, payload));
  CHECK(payload == INT64_MIN);
  attributes.payload_type = kPayloadUint64;
  attributes.payload.uint64 = 1U << 31;
  CHECK(decode_payload(attributes, payload));
  CHECK(payload == std::int64_t{1} << 31);
}

TEST_CASE("a payload that an int64 cannot hold is no payload") {
  std::int64_t payload = 0;
  CHECK(decode_payload(real(2.75), payload));
  CHECK(payload == 2);
  for (const double wrong : {std::nan(""), HUGE_VAL, -HUGE_VAL, 9223372036854775808.0, -1e300}) {
    CHECK_FALSE(decode_payload(real(wrong), payload));
  }
  EventAttributes large = ascii("x");
  large.payload_type = kPayloadUint64;
  large.payload.uint64 = std::numeric_limits<std::uint64_t>::max();
  CHECK_FALSE(decode_payload(large, payload));
  large.payload_type = static_cast<std::int32_t>(0xDFBD0009);  // the extended payload: a pointer, not a number
  CHECK_FALSE(decode_payload(large, payload));
}

TEST_CASE("an attribute structure that is null or too small gives an event without text") {
  CHECK(DecodedEvent(nullptr).event().text == nullptr);
  EventAttributes small = ascii("x");
  small.size = 40;
  CHECK(DecodedEvent(&small).event().text == nullptr);
}

TEST_CASE("wide text becomes UTF-8, with '?' for what is no character") {
  CHECK(std::string(WideText(L"step").text()) == "step");
  CHECK(std::string(WideText(L"\u00e9\u20ac\U0001F600").text()) == "\u00e9\u20ac\U0001F600");
  const wchar_t wrong[] = {L'a', static_cast<wchar_t>(0xd800), static_cast<wchar_t>(0x110000), L'b', 0};
  CHECK(std::string(WideText(wrong).text()) == "a??b");
  CHECK(WideText(nullptr).length() == 0);
}

TEST_CASE("long wide text stops within its buffer") {
  const std::wstring text(10000, static_cast<wchar_t>(0x1F600));
  const WideText wide(text.c_str());
  CHECK(wide.length() > trimtab::record::kNameBytes);
  CHECK(wide.length() <= trimtab::record::kNameBytes + 4);
}

TEST_CASE("a registered string is passed on as its handle") {
  EventAttributes attributes = ascii(nullptr);
  attributes.message_type = kMessageRegistered;
  attributes.message.registered = to_pointer(17);
  CHECK(DecodedEvent(&attributes).event().registered == 17);
  attributes.message.registered = reinterpret_cast<void*>(~std::uintptr_t{0});
  CHECK(DecodedEvent(&attributes).event().registered == 0);
}
