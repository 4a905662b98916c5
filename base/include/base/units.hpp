#pragma once

// Quantities as people write and read them: "700MiB", "2s". Pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab {

using Bytes = std::int64_t;

// "1024", "700MiB", "1.5GiB", "2GB". KiB/MiB/GiB/TiB are powers of 1024, kB/MB/GB/TB powers of 1000.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
// "700.0 MiB": the largest binary unit that gives at least 1.
[[nodiscard]] std::string format_bytes(Bytes bytes);

// "250ms", "2s", "1.5min", "1h", "90d", "10us".
[[nodiscard]] Result<Nanoseconds> parse_duration(std::string_view text);
// "1.23 s", "12.3 ms", "4.5 us".
[[nodiscard]] std::string format_duration(Nanoseconds duration);

}  // namespace trimtab
