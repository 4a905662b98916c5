#include "costs/import_costs.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("what a profile does not say is read from options") {
  const auto none = parse_supplement({});
  REQUIRE(none.ok());
  CHECK(none->empty());
  const auto all = parse_supplement({"24,12", "4096", "2048", "64", "2", "8", "27.5"});
  REQUIRE(all.ok());
  CHECK(all->layers == std::vector<std::int32_t>{24, 12});
  CHECK(all->hidden == 4096);
  CHECK(all->sequence == 2048);
  CHECK(all->global_batch == 64);
  CHECK(all->nodes == 2);
  CHECK(all->devices_per_node == 8);
  CHECK(all->device_memory == Bytes{28160} << 20);
}

TEST_CASE("a wrong option of an import is refused by name, with what was expected") {
  const auto refused = [](const SupplementTexts& texts, const char* option, const char* found) {
    const auto supplement = parse_supplement(texts);
    REQUIRE_FALSE(supplement.ok());
    CHECK(supplement.error().kind == ErrorKind::kBadInput);
    CHECK_THAT(supplement.error().message,
               Catch::StartsWith(option) && Catch::Contains("expected") && Catch::Contains(found));
  };
  for (const char* layers : {"0", "24,", ",24", "24,,24", "24 24", "x", "200001", "-1", "1e3"}) {
    INFO(layers);
    SupplementTexts texts;
    texts.layers = layers;
    refused(texts, "--layers:", layers);
  }
  for (const char* memory : {"0", "-1", "nan", "inf", "80GB", "1048577"}) {
    INFO(memory);
    SupplementTexts texts;
    texts.device_memory = memory;
    refused(texts, "--device-memory:", memory);
  }
  SupplementTexts texts;
  texts.hidden = "0";
  refused(texts, "--hidden-size:", "'0'");
  texts = {};
  texts.sequence = "2048 ";
  refused(texts, "--sequence-length:", "'2048 '");
  texts = {};
  texts.global_batch = "2147483648";
  refused(texts, "--global-batch:", "2147483648");
  texts = {};
  texts.nodes = "16385";
  refused(texts, "--nodes:", "from 1 to 16384");
  texts = {};
  texts.devices_per_node = "eight";
  refused(texts, "--devices-per-node:", "eight");
}
