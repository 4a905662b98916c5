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
  switch (attributes.payload_type) {
    case kPayloadUint64:
      return from_uint64(attributes.payload.uint64, payload);
    case kPayloadInt64:
      payload = attributes.payload.int64;
      return true;
    case kPayloadDouble:
      return from_float(attributes.payload.float64, payload);
    case kPayloadUint32:
      payload = attributes.payload.uint32;
      return true;
    case kPayloadInt32:
      payload = attributes.payload.int32;
      return true;
    case kPayloadFloat:
      return from_float(static_cast<double>(attributes.payload.float32), payload);
    default:
      return false;
  }
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
