#include <catch2/catch.hpp>
#include <memory>

#include "host/fingerprint_probe.hpp"
#include "nvml_script.hpp"

using namespace trimtab;
using namespace trimtab::host;
using trimtab::test::NvmlScript;
using namespace std::chrono_literals;

namespace {

Result<Fingerprint> probe() {
  return probe_fingerprint({std::string(FIXTURES) + "/x86_v1", {}, "glibc 2.36", read_gpu_inventory(FAKE_NVML, 60s)});
}

void read_until_it_probes(Source& source) {
  for (int read = 0; read < 12; ++read) CHECK(source.read()->empty());
}

}  // namespace

TEST_CASE("a node that is divided while its agent runs gets another fingerprint, once") {
  NvmlScript script("h100_x2");
  FingerprintWatch watch(*probe(), probe);
  const auto source = watch.source();
  read_until_it_probes(*source);
  CHECK_FALSE(watch.take().has_value());
  script.set("0 nvmlDeviceGetMigMode", "1 1");
  CHECK_FALSE(watch.take().has_value());  // not looked at yet
  read_until_it_probes(*source);
  const auto changed = watch.take();
  REQUIRE(changed.has_value());
  CHECK(changed->device.at("mig") == "off + on, no instances");
  read_until_it_probes(*source);
  CHECK_FALSE(watch.take().has_value());
  script.set("0 nvmlDeviceGetMigMode", "0 0");
  read_until_it_probes(*source);
  CHECK(watch.take()->device.at("mig") == "off");
}

TEST_CASE("a probe that fails changes nothing and is the source's failure") {
  const NvmlScript script("h100_x2");
  FingerprintWatch watch({}, []() -> Result<Fingerprint> { return unavailable("/proc is gone"); });
  const auto source = watch.source();
  for (int read = 0; read < 11; ++read) CHECK(source->read().ok());
  CHECK(source->read().error().message == "/proc is gone");
  CHECK_FALSE(watch.take().has_value());
}

TEST_CASE("a source may outlive its watch") {
  const NvmlScript script("h100_x2");
  auto watch = std::make_unique<FingerprintWatch>(Fingerprint{}, probe);
  const auto source = watch->source();
  watch.reset();
  read_until_it_probes(*source);
}

TEST_CASE("an NVML that is out of order for a while is no change of the hardware") {
  NvmlScript script("h100_x2");
  const auto probed = gpu_node_probe(FAKE_NVML)();
  REQUIRE(probed.ok());
  CHECK(probed->device.at("kind") == "gpu");
  script.set("system nvmlDeviceGetCount_v2", "!999");
  const auto failed = gpu_node_probe(FAKE_NVML)();
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message.find("NVML code 999") != std::string::npos);
}
