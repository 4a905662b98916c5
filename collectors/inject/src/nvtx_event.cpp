#include "nvtx_event.hpp"

namespace trimtab::inject::nvtx {

namespace {

bool from_float(double value, std::int64_t& payload) {
  constexpr double kLimit = 9223372036854775808.0;          // 2^63
  if (!(value >= -kLimit && value < kLimit)) return false;  // also for NaN
  payload = static_cast<std::int64_t>(value);
  return true;
}

bool from_uint64(std::uint64_t value, std::int64_t& payload) {
  payload = static_cast<std::int64_t>(value);
  return payload >= 0;
}

const wchar_t* wide_message(const EventAttributes* attributes) {
  const bool wide = attributes != nullptr && attributes->size >= sizeof(EventAttributes) &&
                    attributes->message_type == kMessageUnicode;
  return wide ? attributes->message.unicode : nullptr;
}

}  // namespace

bool decode_payload(const EventAttributes& attributes, std::int64_t& payload) {
  const auto type = attributes.payload_type;
  const auto& value = attributes.payload;
  if (type == kPayloadUint64) return from_uint64(value.uint64, payload);
  if (type == kPayloadDouble) return from_float(value.float64, payload);
  if (type == kPayloadFloat) return from_float(static_cast<double>(value.float32), payload);
  if (type == kPayloadInt64) payload = value.int64;
  if (type == kPayloadUint32) payload = value.uint32;
  if (type == kPayloadInt32) payload = value.int32;
  return type == kPayloadInt64 || type == kPayloadUint32 || type == kPayloadInt32;
}

DecodedEvent::DecodedEvent(const EventAttributes* attributes) : wide_(wide_message(attributes)) {
  if (attributes == nullptr || attributes->size < sizeof(EventAttributes)) return;
  event_.has_payload = decode_payload(*attributes, event_.payload);
  if (!event_.has_payload) event_.payload = 0;
  switch (attributes->message_type) {
    case kMessageAscii:
      event_.text = attributes->message.ascii;
      break;
    case kMessageUnicode:
      event_.text = wide_.text();
      event_.volatile_text = true;
      break;
    case kMessageRegistered:
      event_.registered = to_handle(attributes->message.registered);
      break;
    default:
      break;
  }
}

}  // namespace trimtab::inject::nvtx
