#pragma once

// The caches that Aceso's profiler leaves beside its tables (*.pkl). The tables have three decimals of a MiB for an
// operator's sizes and whole MiB for a collective's; the caches have what was measured.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab::published {

// Of the values that a cache has of an operator: forward and backward us, then these in MiB.
inline constexpr std::size_t kCachedValues = 8;

class AcesoCache {
 public:
  // Every NAME that ends in ".pkl". The error names the file and what is not plain data in it.
  [[nodiscard]] static Result<AcesoCache> read(const std::string& directory, const std::vector<std::string>& names);

  // An operator's sizes, where the cache has it: "gpt_1_3Benc-MLP-gelumbs1tp_size1algo0".
  [[nodiscard]] const std::vector<double>* operator_values(const std::string& key) const;
  // The first size that rounds to `mib` whose time the table's three decimals write as `ms`; -1 where the cache has
  // none. `kind`: "all_gather_2gpus", `type`: "torch.float16".
  [[nodiscard]] Bytes collective_bytes(const std::string& kind, const std::string& type, std::int64_t mib,
                                       double ms) const;

 private:
  struct Collective {
    double mib = 0;
    double ms = 0;
  };
  [[nodiscard]] Status read_file(const std::string& directory, const std::string& name);

  std::map<std::string, std::vector<double>> operators_;
  std::map<std::string, std::vector<Collective>> collectives_;  // "all_gather_2gpus torch.float16", as in the file
};

}  // namespace trimtab::published
