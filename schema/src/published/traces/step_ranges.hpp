#pragma once

// Which ranges that a job annotated (NVTX) are its training steps. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

class StepRanges {
 public:
  // A range of any name. False: it is none of a step.
  bool add(std::string_view name, std::int64_t begin_ns, std::int64_t end_ns);
  // Of those that were named alike, the ones with most ranges, the longer ones where two have as many: numbers as
  // their names say, else counted. Empty where there are none.
  [[nodiscard]] std::vector<TracedStep> steps() const;

 private:
  struct Range {
    std::optional<std::int64_t> number;
    std::int64_t begin_ns;
    std::int64_t end_ns;
  };
  std::map<std::string, std::vector<Range>, std::less<>> by_name_;  // without the number
};

}  // namespace trimtab::published
