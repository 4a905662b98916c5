#include <array>

#include "proc_text.hpp"
#include "sources/measures.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

constexpr std::array<std::pair<const char*, const Measure*>, 6> kLines{{{"MemTotal", &kMemoryTotal},
                                                                        {"MemAvailable", &kMemoryAvailable},
                                                                        {"Cached", &kMemoryCached},
                                                                        {"Shmem", &kMemoryShared},
                                                                        {"SwapTotal", &kSwapTotal},
                                                                        {"SwapFree", &kSwapFree}}};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string_view name() const override { return "memory"; }

  [[nodiscard]] Result<Samples> read() override {
    TRIMTAB_TRY(const std::string text, read_system_file(root_, "proc/meminfo"));
    Samples samples;
    for (const auto& [line, measure] : kLines) {
      const auto bytes = parse_kilobytes_line(text, line);
      if (bytes) samples.push_back({measure, {}, static_cast<double>(*bytes)});
    }
    if (samples.empty()) return bad_input("/proc/meminfo has lines 'MemTotal: N kB', but this one has none of them");
    return samples;
  }

 private:
  const std::string root_;
};

}  // namespace

std::unique_ptr<Source> memory_source(const std::string& root) {
  return std::make_unique<MemorySource>(root);
}

}  // namespace trimtab::host
