#pragma once

// Something that can be read again and again: a part of /proc, the network cards, the GPUs. A source that fails harms
// no other; where a machine does not have its subject it reads nothing, which is no failure.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "host/sample.hpp"

namespace trimtab::host {

class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  // a short word, for labels and messages
  // One thread at a time, always the same; may block. The error says what could not be read and why.
  [[nodiscard]] virtual Result<Samples> read() = 0;
};

// All sources of a node. `root` is "/" in production, a fixture tree in tests; `nvml` the library's name or path.
[[nodiscard]] std::vector<std::unique_ptr<Source>> host_sources(const std::string& root, const std::string& nvml);

}  // namespace trimtab::host
