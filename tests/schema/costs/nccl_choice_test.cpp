#include "schema/nccl_choice.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "schema/nccl_table.hpp"

using namespace trimtab;

namespace {

// `values` times around `ns`.
Cost collective(std::int64_t bytes, const std::string& algorithm, const std::string& protocol, std::int32_t channels,
                std::int64_t ns, int values = 10) {
  Cost cost;
  cost.key.kind = CostKind::kCollective;
  cost.key.subject = "all_reduce";
  cost.key.bytes = bytes;
  cost.key.group_size = 8;
  cost.key.placement = "intra_node";
  cost.key.algorithm = algorithm;
  cost.key.protocol = protocol;
  cost.key.channels = channels;
  for (int i = 0; i < values; ++i) cost.statistics.add(ns + i % 3);
  return cost;
}

NcclChoice choice(std::uint64_t from, std::uint64_t to, nccl::Algorithm algorithm, nccl::Protocol protocol,
                  std::uint8_t channels = 0) {
  return {nccl::kAllReduce, 8, true, from, to, algorithm, protocol, channels};
}

// A reader of NVIDIA's format that shares nothing with the writer: lines, commas, words; the first line that fits wins.
struct CsvLine {
  std::string function, algorithm, protocol;
  unsigned long long from = 0, to = 0;
  int channels = 0, nodes = 0, ranks = 0, operations = 0, registered = 0;
};

std::vector<CsvLine> read_csv(const std::string& text) {
  std::vector<CsvLine> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> words;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) words.push_back(cell);
    REQUIRE(words.size() == 10);
    lines.push_back({words[0], words[3], words[4], std::stoull(words[1]), std::stoull(words[2]), std::stoi(words[5]),
                     std::stoi(words[6]), std::stoi(words[7]), std::stoi(words[8]), std::stoi(words[9])});
  }
  return lines;
}

}  // namespace

TEST_CASE("the fastest of several ways is chosen at each size, and borders lie between sizes", "[nccl]") {
  const std::vector<Cost> costs{
      collective(1000, "tree", "ll", 4, 10'000),     collective(1000, "ring", "ll", 4, 12'000),
      collective(4000, "tree", "ll", 4, 20'000),     collective(4000, "ring", "ll", 4, 19'000),
      collective(16000, "tree", "ll", 4, 90'000),    collective(16000, "ring", "ll", 4, 80'000),
      collective(64000, "ring", "simple", 4, 99'000)};
  const auto choices = nccl_choices(costs);
  REQUIRE(choices.size() == 2);
  CHECK(choices[0] == choice(500, 2000, nccl::kTree, nccl::kLl));
  CHECK(choices[1] == choice(2001, 32000, nccl::kRing, nccl::kLl));  // one way at 64000: nothing to choose
}

TEST_CASE("a way that was measured too seldom is not believed", "[nccl]") {
  CHECK(nccl_choices({collective(1000, "tree", "ll", 4, 10, 9), collective(1000, "ring", "ll", 4, 12, 50)}).empty());
  CHECK(nccl_choices({collective(1000, "tree", "ll", 4, 10, 10), collective(1000, "ring", "ll", 4, 12, 50)}).size() ==
        1);
}

TEST_CASE("channels are named where the fastest way was measured with several", "[nccl]") {
  const auto choices =
      nccl_choices({collective(1000, "nvls", "simple", 8, 30), collective(1000, "nvls", "simple", 16, 20),
                    collective(1000, "nvls", "simple", 24, 25)});
  REQUIRE(choices.size() == 1);
  CHECK(choices[0] == choice(500, 2000, nccl::kNvls, nccl::kSimple, 16));
  const auto collnet =
      nccl_choices({collective(1000, "collnet_chain", "simple", 8, 30),
                    collective(1000, "collnet_chain", "simple", 16, 20), collective(1000, "ring", "simple", 16, 90)});
  REQUIRE(collnet.size() == 1);
  CHECK(collnet[0] == choice(500, 2000, nccl::kCollnetChain, nccl::kSimple));
}

TEST_CASE("sizes are NCCL's: an all-gather counts what is received, the others what is sent", "[nccl]") {
  for (const auto& [subject, factor] : {std::pair{"all_gather", 8U}, std::pair{"reduce_scatter", 1U}}) {
    Cost fast = collective(1000, "ring", "simple", 4, 5);
    Cost slow = collective(1000, "pat", "simple", 4, 9);
    fast.key.subject = slow.key.subject = subject;
    const auto choices = nccl_choices({slow, fast});
    REQUIRE(choices.size() == 1);
    CHECK(choices[0].min_bytes == 500 * factor);
    CHECK(choices[0].max_bytes == 2000 * factor);
    CHECK(choices[0].algorithm == nccl::kRing);
  }
}

TEST_CASE("what is no collective of NCCL's, or says too little, does not matter", "[nccl]") {
  Cost without = collective(1000, "", "", 0, 1);
  Cost gloo = collective(1000, "halving_doubling", "tcp", 1, 1);
  Cost send = collective(1000, "ring", "simple", 1, 1);
  send.key.subject = "send_recv";
  Cost alone = collective(1000, "ring", "ll", 1, 1);
  alone.key.group_size = 1;
  Cost vast = collective(std::int64_t{1} << 60, "ring", "ll", 1, 1);
  CHECK(nccl_choices({without, gloo, send, alone, vast, collective(1000, "ring", "ll", 1, 1)}).empty());
}

TEST_CASE("the table that the plugin reads holds the choices, and its id is that of its contents", "[nccl]") {
  const auto choices = nccl_choices({collective(1000, "tree", "ll", 4, 10), collective(1000, "ring", "ll", 4, 12)});
  const std::string file = encode_nccl_table(choices, 42);
  const std::string id = nccl_table_id(file).value();
  CHECK(id.size() == 16);
  CHECK(encode_nccl_table(choices, 42) == file);
  CHECK(nccl_table_id(encode_nccl_table(choices, 43)).value() != id);
  std::string damaged = file;
  damaged.back() = '\1';
  REQUIRE_FALSE(nccl_table_id(damaged).ok());
  CHECK_THAT(nccl_table_id(damaged).error().message, Catch::Contains("do not match its checksum"));
  CHECK_FALSE(nccl_table_id("").ok());
  CHECK(nccl_table_id(encode_nccl_table({}, 1)).ok());
}

TEST_CASE("any costs give a table that can be read, and the CSV says the same", "[nccl]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const char* functions[] = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
  const char* algorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
  const char* protocols[] = {"ll", "ll128", "simple"};
  std::size_t seen = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Cost> costs;
    for (int i = 0; i < 60; ++i) {
      Cost cost =
          collective(static_cast<std::int64_t>(1 + random() % 5), algorithms[random() % 7], protocols[random() % 3],
                     static_cast<std::int32_t>(random() % 70), static_cast<std::int64_t>(random() % 1000));
      cost.key.subject = functions[random() % 5];
      cost.key.group_size = static_cast<std::int32_t>(2 + random() % 2);
      cost.key.placement = random() % 2 == 0 ? "intra_node" : "inter_node";
      costs.push_back(cost);
    }
    const auto choices = nccl_choices(costs);
    CHECK(nccl_table_id(encode_nccl_table(choices, 1)).ok());
    const auto lines = read_csv(to_nccl_tuner_csv(choices));
    REQUIRE(lines.size() == choices.size());
    seen += choices.size();
    for (const NcclChoice& one : choices) {
      const auto fits = [&](const CsvLine& line) {
        std::string function = functions[one.function];
        std::erase(function, '_');
        return line.function == function && line.from == one.min_bytes && line.to == one.max_bytes &&
               line.algorithm == algorithms[one.algorithm] && line.protocol == protocols[one.protocol] &&
               line.channels == (one.channels == 0 ? -1 : one.channels) && line.nodes == (one.one_node ? 1 : -1) &&
               line.ranks == static_cast<int>(one.ranks) && line.operations == -1 && line.registered == -1;
      };
      CHECK(std::count_if(lines.begin(), lines.end(), fits) == 1);
    }
  }
  CHECK(seen > 200);
}
