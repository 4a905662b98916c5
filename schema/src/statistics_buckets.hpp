#pragma once

// The histogram's bucket of a value; see schema/statistics.hpp. Shared by the statistics and their text form.

#include <cstdint>

namespace trimtab {

// REQUIRES: value >= 0.
[[nodiscard]] std::int32_t statistics_bucket(std::int64_t value);

}  // namespace trimtab
