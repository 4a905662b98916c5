// A card names what ranks run on, and says of what is not known what works all the same.

#include <catch2/catch.hpp>
#include <sstream>

#include "jobs/card_text.hpp"
#include "made_job.hpp"
#include "schema/api/unusual_hardware.hpp"
#include "terminal_text.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace trimtab::test;

namespace {

Fingerprint gpu_node() {
  return {
      {{"kind", "gpu"}, {"model", "NVIDIA H100 80GB HBM3"}, {"host_cpu", "AMD EPYC 7B13"}, {"mig", "off"}}, {}, {}, {}};
}

Fingerprint amd_node() {
  return {{{"kind", "cpu"}, {"model", "AMD EPYC 7B13"}, {"other_gpus", "8 x AMD gfx942"}}, {}, {}, {}};
}

api::RankFacts on(const std::string& device, const std::string& name = "") {
  api::RankFacts facts;
  facts.framework = "ddp";
  facts.device = device;
  facts.device_name = name;
  return facts;
}

// Two ranks, each on a node of its own.
struct Job {
  CardFold fold = folded({});

  void rank(std::int32_t number, const Fingerprint& node, const api::RankFacts& facts, bool unknown_cupti = false) {
    const std::string name = "n" + std::to_string(number);
    fold.on_node(name, node);
    fold.connected(number, name, 0);
    fold.facts(number, facts);
    fold.activity(number, {}, unknown_cupti);
  }
};

bool says(const api::CardDevices& devices, const std::string& words) {
  return devices.limits.size() == 1 && devices.limits[0].find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a card names the ranks' devices, and an ordinary one has no limits", "[card_devices]") {
  Job job;
  job.rank(0, gpu_node(), on("cuda", "NVIDIA H100 80GB HBM3"));
  job.rank(1, gpu_node(), on("cuda"));  // its driver says nothing: its node's agent does
  const api::Card card = job.fold.card();
  REQUIRE(card.devices.size() == 1);
  CHECK(card.devices[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(card.devices[0].ranks == 2);
  CHECK(card.devices[0].limits.empty());
  CHECK(cli::card_text(card).find("  devices 2 ranks on NVIDIA H100 80GB HBM3\n") != std::string::npos);
}

TEST_CASE("of devices that are not known a card says what works all the same", "[card_devices]") {
  Job job;
  job.rank(0, amd_node(), on("cuda", "AMD Instinct MI300X"));
  job.rank(1, gpu_node(), on("cuda"), true);
  const api::Card card = job.fold.card();
  REQUIRE(card.devices.size() == 2);
  CHECK(card.devices[0].name == "AMD Instinct MI300X");
  CHECK(says(card.devices[0], "of 8 x AMD gfx942 no kernels, clocks or memory are recorded. Steps, their parts"));
  CHECK(card.devices[1].name == "NVIDIA H100 80GB HBM3");
  CHECK(says(card.devices[1], "a CUPTI later than 13"));
  CHECK(says(card.devices[1], "Collectives, ranges and steps are"));
  const std::string text = cli::card_text(card);
  CHECK(text.find("  devices 1 rank on AMD Instinct MI300X\n        - of 8 x AMD gfx942 no kernels") !=
        std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(cli::display_width(line) <= 80);
  const auto read = api::parse<api::Card>(api::to_json(card), "card.json");
  REQUIRE(read.ok());
  CHECK(read->devices.size() == 2);
}

TEST_CASE("instances, shared GPUs and foreign kinds are named, and processors beside GPUs have no limits",
          "[card_devices]") {
  Fingerprint divided = gpu_node();
  divided.device["mig"] = "3g.40gb";
  Fingerprint shared = gpu_node();
  shared.environment["mps"] = "on";
  Job job;
  job.rank(0, divided, on("cuda"));
  job.rank(1, shared, on("cuda"));
  auto devices = job.fold.card().devices;
  REQUIRE(devices.size() == 2);
  CHECK(says(devices[0], "divided by MIG (3g.40gb)"));
  CHECK(says(devices[1], "shared by MPS"));
  Job other;
  other.rank(0, amd_node(), on("cpu"));
  other.rank(1, Fingerprint{{{"kind", "cpu"}, {"model", "Xeon"}}, {}, {}, {}}, on("xpu"));
  devices = other.fold.card().devices;
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].name == "AMD EPYC 7B13");
  CHECK(devices[0].limits.empty());
  CHECK(devices[1].name == "xpu");
  CHECK(says(devices[1], "devices of the kind 'xpu' are not known"));
}
