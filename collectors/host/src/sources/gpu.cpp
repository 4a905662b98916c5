#include <array>
#include <map>
#include <memory>
#include <set>

#include "gpu/gpu_layout.hpp"
#include "sources/sources.hpp"

namespace trimtab::host {

namespace {

using nvml::Device;

constexpr unsigned kReadsBetweenLooks = 12;  // for a library that was not there; and for NVLinks, which change rarely
constexpr std::array<std::pair<int, const char*>, 4> kClocks{{{nvml::kClockSm, "sm"},
                                                              {nvml::kClockMemory, "memory"},
                                                              {nvml::kClockGraphics, "graphics"},
                                                              {nvml::kClockVideo, "video"}}};
constexpr std::array<std::pair<int, const char*>, 4> kNvLinkErrors{{{nvml::kLinkReplay, "replay"},
                                                                    {nvml::kLinkRecovery, "recovery"},
                                                                    {nvml::kLinkCrcFlit, "crc_flit"},
                                                                    {nvml::kLinkCrcData, "crc_data"}}};

// Why a GPU's clock is lower than it could be, in the words of nvidia-smi. Bits of NVML's clocks event reasons.
struct ThrottleReason {
  std::uint64_t bit;
  const char* name;
};

constexpr std::array<ThrottleReason, 9> kThrottleReasons{{{0x001, "gpu_idle"},
                                                          {0x002, "applications_clocks_setting"},
                                                          {0x004, "sw_power_cap"},
                                                          {0x008, "hw_slowdown"},
                                                          {0x010, "sync_boost"},
                                                          {0x020, "sw_thermal_slowdown"},
                                                          {0x040, "hw_thermal_slowdown"},
                                                          {0x080, "hw_power_brake_slowdown"},
                                                          {0x100, "display_clock_setting"}}};

// One GPU in one read: what NVML does not tell is left out.
class GpuReading final {
 public:
  GpuReading(const NvmlLibrary& library, Device device, unsigned index, Samples& samples)
      : library_(library), device_(device), index_(std::to_string(index)), samples_(samples) {}

  void read() {
    add(kDeviceInfo, 1,
        {{"name", text(TRIMTAB_NVML(library_, nvmlDeviceGetName))},
         {"uuid", text(TRIMTAB_NVML(library_, nvmlDeviceGetUUID))}});
    read_clocks();
    read_throttling();
    read_power();
    read_memory();
    read_pcie();
  }

  // Those that were active at some look, whatever they are now.
  void read_nvlinks(const std::set<unsigned>& links) {
    for (const unsigned link : links) {
      const std::string number = std::to_string(link);
      give<int>(kDeviceNvLinkUp, 1, {{"link", number}}, TRIMTAB_NVML(library_, nvmlDeviceGetNvLinkState), link);
      for (const auto& [error, kind] : kNvLinkErrors) {
        give<unsigned long long>(kDeviceNvLinkErrors, 1, {{"link", number}, {"kind", kind}},
                                 TRIMTAB_NVML(library_, nvmlDeviceGetNvLinkErrorCounter), link, error);
      }
    }
  }

  // NVLinks and MIG instances. Links that are active now are added to `active`.
  void read_layout(std::set<unsigned>& active) {
    GpuFacts gpu;
    read_mig(library_, device_, gpu, refusals_);
    if (gpu.mig.value_or(false)) add(kDeviceMigInstances, static_cast<double>(gpu.instances.size()));
    const auto links = host::read_nvlinks(library_, device_, refusals_);
    for (const NvLink& link : links) active.insert(link.number);
    if (!links.empty()) add(kDeviceNvLinks, static_cast<double>(links.size()));
  }

 private:
  void add(const Measure& measure, double value, Labels labels = {}) {
    labels.insert(labels.begin(), {"device", index_});
    samples_.push_back({&measure, std::move(labels), value});
  }

  // What is asked for, times `unit`, where it is told.
  template <typename Value, typename Function, typename... Arguments>
  void give(const Measure& measure, double unit, const Labels& labels, const char* name, Function function,
            Arguments... arguments) {
    const auto value = library_.ask<Value>(name, function, refusals_, device_, arguments...);
    if (value) add(measure, static_cast<double>(*value) * unit, labels);
  }

  template <typename Function>
  std::string text(const char* name, Function function) {
    return library_.ask_text(name, function, refusals_, device_);
  }

  void read_clocks() {
    constexpr double kMegahertz = 1e6;
    for (const auto& [clock, name] : kClocks) {
      give<unsigned>(kDeviceClock, kMegahertz, {{"clock", name}}, TRIMTAB_NVML(library_, nvmlDeviceGetClockInfo),
                     clock);
      give<unsigned>(kDeviceClockMax, kMegahertz, {{"clock", name}}, TRIMTAB_NVML(library_, nvmlDeviceGetMaxClockInfo),
                     clock);
    }
  }

  void read_throttling() {
    using Mask = unsigned long long;
    auto mask = library_.ask<Mask>(TRIMTAB_NVML(library_, nvmlDeviceGetCurrentClocksEventReasons), refusals_, device_);
    if (!mask) {  // its name before driver 535
      mask = library_.ask<Mask>(TRIMTAB_NVML(library_, nvmlDeviceGetCurrentClocksThrottleReasons), refusals_, device_);
    }
    if (!mask) return;
    for (const ThrottleReason& reason : kThrottleReasons) {
      add(kDeviceThrottled, (*mask & reason.bit) != 0 ? 1 : 0, {{"reason", reason.name}});
      *mask &= ~reason.bit;
    }
    add(kDeviceThrottled, *mask != 0 ? 1 : 0, {{"reason", "other"}});
  }

  void read_pcie() {
    constexpr double kKilobyte = 1e3;
    give<unsigned>(kDevicePcieGeneration, 1, {}, TRIMTAB_NVML(library_, nvmlDeviceGetCurrPcieLinkGeneration));
    give<unsigned>(kDevicePcieGenerationMax, 1, {}, TRIMTAB_NVML(library_, nvmlDeviceGetMaxPcieLinkGeneration));
    give<unsigned>(kDevicePcieWidth, 1, {}, TRIMTAB_NVML(library_, nvmlDeviceGetCurrPcieLinkWidth));
    give<unsigned>(kDevicePcieWidthMax, 1, {}, TRIMTAB_NVML(library_, nvmlDeviceGetMaxPcieLinkWidth));
    give<unsigned>(kDevicePcieReplays, 1, {}, TRIMTAB_NVML(library_, nvmlDeviceGetPcieReplayCounter));
    give<unsigned>(kDevicePcieTraffic, kKilobyte, {{"direction", "transmit"}},
                   TRIMTAB_NVML(library_, nvmlDeviceGetPcieThroughput), int{nvml::kPcieSent});
    give<unsigned>(kDevicePcieTraffic, kKilobyte, {{"direction", "receive"}},
                   TRIMTAB_NVML(library_, nvmlDeviceGetPcieThroughput), int{nvml::kPcieReceived});
  }

  void read_power() {
    constexpr double kMilli = 1e-3;
    give<unsigned>(kDevicePower, kMilli, {}, TRIMTAB_NVML(library_, nvmlDeviceGetPowerUsage));
    give<unsigned>(kDevicePowerLimit, kMilli, {}, TRIMTAB_NVML(library_, nvmlDeviceGetEnforcedPowerLimit));
    give<unsigned long long>(kDeviceEnergy, kMilli, {}, TRIMTAB_NVML(library_, nvmlDeviceGetTotalEnergyConsumption));
    give<unsigned>(kDeviceTemperature, 1, {}, TRIMTAB_NVML(library_, nvmlDeviceGetTemperature), nvml::kTemperatureGpu);
  }

  void read_memory() {
    const auto memory = library_.ask<nvml::Memory>(TRIMTAB_NVML(library_, nvmlDeviceGetMemoryInfo), refusals_, device_);
    if (memory) {
      add(kDeviceMemoryTotal, static_cast<double>(memory->total));
      add(kDeviceMemoryUsed, static_cast<double>(memory->used));
    }
    const auto busy =
        library_.ask<nvml::Utilization>(TRIMTAB_NVML(library_, nvmlDeviceGetUtilizationRates), refusals_, device_);
    if (busy) {
      add(kDeviceBusy, busy->gpu / 100.0, {{"unit", "sm"}});
      add(kDeviceBusy, busy->memory / 100.0, {{"unit", "memory"}});
    }
    const auto errors = [&](nvml::EccError kind, const char* name) {
      give<unsigned long long>(kDeviceEcc, 1, {{"kind", name}}, TRIMTAB_NVML(library_, nvmlDeviceGetTotalEccErrors),
                               int{kind}, nvml::kEccVolatile);
    };
    errors(nvml::kEccCorrected, "corrected");
    errors(nvml::kEccUncorrected, "uncorrected");
  }

  const NvmlLibrary& library_;
  const Device device_;
  const std::string index_;
  Samples& samples_;
  NvmlRefusals refusals_;
};

class GpuSource final : public Source {
 public:
  explicit GpuSource(std::string nvml) : nvml_(std::move(nvml)) {}
  [[nodiscard]] std::string_view name() const override { return "gpu"; }

  [[nodiscard]] Result<Samples> read() override {
    const unsigned turn = turn_++ % kReadsBetweenLooks;
    if (library_ == nullptr) {
      if (none_ && turn != 0) return Samples{};
      auto opened = NvmlLibrary::open(nvml_);
      none_ = !opened.ok() && opened.error().kind == ErrorKind::kNo;  // a CPU node: nothing to read, nothing wrong
      if (none_) return Samples{};
      if (!opened.ok()) return opened.error();
      library_ = std::move(opened).value();
    }
    return read_devices(turn == 0);
  }

 private:
  Result<Samples> read_devices(bool with_layout) {
    unsigned count = 0;
    const int code = library_->call.nvmlDeviceGetCount_v2(&count);
    if (code != nvml::kSuccess) {
      library_.reset();  // the driver may come back: the next read begins anew
      return unavailable("NVML does not count its GPUs: NVML code " + std::to_string(code));
    }
    Samples samples;
    if (with_layout) layout_.clear();
    for (unsigned index = 0; index < count; ++index) read_device(index, with_layout, samples);
    samples.insert(samples.end(), layout_.begin(), layout_.end());
    return samples;
  }

  void read_device(unsigned index, bool with_layout, Samples& samples) {
    Device device = nullptr;
    const bool answers = library_->call.nvmlDeviceGetHandleByIndex_v2(index, &device) == nvml::kSuccess;
    samples.push_back({&kDeviceUp, {{"device", std::to_string(index)}}, answers ? 1.0 : 0.0});
    if (!answers) return;
    if (with_layout) GpuReading(*library_, device, index, layout_).read_layout(nvlinks_[index]);
    GpuReading reading(*library_, device, index, samples);
    reading.read();
    reading.read_nvlinks(nvlinks_[index]);
  }

  const std::string nvml_;
  std::shared_ptr<NvmlLibrary> library_;  // stays open: opening wakes a GPU that nobody uses
  bool none_ = false;
  unsigned turn_ = 0;
  Samples layout_;                                  // as last looked at
  std::map<unsigned, std::set<unsigned>> nvlinks_;  // by device, those that were active at some look
};

}  // namespace

std::unique_ptr<Source> gpu_source(const std::string& nvml) {
  return std::make_unique<GpuSource>(nvml);
}

}  // namespace trimtab::host
