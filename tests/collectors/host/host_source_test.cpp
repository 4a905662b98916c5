#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "host/gpu_inventory.hpp"
#include "host/source.hpp"
#include "nvml_script.hpp"
#include "proc_text.hpp"
#include "sources/sources.hpp"

using namespace trimtab;
using namespace trimtab::host;
using trimtab::test::NvmlScript;
using namespace std::chrono_literals;

namespace {

const std::string kNode = std::string(FIXTURES) + "/gpu_node";

Samples samples_of(Result<Samples> result) {
  if (!result) FAIL(result.error().message);
  return std::move(result).value();
}

Samples samples_of(const std::unique_ptr<Source>& source) {
  return samples_of(source->read());
}

// "name{a=b}" to value; a name and its labels occur once.
std::map<std::string, double> flat(const Samples& samples) {
  std::map<std::string, double> values;
  for (const Sample& sample : samples) {
    std::string name = sample.measure->name;
    for (const auto& [label, value] : sample.labels) name += std::string(" ") + label + "=" + value;
    INFO(name);
    CHECK(values.emplace(name, sample.value).second);
  }
  return values;
}

std::optional<double> value(const std::map<std::string, double>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

TEST_CASE("the CPUs' time is read by mode") {
  const auto values = flat(samples_of(read_cpu(kNode)));
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  CHECK(value(values, "trimtab_host_cpu_seconds_total mode=user") == Approx(1000 * tick));
  CHECK(value(values, "trimtab_host_cpu_seconds_total mode=steal") == Approx(8 * tick));
  CHECK(value(values, "trimtab_host_context_switches_total") == 987654);
  CHECK(value(values, "trimtab_host_processes_blocked") == 1);
}

TEST_CASE("memory, pressure and the control group are read") {
  const auto memory = flat(samples_of(read_memory(kNode)));
  CHECK(value(memory, "trimtab_host_memory_total_bytes").value_or(0) > 1e9);
  const auto pressure = flat(samples_of(read_pressure(kNode)));
  CHECK(value(pressure, "trimtab_host_pressure_seconds_total resource=memory share=some") == Approx(2.5));
  CHECK(value(pressure, "trimtab_host_pressure_seconds_total resource=io share=full") == Approx(1));
  CHECK_FALSE(value(pressure, "trimtab_host_pressure_seconds_total resource=cpu share=full").has_value());
  const auto group = flat(samples_of(read_cgroup(kNode)));
  CHECK(value(group, "trimtab_host_cgroup_memory_bytes") == 536870912);
  CHECK(value(group, "trimtab_host_cgroup_memory_limit_bytes") == 2147483648);
  CHECK(value(group, "trimtab_host_cgroup_limit_cpus") == Approx(3.5));
  CHECK(value(group, "trimtab_host_cgroup_cpu_seconds_total") == Approx(1.5));
  CHECK(value(group, "trimtab_host_cgroup_throttled_seconds_total") == Approx(0.25));
}

TEST_CASE("clocks are summed up, and a core's throttling counts once for all its threads") {
  const auto values = flat(samples_of(read_cpu_clock(kNode)));
  CHECK(value(values, "trimtab_host_cpu_clock_hertz statistic=min") == 2.0e9);
  CHECK(value(values, "trimtab_host_cpu_clock_hertz statistic=mean") == Approx(2.15e9));
  CHECK(value(values, "trimtab_host_cpu_clock_hertz statistic=max") == 2.3e9);
  CHECK(value(values, "trimtab_host_cpu_thermal_throttles_total scope=core") == 11);
  CHECK(value(values, "trimtab_host_cpu_thermal_throttles_total scope=package") == 9);
}

TEST_CASE("network interfaces with hardware, and those of a container, are read; the ends of others' containers not") {
  const auto values = flat(samples_of(read_network(kNode)));
  CHECK(value(values, "trimtab_network_bytes_total interface=eth0 direction=receive") == 1000);
  CHECK(value(values, "trimtab_network_drops_total interface=eth0 direction=transmit") == 8000);
  CHECK(value(values, "trimtab_network_speed_bytes_per_second interface=eth0") == 1.25e10);
  CHECK(value(values, "trimtab_network_up interface=eth0") == 1);
  CHECK(value(values, "trimtab_network_up interface=eth1") == 0);
  CHECK_FALSE(value(values, "trimtab_network_speed_bytes_per_second interface=eth1").has_value());
  CHECK(value(values, "trimtab_network_up interface=cbr0") == 1);
  CHECK_FALSE(value(values, "trimtab_network_up interface=lo").has_value());
  CHECK_FALSE(value(values, "trimtab_network_up interface=veth12ab").has_value());
  CHECK(value(values, "trimtab_network_interfaces_left_out") == 0);
}

TEST_CASE("labels are bounded, however many interfaces there are") {
  const std::filesystem::path root = std::filesystem::temp_directory_path() / "trimtab-many-interfaces";
  for (int number = 0; number < 80; ++number) {
    std::filesystem::create_directories(root / "sys/class/net" / ("eth" + std::to_string(number)) / "statistics");
  }
  std::ofstream(root / "sys/class/net/eth79/device") << "0x15b3\n";
  const auto values = flat(samples_of(read_network(root.string())));
  std::filesystem::remove_all(root);
  CHECK(values.size() == 65);
  CHECK(value(values, "trimtab_network_interfaces_left_out") == 16);
  CHECK(values.contains("trimtab_network_up interface=eth79"));  // hardware comes first
}

TEST_CASE("InfiniBand ports tell their traffic in bytes and why they are slow") {
  const auto values = flat(samples_of(read_infiniband(kNode)));
  CHECK(value(values, "trimtab_infiniband_up device=mlx5_0 port=1") == 1);
  CHECK(value(values, "trimtab_infiniband_up device=mlx5_1 port=1") == 0);
  CHECK(value(values, "trimtab_infiniband_rate_bytes_per_second device=mlx5_0 port=1") == 5e10);
  CHECK(value(values, "trimtab_infiniband_bytes_total device=mlx5_0 port=1 direction=receive") == 1000);
  CHECK(value(values, "trimtab_infiniband_events_total device=mlx5_0 port=1 event=out_of_sequence") == 3);
  CHECK_FALSE(value(values, "trimtab_infiniband_events_total device=mlx5_0 port=1 event=symbol_error").has_value());
}

TEST_CASE("a GPU's clocks, throttling, power, heat and errors are read in base units") {
  const NvmlScript script("h100_x2");
  const auto values = flat(samples_of(gpu_source(FAKE_NVML)));
  CHECK(value(values, "trimtab_device_up device=1") == 1);
  CHECK(value(values, "trimtab_device_clock_hertz device=0 clock=sm") == 1.755e9);
  CHECK(value(values, "trimtab_device_clock_max_hertz device=0 clock=sm") == 1.98e9);
  CHECK_FALSE(value(values, "trimtab_device_clock_hertz device=0 clock=video").has_value());
  CHECK(value(values, "trimtab_device_throttled device=0 reason=sw_power_cap") == 1);
  CHECK(value(values, "trimtab_device_throttled device=0 reason=hw_thermal_slowdown") == 0);
  CHECK(value(values, "trimtab_device_throttled device=0 reason=other") == 1);  // bit 0x200 has no name here
  CHECK(value(values, "trimtab_device_power_watts device=0") == Approx(348.2));
  CHECK(value(values, "trimtab_device_power_limit_watts device=0") == Approx(700));
  CHECK(value(values, "trimtab_device_energy_joules_total device=0") == Approx(9000.5));
  CHECK(value(values, "trimtab_device_temperature_celsius device=1") == 54);
  CHECK(value(values, "trimtab_device_memory_used_bytes device=0") == 1073741824);
  CHECK(value(values, "trimtab_device_busy_ratio device=0 unit=sm") == Approx(0.97));
  CHECK(value(values, "trimtab_device_ecc_errors_total device=0 kind=corrected") == 3);
  CHECK(value(values, "trimtab_device_pcie_generation device=0") == 4);
  CHECK(value(values, "trimtab_device_nvlinks_active device=0") == 2);
}

TEST_CASE("before driver 535 throttle reasons have another name") {
  NvmlScript script("h100_x2");
  script.set("* nvmlDeviceGetCurrentClocksThrottleReasons", "64");
  const auto values = flat(samples_of(gpu_source(FAKE_NVML_OLD)));
  CHECK(value(values, "trimtab_device_throttled device=0 reason=hw_thermal_slowdown") == 1);
}

TEST_CASE("a GPU that is lost is told, and what one GPU does not tell is left out") {
  NvmlScript script("h100_x2");
  const auto source = gpu_source(FAKE_NVML);
  CHECK(flat(samples_of(source)).size() > 40);
  script.set("0 nvmlDeviceGetHandleByIndex_v2", "!15");
  script.set("1 nvmlDeviceGetPowerUsage", "!999");
  const auto values = flat(samples_of(source));
  CHECK(value(values, "trimtab_device_up device=0") == 0);
  CHECK_FALSE(value(values, "trimtab_device_power_watts device=0").has_value());
  CHECK_FALSE(value(values, "trimtab_device_power_watts device=1").has_value());
  CHECK(value(values, "trimtab_device_temperature_celsius device=1") == 54);
}

TEST_CASE("a node without NVML has no GPU samples and no failure; one whose NVML is broken fails and recovers") {
  CHECK(samples_of(gpu_source("libnvidia-ml-that-is-not-there.so.1")).empty());
  NvmlScript script("h100_x2");
  script.set("system nvmlInit_v2", "!18");
  const auto source = gpu_source(FAKE_NVML);
  const auto failed = source->read();
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message.find("Driver/library version mismatch") != std::string::npos);
  script.remove("system nvmlInit_v2");
  CHECK_FALSE(samples_of(source).empty());
}

TEST_CASE("a machine that has nothing of a subject is read without an error") {
  const std::string bare = std::string(FIXTURES) + "/bare";
  CHECK(samples_of(read_pressure(bare)).empty());
  CHECK(samples_of(read_cpu_clock(bare)).empty());
  CHECK(samples_of(read_infiniband(bare)).empty());
  CHECK_FALSE(read_cpu(bare).ok());  // every machine has /proc/stat
  CHECK_FALSE(read_memory("/nowhere").ok());
}

TEST_CASE("this machine can be read") {
  for (const auto& source : host_sources("/", kNvmlLibrary)) {
    INFO(source->name());
    CHECK(source->read().ok());
  }
}

TEST_CASE("every measure that a source gives is in the list, and every one of the list is explained to people") {
  static constexpr std::array kAll{
      &kSourceUp,           &kSourceStalled,     &kSourceFailures,     &kSourceReadSeconds,
      &kCpuSeconds,         &kContextSwitches,   &kProcessesRunning,   &kProcessesBlocked,
      &kCpuClock,           &kCpuThrottles,      &kMemoryTotal,        &kMemoryAvailable,
      &kMemoryCached,       &kMemoryShared,      &kSwapTotal,          &kSwapFree,
      &kPressure,           &kCgroupMemory,      &kCgroupMemoryLimit,  &kCgroupCpuLimit,
      &kCgroupCpu,          &kCgroupThrottled,   &kNetworkUp,          &kNetworkSpeed,
      &kNetworkBytes,       &kNetworkPackets,    &kNetworkErrors,      &kNetworkDrops,
      &kNetworkLeftOut,     &kInfinibandUp,      &kInfinibandRate,     &kInfinibandBytes,
      &kInfinibandPackets,  &kInfinibandEvents,  &kDeviceInfo,         &kDeviceUp,
      &kDeviceClock,        &kDeviceClockMax,    &kDeviceThrottled,    &kDevicePower,
      &kDevicePowerLimit,   &kDeviceEnergy,      &kDeviceTemperature,  &kDeviceMemoryTotal,
      &kDeviceMemoryUsed,   &kDeviceBusy,        &kDeviceEcc,          &kDevicePcieGeneration,
      &kDevicePcieWidth,    &kDeviceNvLinks,     &kDeviceMigInstances, &kDevicePcieGenerationMax,
      &kDevicePcieWidthMax, &kDevicePcieReplays, &kDevicePcieTraffic,  &kDeviceNvLinkUp,
      &kDeviceNvLinkErrors, &kPciLanes,          &kPciLanesMax,        &kPciSpeed,
      &kPciSpeedMax,        &kPciErrors};
  std::set<std::string> listed;
  for (const Measure* measure : kAll) CHECK(listed.insert(measure->name).second);
  const NvmlScript script("h100_x2");
  for (const auto& source : host_sources(kNode, FAKE_NVML)) {
    for (const Sample& sample : samples_of(source)) {
      INFO(sample.measure->name);
      CHECK(listed.contains(sample.measure->name));
      CHECK(sample.measure->is_counter == std::string(sample.measure->name).ends_with("_total"));
    }
  }
  std::ifstream page(METRICS_PAGE);
  std::ostringstream text;
  text << page.rdbuf();
  for (const std::string& name : listed) {
    INFO(name);
    CHECK(text.str().find("`" + name + "`") != std::string::npos);
  }
}

TEST_CASE("what the kernel says of the machine is parsed or refused") {
  CHECK(parse_machine_stat("cpu  1 2 3 4\n")->modes.size() == 4);
  for (const char* wrong : {"", "cpu0 1 2 3 4\n", "cpu  1 2 3\n", "cpu  1 2 x 4\n", "cpu  -1 2 3 4\n"}) {
    INFO(wrong);
    CHECK_FALSE(parse_machine_stat(wrong).ok());
  }
  CHECK(parse_pressure("some avg10=0 total=5\n")->some == 5us);
  for (const char* wrong :
       {"", "full total=5\n", "some avg10=0\n", "some total=x\n", "some total=9223372036854775807\n"}) {
    INFO(wrong);
    CHECK_FALSE(parse_pressure(wrong).ok());
  }
  CHECK(parse_keyed_integer("ab 1\na 2\n", "a") == 2);
  CHECK_FALSE(parse_keyed_integer("ab 1\n", "a").has_value());
  CHECK(parse_infiniband_rate("25 Gb/sec (1X EDR)\n") == 25e9 / 8);
  CHECK(parse_infiniband_rate("2.5 Gb/sec (1X SDR)") == 2.5e9 / 8);
  for (const char* wrong : {"", "25", "25 Mb/sec", "x Gb/sec", "-1 Gb/sec", "inf Gb/sec"}) {
    INFO(wrong);
    CHECK_FALSE(parse_infiniband_rate(wrong).has_value());
  }
}
