#pragma once

// Something that can be read again and again: a part of /proc, the network cards, the GPUs. A source that fails harms
// no other; where a machine does not have its subject it reads nothing, which is no failure.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace trimtab::host {

// One number that a source read, in a base unit (seconds, bytes, hertz, watts, degrees Celsius, a ratio of 1), named as
// Prometheus names it. Plain values. All names stand in docs/metrics.md.

// In static storage.
struct Measure {
  const char* name;
  const char* help;
  bool is_counter = false;
};

using Labels = std::vector<std::pair<const char*, std::string>>;
struct Sample {
  const Measure* measure = nullptr;
  Labels labels;  // of bounded sets of values
  double value = 0;
};
using Samples = std::vector<Sample>;

class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  // a short word, for labels and messages
  // One thread at a time, always the same; may block. The error says what could not be read and why.
  [[nodiscard]] virtual Result<Samples> read() = 0;
};

// A source that `read` reads; `name` is a literal.
[[nodiscard]] std::unique_ptr<Source> make_source(std::string_view name, std::function<Result<Samples>()> read);

// All sources of a node. `root` is "/" in production, a fixture tree in tests; `nvml` the library's name or path.
[[nodiscard]] std::vector<std::unique_ptr<Source>> host_sources(const std::string& root, const std::string& nvml);

}  // namespace trimtab::host
