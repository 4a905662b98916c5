#include "schema/published.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "base/random.hpp"
#include "published_files.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

Published import_from(const PublishedFiles& files) {
  auto published = read_published("aceso", {files.path()});
  INFO((published.ok() ? "" : published.error().message));
  REQUIRE(published.ok());
  return std::move(published).value();
}

const PublishedCosts& costs_of(const Published& published, const std::string& testbed, const std::string& profile) {
  const auto found = std::find_if(published.costs.begin(), published.costs.end(), [&](const PublishedCosts& costs) {
    return costs.fingerprint.device.at("testbed") == testbed && costs.fingerprint.environment.at("profile") == profile;
  });
  REQUIRE(found != published.costs.end());
  return *found;
}

std::optional<double> mean_of(const PublishedCosts& costs, const CostKey& key) {
  for (const Cost& cost : costs.costs) {
    if (cost.key == key) return cost.statistics.mean();
  }
  return std::nullopt;
}

const Model& model_of(const Published& published, const std::string& file) {
  const auto found = std::find_if(published.models.begin(), published.models.end(),
                                  [&](const PublishedModel& model) { return model.file == file; });
  REQUIRE(found != published.models.end());
  return found->model;
}

const Cluster& cluster_of(const Published& published, const std::string& file) {
  const auto found = std::find_if(published.clusters.begin(), published.clusters.end(),
                                  [&](const PublishedCluster& cluster) { return cluster.file == file; });
  REQUIRE(found != published.clusters.end());
  return found->cluster;
}

// The damaged directory is refused with a message that holds all these words.
void refused(const PublishedFiles& files, const std::vector<std::string>& words) {
  const auto published = read_published("aceso", {files.path()});
  REQUIRE_FALSE(published.ok());
  CHECK(published.error().kind == ErrorKind::kBadInput);
  for (const std::string& word : words) CHECK_THAT(published.error().message, Catch::Contains(word));
}

CostKey operator_key(CostKind kind, const std::string& op, int samples, int tp, const std::string& sharding) {
  return {kind, "gpt-tiny/" + op, "float16", samples, tp, sharding, 0, 0, ""};
}

}  // namespace

TEST_CASE("published measurements become costs without loss") {
  const PublishedFiles files;
  const Published published = import_from(files);
  REQUIRE(published.costs.size() == 3);
  const PublishedCosts& tiny = costs_of(published, "eurosys", "gpt-tiny");
  // The 18th row: embedding has 8, then qkv at samples 1, tp 1, algo 0 and 1.
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorForward, "enc-attention-qkv", 1, 1, "alternate")) == 109125);
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorBackward, "enc-attention-qkv", 1, 1, "default")) == 200250);
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorInputBytes, "enc-attention-qkv", 2, 2, "default")) == 8 << 20);
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorOutputBytes, "enc-MLP-gelu", 2, 1, "default")) == 16 << 20);
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorStoredBytes, "enc-MLP-gelu", 1, 1, "default")) == 8 << 20);
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorParameterBytes, "enc-MLP-gelu", 1, 1, "default")) == 2 << 20);
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorForwardReserveBytes, "enc-MLP-gelu", 1, 1, "default")) == 8192);
  CHECK(mean_of(tiny, operator_key(CostKind::kOperatorBackwardReserveBytes, "enc-MLP-gelu", 1, 1, "default")) ==
        1048576);
  CHECK(mean_of(tiny, {CostKind::kCollective, "all_gather", "float16", 0, 1, "default", 2621440, 2, "intra_node"}) ==
        129000);
  CHECK_FALSE(
      mean_of(tiny, {CostKind::kCollective, "all_gather", "float16", 0, 1, "default", 4294967296, 2, "intra_node"}));
  const auto transfer =
      mean_of(tiny, {CostKind::kPointToPoint, "send_recv", "", 0, 1, "default", 1048576, 0, "intra_node"});
  REQUIRE(transfer);
  CHECK(1048576 / *transfer * 1e9 / (1 << 30) == Approx(17.22).epsilon(1e-5));
}

TEST_CASE("profiles that time the same key differently have different fingerprints and say who published them") {
  const PublishedFiles files;
  const Published published = import_from(files);
  const PublishedCosts& tiny = costs_of(published, "eurosys", "gpt-tiny");
  const PublishedCosts& small = costs_of(published, "eurosys", "gpt-small");
  const PublishedCosts& miniset = costs_of(published, "miniset", "gpt-tiny");
  CHECK(hash(tiny.fingerprint) != hash(small.fingerprint));
  CHECK(hash(tiny.fingerprint) != hash(miniset.fingerprint));
  CHECK(tiny.origin != small.origin);
  CHECK(tiny.source == "import:microsoft/SuperScaler@53d0036");
  CHECK_THAT(tiny.fingerprint.environment.at("published_by"), Catch::Contains("Aceso") && Catch::Contains("Liu"));
  CHECK(tiny.fingerprint.environment.at("commit") == "53d0036");
  CHECK(tiny.fingerprint.environment.at("directory") == "profiler/profiled-time-eurosys");
  CHECK(mean_of(miniset, operator_key(CostKind::kOperatorForward, "enc-MLP-gelu", 1, 1, "default")) == 7500);
}

TEST_CASE("another version of a published file has another fingerprint") {
  const PublishedFiles files;
  const std::string before = hash(costs_of(import_from(files), "eurosys", "gpt-tiny").fingerprint);
  CHECK(hash(costs_of(import_from(files), "eurosys", "gpt-tiny").fingerprint) == before);
  files.replace("collectives.csv", ",129,1", ",130,1");
  CHECK(hash(costs_of(import_from(files), "eurosys", "gpt-tiny").fingerprint) != before);
}

TEST_CASE("models have every operator, layers, shapes and what is tied") {
  const PublishedFiles files;
  const Published published = import_from(files);
  const Model& model = model_of(published, "gpt-tiny.json");
  REQUIRE(model.operators.size() == 8);
  CHECK(model.name == "gpt-tiny");
  CHECK(model.global_batch == 64);
  CHECK(model.dtype == "float16");
  CHECK(model.microbatch_total == std::vector<std::int32_t>{1, 2});
  CHECK(model.optimizer_bytes_per_parameter_byte == 6);
  REQUIRE(model.aceso);
  CHECK(model.aceso->main_parameter_bytes_per_parameter_byte == 2);
  std::vector<std::int32_t> layers;
  for (const Operator& op : model.operators) layers.push_back(op.layer);
  CHECK(layers == std::vector<std::int32_t>{0, 0, 0, 1, 1, 2, 2, 2});
  const Operator& qkv = model.operators[3];
  CHECK(qkv.name == "enc-attention-qkv");
  CHECK(qkv.cost_key == model.operators[1].cost_key);
  CHECK(qkv.kind == "linear");
  CHECK(qkv.shardings == std::vector<std::string>{"default", "alternate"});
  CHECK(qkv.forward_flops == 2 * 16 * 8 * 3 * 8);
  CHECK(qkv.parameter_bytes == 2 << 20);
  CHECK(qkv.activation_bytes == 8 << 20);
  CHECK(qkv.shape.at("hidden") == 8);
  CHECK(model.operators[2].shardings == std::vector<std::string>{"default"});
  REQUIRE(model.tied_parameters.size() == 1);
  CHECK(model.tied_parameters[0].operators == std::vector<std::int32_t>{0, 7});
  CHECK(model.tied_parameters[0].bytes == 2 << 20);
  CHECK(model.tied_parameters[0].copied);
  CHECK(qkv.output_saved);
  // What is written is read back the same.
  const auto again = parse_model(to_json(model), "again");
  REQUIRE(again.ok());
  CHECK(to_json(*again) == to_json(model));
}

TEST_CASE("a setting's cluster names its costs; several of one size are told apart") {
  const PublishedFiles files;
  const Published published = import_from(files);
  const Cluster& cluster = cluster_of(published, "gpt-tiny.cluster.json");
  REQUIRE(cluster.nodes.size() == 2);
  CHECK(cluster.devices() == 8);
  CHECK(cluster.nodes[1].memory_bytes == Bytes{28000} << 20);
  CHECK(cluster.nodes[1].fingerprint == hash(costs_of(published, "eurosys", "gpt-tiny").fingerprint));
  REQUIRE(cluster.links.size() == 2);
  CHECK(cluster.links[0].bandwidth_bytes_per_s == Approx(24.83 * 1073741824));
  CHECK(cluster.links[0].latency_us == Approx(56.711 - 39.330).epsilon(1e-3));
  CHECK(cluster_of(published, "gpt-small-2x-27g.cluster.json").devices() == 2);
  CHECK(cluster_of(published, "gpt-small-4x-16g.cluster.json").devices() == 4);
}

TEST_CASE("operators of equal measurements share a cost key, whose rows are stored once") {
  const PublishedFiles files;
  std::string rows = files.read("operators.csv");
  std::string twins = rows.substr(0, rows.find('\n') + 1);
  for (const char* op : {"block-0-0-conv1", "block-0-0-relu", "block-0-1-conv1"}) {
    const std::string us = std::string(op).ends_with("relu") ? "5.000" : "9.000";
    twins += "eurosys,resnet,1B,fp32,16,1,0,0," + std::string(op) + "," + us +
             ",1.000,1.000,1.000,0.000,1.000,0.000,0.000,1048576,1048576,0,1048576,0,0\n";
  }
  files.write("operators.csv", twins + rows.substr(rows.find('\n') + 1));
  files.replace("op_lists.json", "{\n\"gpt/tiny\"",
                R"({"resnet/1B": {"profile_model": "resnet", "profile_size": "1B", "num_ops": 3, "blocks": [
                  {"repeat": 1, "ops": ["block-0-0-conv1", "block-0-0-relu", "block-0-1-conv1"]}]},
                "gpt/tiny")");
  files.replace("models.csv", "\ngpt,tiny", "\nresnet,1B,,,,,,,,,fp32,3,1,4,1536,16 32,28000,0,2\ngpt,tiny");
  const Published published = import_from(files);
  const Model& model = model_of(published, "resnet-1B.json");
  CHECK(model.operators[0].cost_key == model.operators[2].cost_key);
  CHECK(model.operators[0].cost_key != model.operators[1].cost_key);
  CHECK(model.operators[2].name == "block-0-1-conv1");
  CHECK(model.operators[0].layer == 0);
  CHECK(model.operators[2].layer == 1);
  CHECK(model.operators[0].activation_bytes == 65536);
  CHECK_FALSE(model.operators[0].output_saved);  // a ReLU reads its own output alone
  CHECK(model.operators[1].output_saved);
  CHECK(model.tied_parameters.empty());
  const std::vector<Cost>& costs = costs_of(published, "eurosys", "resnet-1B").costs;
  CHECK(std::count_if(costs.begin(), costs.end(),
                      [](const Cost& cost) { return cost.key.kind == CostKind::kOperatorForward; }) == 2);
}

TEST_CASE("compressed and plain files are the same") {
  const PublishedFiles files;
  const Published plain = import_from(files);
  files.pack("operators.csv");
  files.pack("collectives.csv");
  const Published packed = import_from(files);
  REQUIRE(packed.costs.size() == plain.costs.size());
  for (std::size_t i = 0; i < plain.costs.size(); ++i) CHECK(packed.costs[i].origin == plain.costs[i].origin);
}

TEST_CASE("a cut, damaged or foreign gzip file is refused by name") {
  const PublishedFiles files;
  files.pack("operators.csv");
  const std::string whole = files.read("operators.csv.gz");
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    INFO(size);
    files.write("operators.csv.gz", whole.substr(0, size));
    refused(files, {"operators.csv.gz", "cut short"});
  }
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x55);
  files.write("operators.csv.gz", damaged);
  refused(files, {"operators.csv.gz"});
  files.write("operators.csv.gz", "db,model,size\n");
  refused(files, {"operators.csv.gz", "damaged"});
  files.write("operators.csv.gz", whole);
  files.write("operators.csv", "db\n");
  refused(files, {"operators.csv", "remove one"});
}

TEST_CASE("a malformed row is refused by file, line, column and what was expected") {
  struct Damage {
    const char* file;
    const char* what;
    const char* by;
    std::vector<std::string> words;
  };
  const std::vector<Damage> damages{
      {"operators.csv", "101.125", "NaN", {"operators.csv:3: fwd_us", "number", "NaN"}},
      {"operators.csv", "101.125", "inf", {"operators.csv:3: fwd_us", "inf"}},
      {"operators.csv", "101.125", "-101.125", {"operators.csv:3: fwd_us", "-101.125"}},
      {"operators.csv", "101.125", "", {"operators.csv:3: fwd_us", "nothing"}},
      {"operators.csv", "101.125", "101.125x", {"operators.csv:3: fwd_us", "101.125x"}},
      {"operators.csv", "101.125,", "101.125,1,", {"operators.csv:3", "23 cells", "found 24"}},
      {"operators.csv",
       "eurosys,gpt,tiny,fp16,1,1,1",
       "eurosys,gpt,tiny,fp16,0,1,1",
       {"operators.csv:3: microbatch_samples"}},
      {"operators.csv",
       "eurosys,gpt,tiny,fp16,1,1,1",
       "eurosys,gpt,tiny,fp64,1,1,1",
       {"operators.csv:3: dtype", "fp16, fp32", "fp64"}},
      {"operators.csv", "eurosys,gpt,tiny,fp16,1,1,1", "eurosys,gpt,tiny,fp16,1,1,0", {"operators.csv:3", "line 2"}},
      {"operators.csv", "eurosys,gpt,tiny,fp16,1,1,1", "eurosys,gpt,tiny,fp16,1,1,2", {"operators.csv:3: algo"}},
      {"operators.csv",
       "eurosys,gpt,tiny,fp16,1,1,1",
       "eurosys,../x,tiny,fp16,1,1,1",
       {"operators.csv:3: model", "../x"}},
      {"operators.csv", "4194304", "4194305000", {"operators.csv:2: input_bytes", "4.000 MiB"}},
      {"operators.csv", "fwd_us", "forward", {"operators.csv:1", "fwd_us is missing"}},
      {"operators.csv", "op_index", "fwd_us", {"operators.csv:1", "fwd_us", "twice"}},
      {"collectives.csv", "all_gather", "broadcast", {"collectives.csv:2: primitive", "all_to_all", "broadcast"}},
      {"collectives.csv", ",129,1", ",,1", {"collectives.csv:2: us"}},
      {"collectives.csv", "1,129,1", "1,129,0", {"collectives.csv:2: us", "not measured"}},
      {"collectives.csv", "2621440", "9621440", {"collectives.csv:2: bytes", "key_mib"}},
      {"p2p.csv", "56.7", "5.67", {"p2p.csv:2: us", "56.7"}},
      {"p2p.csv", "17.22", "0", {"p2p.csv:2: gib_per_s"}},
      {"p2p.csv", "2097152", "1048576", {"p2p.csv:3"}},
      {"models.csv", "64,1 2", "64,2 1", {"models.csv:2: microbatch_values"}},
      {"models.csv", "64,1 2", "0,1 2", {"models.csv:2: global_batch_samples"}},
      {"models.csv", "gpt,tiny", "gpt,huge", {"op_lists.json", "gpt/huge"}},
      {"models.csv", "fp16,8,2", "fp16,9,2", {"models.csv", "num_ops", "9"}},
      {"op_lists.json", "\"num_ops\": 8", "\"num_ops\": 7", {"op_lists.json", "num_ops", "8"}},
      {"op_lists.json", "\"repeat\": 3", "\"repeat\": -3", {"op_lists.json", "repeat"}},
      {"op_lists.json", "\"enc-MLP-gelu\"", "\"enc-MLP-silu\"", {"op_lists.json", "enc-MLP-silu", "operators.csv"}},
      {"op_lists.json", "gpt/tiny", "gpt/../tiny", {"op_lists.json", "MODEL/SIZE"}},
  };
  for (const Damage& damage : damages) {
    const PublishedFiles files;
    INFO(damage.file << ": " << damage.what << " becomes " << damage.by);
    files.replace(damage.file, damage.what, damage.by);
    refused(files, damage.words);
  }
}

TEST_CASE("a missing, empty or headless file is refused by name") {
  for (const char* name : {"operators.csv", "collectives.csv", "p2p.csv", "models.csv", "op_lists.json"}) {
    INFO(name);
    const PublishedFiles files;
    const std::string text = files.read(name);
    files.remove(name);
    refused(files, {name, "there"});
    files.write(name, "");
    refused(files, {name});
    files.write(name, text.substr(0, text.find('\n') + 1));
    refused(files, {name});
  }
  const auto absent = read_published("aceso", {"/nonexistent"});
  REQUIRE_FALSE(absent.ok());
  CHECK_THAT(absent.error().message, Catch::Contains("/nonexistent"));
}

TEST_CASE("a file that ends in the middle of any row is refused or says the same") {
  const PublishedFiles files;
  const std::string text = files.read("operators.csv");
  const std::string whole = hash(costs_of(import_from(files), "eurosys", "gpt-tiny").fingerprint);
  const std::size_t last_row = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t end = last_row + 1; end < text.size(); ++end) {
    files.write("operators.csv", text.substr(0, end));
    const auto published = read_published("aceso", {files.path()});
    INFO(text.substr(last_row, end - last_row));
    CHECK((!published.ok() || end == text.size() - 1));
  }
}

TEST_CASE("randomly damaged files are refused with their name or read, never worse") {
  constexpr std::uint64_t kSeed = 20240917;
  Random random(kSeed);
  const std::vector<std::string> names{"operators.csv", "collectives.csv", "p2p.csv", "models.csv", "op_lists.json"};
  const PublishedFiles files;
  for (int round = 0; round < 400; ++round) {
    const std::string& name = names[random.below(names.size())];
    const std::string whole = files.read(name);
    std::string damaged = whole;
    for (std::uint64_t i = random.below(4); i < 4; ++i) {
      const std::size_t place = random.below(damaged.size());
      constexpr std::string_view kBytes = "0123456789,.-eE\n\r \"{}[]xN\0\xff";
      if (random.below(3) == 0) damaged.erase(place, 1 + random.below(20));
      if (random.below(3) == 0) damaged.insert(place, damaged.substr(random.below(damaged.size()), random.below(40)));
      if (place < damaged.size()) damaged[place] = kBytes[random.below(kBytes.size())];
    }
    files.write(name, damaged);
    const auto published = read_published("aceso", {files.path()});
    INFO("seed " << kSeed << ", round " << round << ", " << name);
    // A name that was changed is reported where it is missed, which may be another file.
    if (!published.ok()) {
      CHECK_THAT(published.error().message,
                 Catch::Contains(".csv") || Catch::Contains(".json") || Catch::Contains("dtype"));
    }
    files.write(name, whole);
  }
}

TEST_CASE("an unknown format is refused by naming those that are known") {
  const auto published = read_published("galvatrom", {"."});
  REQUIRE_FALSE(published.ok());
  CHECK_THAT(published.error().message, Catch::Contains("aceso") && Catch::Contains("galvatrom"));
}
