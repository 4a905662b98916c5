#pragma once

// What a daemon on this machine says of itself.

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab::load {

// The value of a metric without labels at a daemon's /metrics, without TLS. Nothing where it is not told. Blocks.
[[nodiscard]] std::optional<double> ask_metric(std::uint16_t port, const std::string& name);

}  // namespace trimtab::load
