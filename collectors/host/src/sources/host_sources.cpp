#include "sources/sources.hpp"

namespace trimtab::host {

namespace {

class ReadingSource final : public Source {
 public:
  ReadingSource(std::string_view name, std::function<Result<Samples>()> read) : name_(name), read_(std::move(read)) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Result<Samples> read() override { return read_(); }

 private:
  const std::string_view name_;
  const std::function<Result<Samples>()> read_;
};

}  // namespace

std::unique_ptr<Source> make_source(std::string_view name, std::function<Result<Samples>()> read) {
  return std::make_unique<ReadingSource>(name, std::move(read));
}

std::vector<std::unique_ptr<Source>> host_sources(const std::string& root, const std::string& nvml) {
  std::vector<std::unique_ptr<Source>> sources;
  const auto add = [&](std::string_view name, Result<Samples> (*read)(const std::string&)) {
    sources.push_back(make_source(name, [root, read] { return read(root); }));
  };
  add("cpu", read_cpu);
  add("cpu_clock", read_cpu_clock);
  add("memory", read_memory);
  add("pressure", read_pressure);
  add("cgroup", read_cgroup);
  add("network", read_network);
  add("infiniband", read_infiniband);
  add("pci", read_pci);
  sources.push_back(gpu_source(nvml));
  return sources;
}

}  // namespace trimtab::host
