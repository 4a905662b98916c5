#pragma once

// A small folder as Aceso's profiler writes it, of GPT-1.3B: 1 and 2 samples, 1 and 2 ranks, both ways to split.

#include <string>

#include "raw_folder.hpp"

namespace trimtab::test {

class AcesoFolder : public RawFolder {
 public:
  explicit AcesoFolder(const std::string& name = "profiled-time-mine");

  // A table of the 16 operators of GPT. Operator i takes `base_us` + i forward and twice that backward.
  void write_gpt(const std::string& size, int samples, int tp, int algo, double base_us) const;
  // With the links that the authors' testbed "eurosys" published.
  void be_eurosys() const;
};

}  // namespace trimtab::test
