#include "machine_text.hpp"
#include "sources/measures.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

// A kernel without pressure accounting has no such files, or refuses to open them.
class PressureSource final : public Source {
 public:
  explicit PressureSource(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string_view name() const override { return "pressure"; }

  [[nodiscard]] Result<Samples> read() override {
    Samples samples;
    for (const char* resource : {"cpu", "memory", "io"}) {
      const auto text = read_system_file(root_, std::string("proc/pressure/") + resource);
      if (!text.ok()) continue;
      TRIMTAB_TRY(const Pressure pressure, parse_pressure(*text));
      add(resource, "some", pressure.some, samples);
      if (pressure.full) add(resource, "full", *pressure.full, samples);
    }
    return samples;
  }

 private:
  static void add(const char* resource, const char* share, Nanoseconds time, Samples& samples) {
    samples.push_back(
        {&kPressure, {{"resource", resource}, {"share", share}}, std::chrono::duration<double>(time).count()});
  }

  const std::string root_;
};

}  // namespace

std::unique_ptr<Source> pressure_source(const std::string& root) {
  return std::make_unique<PressureSource>(root);
}

}  // namespace trimtab::host
