#pragma once

// Ports of this machine.

#include <cstdint>

namespace trimtab::cli {

// Nobody listens on it here, at this moment.
[[nodiscard]] bool port_free(std::uint16_t port);

// The first free one from `first` on; `first` where a hundred are taken.
[[nodiscard]] std::uint16_t free_port_from(std::uint16_t first);

}  // namespace trimtab::cli
