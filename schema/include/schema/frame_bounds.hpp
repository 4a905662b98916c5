#pragma once

// How much of a frame of wire/agent.proto is there to be parsed: an empty submessage is two bytes on the wire, and a
// hundred in memory. One pass over the bytes, before they are parsed; nothing is allocated. Pure, for any thread.

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace trimtab {

// Of each field in a whole frame, however its entries are spread over submessages. Older releases stay far below: a
// batch of costs has up to 2048 entries, a chunk of a trace 8192 records, a message of stamps 64 of them.
inline constexpr std::uint32_t kMostLaunches = 4096;     // Hello.launches and Hello.running
inline constexpr std::uint32_t kMostEntries = 65'536;    // other submessages and texts
inline constexpr std::uint32_t kMostUnknown = 1U << 18;  // fields of later releases: some for each record of a trace
inline constexpr std::uint32_t kMostNumbers = 1U << 20;  // repeated numbers
inline constexpr std::uint32_t kMostOfOne = 16;          // of a submessage that is there once: a repeated one is merged

// A refusal names the field, how many there may be and the frame's size; bytes that are no message are refused, too.
// What passes may still fail to be parsed: texts are not looked at.
[[nodiscard]] Status check_from_agent(std::string_view frame);
[[nodiscard]] Status check_to_agent(std::string_view frame);

}  // namespace trimtab
