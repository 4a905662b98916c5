#include <unistd.h>

#include "machine_text.hpp"
#include "sources/measures.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

class CpuSource final : public Source {
 public:
  explicit CpuSource(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string_view name() const override { return "cpu"; }

  [[nodiscard]] Result<Samples> read() override {
    TRIMTAB_TRY(const std::string text, read_system_file(root_, "proc/stat"));
    TRIMTAB_TRY(const MachineTicks ticks, parse_machine_stat(text));
    const long per_second = ::sysconf(_SC_CLK_TCK);
    const double second = per_second > 0 ? static_cast<double>(per_second) : 100.0;
    Samples samples;
    for (const auto& [mode, count] : ticks.modes) {
      samples.push_back({&kCpuSeconds, {{"mode", mode}}, static_cast<double>(count) / second});
    }
    samples.push_back({&kContextSwitches, {}, static_cast<double>(ticks.context_switches)});
    samples.push_back({&kProcessesRunning, {}, static_cast<double>(ticks.running)});
    samples.push_back({&kProcessesBlocked, {}, static_cast<double>(ticks.blocked)});
    return samples;
  }

 private:
  const std::string root_;
};

}  // namespace

std::unique_ptr<Source> cpu_source(const std::string& root) {
  return std::make_unique<CpuSource>(root);
}

}  // namespace trimtab::host
