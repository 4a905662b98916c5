#pragma once

// PyTorch Profiler's traces (Kineto).

#include <string>

#include "base/result.hpp"
#include "published/traces/byte_source.hpp"
#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

// `path` is for messages.
[[nodiscard]] Result<TracedRank> read_kineto(ByteSource& source, const std::string& path);

}  // namespace trimtab::published
