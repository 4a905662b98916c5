// Aceso's own profiler folders: what they hold becomes costs and documents, what is wrong in them is refused by name.

#include "aceso_folder.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "base/random.hpp"
#include "pickle_text.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

constexpr Bytes kMib = 1048576;

Published import_from(const AcesoFolder& folder, const ProfileSupplement& supplement = {}) {
  return imported("aceso", {folder.path()}, supplement);
}

CostKey operator_key(CostKind kind, const std::string& op, int samples, int tp, const std::string& sharding) {
  return {kind, "gpt-1_3B/" + op, "float16", samples, tp, sharding, 0, 0, ""};
}

CostKey collective_key(const std::string& primitive, std::int64_t bytes) {
  return {CostKind::kCollective, primitive, "float16", 0, 1, "default", bytes, 2, "intra_node"};
}

ProfileSupplement eight_v100s() {
  ProfileSupplement supplement;
  supplement.nodes = 2;
  supplement.devices_per_node = 4;
  supplement.device_memory = Bytes{28000} << 20;
  return supplement;
}

}  // namespace

TEST_CASE("aceso: the profiler's tables become costs without loss") {
  const AcesoFolder folder;
  const Published published = import_from(folder);
  REQUIRE(published.costs.size() == 1);
  const PublishedCosts& costs = published.costs.front();
  CHECK(costs.fingerprint.device.at("testbed") == "profiled-time-mine");
  CHECK(costs.fingerprint.environment.at("profile") == "gpt-1_3B");
  CHECK(costs.fingerprint.environment.count("published_by") == 0);  // nobody published it
  CHECK(costs.source == "import:aceso");
  // 8 tables of 16 operators, 8 values each; 3 collectives that ran; 3 transfers on each link.
  CHECK(costs.costs.size() == 8 * 16 * 8 + 3 + 6);
  CHECK(value_of(published, operator_key(CostKind::kOperatorForward, "enc-attention-qkv", 1, 1, "default")) == 202000);
  CHECK(value_of(published, operator_key(CostKind::kOperatorBackward, "enc-attention-qkv", 1, 1, "alternate")) ==
        604000);
  CHECK(value_of(published, operator_key(CostKind::kOperatorForward, "gpt-post-process", 2, 2, "alternate")) == 915000);
  CHECK(value_of(published, operator_key(CostKind::kOperatorInputBytes, "enc-MLP-gelu", 2, 1, "default")) == 8 * kMib);
  CHECK(value_of(published, operator_key(CostKind::kOperatorStoredBytes, "enc-MLP-gelu", 1, 1, "default")) ==
        std::llround(8.016 * kMib));
  CHECK(value_of(published, collective_key("all_gather", 12 * kMib)) == 530000);
  CHECK(value_of(published, collective_key("all_reduce", 8 * kMib)) == 260000);
  // Left out by the profiler, and failed.
  CHECK_FALSE(value_of(published, collective_key("all_gather", Bytes{4096} * kMib)));
  CHECK_FALSE(value_of(published, collective_key("all_reduce", 16 * kMib)));
  const auto transfer =
      value_of(published, {CostKind::kPointToPoint, "send_recv", "", 0, 1, "default", kMib, 0, "intra_node"});
  REQUIRE(transfer);
  CHECK(kMib / *transfer * 1e9 / (1 << 30) == Approx(10).epsilon(1e-5));
}

TEST_CASE("aceso: a size that the authors published has its model; its cluster is what is said") {
  const AcesoFolder folder;
  const Published alone = import_from(folder);
  const Model* const model = model_called(alone, "gpt-1_3B.json");
  REQUIRE(model != nullptr);
  REQUIRE(model->operators.size() == 1 + 24 * 13 + 2);
  CHECK(model->global_batch == 1024);
  CHECK(model->microbatch_total == std::vector<std::int32_t>{1, 2});
  CHECK(model->optimizer_bytes_per_parameter_byte == 6);
  const Operator& qkv = model->operators[2];
  CHECK(qkv.name == "enc-attention-qkv");
  CHECK(qkv.kind == "linear");
  CHECK(qkv.shardings == std::vector<std::string>{"default", "alternate"});
  CHECK(qkv.forward_flops == std::int64_t{2} * 2048 * 2048 * 3 * 2048);
  CHECK(model->operators[1 + 13 + 1].cost_key == qkv.cost_key);
  CHECK(model->operators.back().layer == 23);
  CHECK(parse_model(to_json(*model), "again").ok());
  CHECK(alone.clusters.empty());
  CHECK(remarked(alone, "no cluster documents of gpt-1_3B"));
  CHECK(remarked(alone, "--devices-per-node"));

  const Published said = import_from(folder, eight_v100s());
  const Cluster* const cluster = cluster_called(said, "gpt-1_3B.cluster.json");
  REQUIRE(cluster != nullptr);
  CHECK(cluster->devices() == 8);
  CHECK(cluster->nodes.size() == 2);
  CHECK(cluster->nodes[0].memory_bytes == Bytes{28000} << 20);
  CHECK(cluster->nodes[0].fingerprint == hash(said.costs.front().fingerprint));
  REQUIRE(cluster->links.size() == 2);
  CHECK(cluster->links[0].bandwidth_bytes_per_s == Approx(25.0 * 1073741824));
  CHECK(cluster->links[1].bandwidth_bytes_per_s == Approx(5.5 * 1073741824));
  CHECK(hash(said.costs.front().fingerprint) == hash(alone.costs.front().fingerprint));
}

TEST_CASE("aceso: the authors' own machine is known by its links, and its settings are the published ones") {
  const AcesoFolder folder;
  folder.be_eurosys();
  const Published published = import_from(folder);
  const PublishedCosts& costs = published.costs.front();
  CHECK(costs.source == "import:microsoft/SuperScaler@53d0036");
  CHECK(costs.fingerprint.device.at("testbed") == "eurosys");
  CHECK(costs.fingerprint.device.at("gpu") == "V100-32GB");
  CHECK_THAT(costs.fingerprint.environment.at("published_by"), Catch::Contains("Aceso"));
  const Cluster* const cluster = cluster_called(published, "gpt-1_3B.cluster.json");
  REQUIRE(cluster != nullptr);
  CHECK(cluster->devices() == 4);
  const Model* const model = model_called(published, "gpt-1_3B.json");
  REQUIRE(model != nullptr);
  CHECK(model->microbatch_total == std::vector<std::int32_t>{1, 2, 4, 8});
}

TEST_CASE("aceso: of a size of one's own the layers and the batch are asked for") {
  const AcesoFolder folder;
  folder.write_gpt("9B", 1, 1, 0, 50);
  const Published asked = import_from(folder);
  CHECK(model_called(asked, "gpt-9B.json") == nullptr);
  CHECK(remarked(asked,
                 "gpt-9B: no documents: not a size that Aceso's authors published; say --layers (how often its "
                 "layer repeats) and --global-batch"));
  ProfileSupplement supplement = eight_v100s();
  supplement.layers = {3};
  supplement.global_batch = 64;
  const Published said = import_from(folder, supplement);
  const Model* const model = model_called(said, "gpt-9B.json");
  REQUIRE(model != nullptr);
  CHECK(model->operators.size() == 1 + 3 * 13 + 2);
  CHECK(model->global_batch == 64);
  CHECK(model->microbatch_total == std::vector<std::int32_t>{1});
  CHECK(model->operators[2].shape.empty());
  CHECK(cluster_called(said, "gpt-9B.cluster.json") != nullptr);
  // What is said goes before what was published.
  CHECK(model_called(said, "gpt-1_3B.json")->operators.size() == 1 + 3 * 13 + 2);
}

TEST_CASE("aceso: T5 and ResNet have the blocks of Aceso's own search") {
  const AcesoFolder folder;
  const std::string header = folder.read("gpt_1_3B_mbs1_tp1_algo0.csv");
  const auto row = [](const std::string& name, const std::string& us) {
    return name + "," + us + ",2.000,4.000,8.000,1.000,8.000,0.000,0.000\n";
  };
  std::string t5 = header.substr(0, header.find('\n') + 1);
  std::string resnet = t5;
  for (int i = 0; i < 39; ++i) t5 += row("op-" + std::to_string(i), std::to_string(i) + ".500");
  for (const char* name : {"conv1", "block-0-0-conv1", "block-0-1-conv1"}) {
    resnet += row(name, std::string(name) == "conv1" ? "9.000" : "7.000");
  }
  folder.write("t5_11B_mbs1_tp1_algo0.csv", t5);
  folder.write("resnet_500M_mbs16_tp1_algo0.csv", resnet);
  const Published published = import_from(folder);
  REQUIRE(model_called(published, "t5-11B.json") != nullptr);
  const std::vector<Operator>& operators = model_called(published, "t5-11B.json")->operators;
  CHECK(operators.size() == 1 + 24 * 13 + 2 + 24 * 21 + 2);
  CHECK(operators[14].name == "op-1");
  CHECK(operators[1 + 24 * 13 + 2].name == "op-16");
  // T5-22B is 11B with twice the layers, from the same tables.
  CHECK(model_called(published, "t5-22B.json")->operators.size() == 1 + 48 * 13 + 2 + 48 * 21 + 2);
  const Model* const small = model_called(published, "resnet-500M.json");
  REQUIRE(small != nullptr);
  CHECK(small->dtype == "float32");
  CHECK(small->operators[1].cost_key == small->operators[2].cost_key);
  CHECK(small->optimizer_bytes_per_parameter_byte == 2);
}

TEST_CASE("aceso: the caches give the digits that the tables lack") {
  const AcesoFolder folder;
  const auto values = [](double stored) {
    return pickle_list({pickle_number(202.0004), pickle_number(404.0), pickle_numpy(4), pickle_numpy(8.00049),
                        pickle_numpy(24), pickle_number(stored), "K" + std::string(1, '\0'), pickle_number(20)});
  };
  const std::string qkv = "gpt_1_3Benc-attention-qkvmbs1tp_size1algo0";
  const std::string gelu = "gpt_1_3Benc-MLP-gelumbs1tp_size1algo0";
  folder.write(
      "gpt_op_profile.pkl",
      pickle_file(pickle_dictionary(
          {{"profiled_results", pickle_dictionary({{qkv, values(8.015625)},
                                                   {gelu, values(7.5)},  // not what the table says: another run's
                                                   {"all_gather_2gpus_2.5_torch.float16", pickle_number(0.12949)},
                                                   {"all_gather_2gpus_1.75_torch.float16", pickle_number(0.5)},
                                                   {"all_gather_2gpus_12.25_torch.float32", pickle_number(0.53)}})},
           {"op_hash_list", pickle_dictionary({{"a", pickle_text("b")}})}})));
  const Published published = import_from(folder);
  CHECK(value_of(published, operator_key(CostKind::kOperatorStoredBytes, "enc-attention-qkv", 1, 1, "default")) ==
        8404992);
  CHECK(value_of(published, operator_key(CostKind::kOperatorOutputBytes, "enc-attention-qkv", 1, 1, "default")) ==
        std::llround(8.00049 * kMib));
  CHECK(value_of(published, operator_key(CostKind::kOperatorForward, "enc-attention-qkv", 1, 1, "default")) == 202000);
  CHECK(value_of(published, operator_key(CostKind::kOperatorStoredBytes, "enc-MLP-gelu", 1, 1, "default")) ==
        std::llround(8.016 * kMib));
  CHECK(value_of(published, collective_key("all_gather", 5 * kMib / 2)) == 129000);
  CHECK(value_of(published, collective_key("all_gather", 12 * kMib)) == 530000);
}

TEST_CASE("aceso: a cache that would run code stops the import, and says how to go on") {
  const AcesoFolder folder;
  const std::filesystem::path owned = folder.path() + "/owned";
  folder.write("gpt_op_profile.pkl", "\x80\x04" + pickle_text("os") + pickle_text("system") + "\x93" +
                                         pickle_text("touch " + owned.string()) + "\x85R.");
  refused("aceso", {folder.path()},
          {"gpt_op_profile.pkl: byte", "\"os.system\", which is code", "move this file away"});
  CHECK_FALSE(std::filesystem::exists(owned));
  folder.write("gpt_op_profile.pkl", pickle_file(pickle_dictionary({{"results", "N"}})));
  refused("aceso", {folder.path()}, {"gpt_op_profile.pkl", "profiled_results"});
  folder.write("gpt_op_profile.pkl",
               pickle_file(pickle_dictionary({{"profiled_results", pickle_dictionary({{"a", pickle_list({"N"})}})}})));
  refused("aceso", {folder.path()}, {"profiled_results[\"a\"]", "eight numbers"});
  folder.remove("gpt_op_profile.pkl");
  CHECK(import_from(folder).costs.size() == 1);
}

TEST_CASE("aceso: what failed when it was measured is left out and counted") {
  const AcesoFolder folder;
  folder.replace("gpt_1_3B_mbs2_tp2_algo1.csv", "enc-MLP-gelu,911.000,1822.000",
                 "enc-MLP-gelu,10000000.000,10000000.000");
  const Published published = import_from(folder);
  CHECK_FALSE(value_of(published, operator_key(CostKind::kOperatorForward, "enc-MLP-gelu", 2, 2, "alternate")));
  CHECK(remarked(published, "1 operators failed"));
}

TEST_CASE("aceso: half a profile gives costs, and says why there are no documents") {
  const AcesoFolder folder;
  for (const char* name : {"p2p_intra_node.csv", "p2p_inter_node.csv", "gpt_1_3B_mbs1_tp1_algo0.csv"})
    folder.remove(name);
  folder.write("notes.csv", "x\n");
  const Published published = import_from(folder);
  CHECK(published.costs.front().costs.size() == 7 * 16 * 8 + 3);
  CHECK(published.models.size() == 1);  // the tables of two samples have all operators
  CHECK(remarked(published, "p2p_intra_node.csv is not there"));
  CHECK(remarked(published, "notes.csv: not a name that Aceso's profiler gives"));
  folder.remove("gpt_1_3B_mbs2_tp1_algo0.csv");
  const Published less = import_from(folder);
  CHECK(less.models.empty());
  CHECK(remarked(less, "gpt-1_3B: no documents: expected 16"));
}

TEST_CASE("aceso: several folders are read together, each under its name") {
  const AcesoFolder mine;
  const AcesoFolder published("profiled-time-eurosys");
  published.be_eurosys();
  const Published both = imported("aceso", {mine.path(), published.path()});
  REQUIRE(both.costs.size() == 2);
  CHECK(both.costs[0].fingerprint.device.at("testbed") == "eurosys");
  CHECK(both.costs[1].fingerprint.device.at("testbed") == "profiled-time-mine");
  CHECK(cluster_called(both, "gpt-1_3B.cluster.json")->nodes[0].fingerprint == hash(both.costs[0].fingerprint));
  refused("aceso", {mine.path(), mine.path()}, {"a second folder of 'profiled-time-mine'"});
}

TEST_CASE("aceso: a folder without tables says what was expected and where they are") {
  const RawFolder folder("profiler");
  refused("aceso", {folder.path()}, {"MODEL_SIZE_mbsM_tpT_algoA.csv", "an empty directory", "microsoft/SuperScaler"});
  folder.write("README.md", "");
  REQUIRE(std::filesystem::create_directory(folder.path() + "/profiled-time-eurosys"));
  refused("aceso", {folder.path()}, {"README.md", "give " + folder.path() + "/profiled-time-eurosys/"});
  refused("aceso", {folder.path() + "/README.md"}, {"README.md", "directory"});
  refused("aceso", {}, {"nothing"});
  ProfileSupplement supplement;
  supplement.hidden = 1;
  refused("aceso", {folder.path()}, {"--hidden-size"}, supplement);
}

TEST_CASE("aceso: a malformed file is refused by file, line, column and what was expected") {
  struct Damage {
    const char* file;
    const char* what;
    const char* by;
    std::vector<std::string> words;
  };
  const char* const table = "gpt_1_3B_mbs1_tp2_algo1.csv";
  const std::vector<Damage> damages{
      {table, "forward-compute", "forward", {"algo1.csv:1", "forward-compute is missing"}},
      {table, "500.000", "NaN", {"algo1.csv:2: forward-compute", "NaN"}},
      {table, "500.000", "inf", {"algo1.csv:2: forward-compute", "inf"}},
      {table, "500.000", "1e300", {"algo1.csv:2: forward-compute", "1e300"}},
      {table, "500.000", "-1", {"algo1.csv:2: forward-compute", "-1"}},
      {table, "500.000,", "", {"algo1.csv:2", "9 cells, found 8"}},
      {table, "encoder-embedding", "../x", {"algo1.csv:2: op_name", "../x"}},
      {table, "enc-1st-layernorm", "encoder-embedding", {"algo1.csv:3: op_name", "once"}},
      {table, "8.016", "1e12", {"algo1.csv:2: activations"}},
      {"prim_gpt_1_3B_all_gather_2gpus.csv", "time(ms)", "time", {"2gpus.csv:1", "time(ms) is missing"}},
      {"prim_gpt_1_3B_all_gather_2gpus.csv", "0.530", "x", {"2gpus.csv:2: time(ms)", "x"}},
      {"prim_gpt_1_3B_all_gather_2gpus.csv", "\n2,", "\n12,", {"2gpus.csv:3: data_size(MB)", "once"}},
      {"prim_gpt_1_3B_all_gather_2gpus.csv", "\n2,", "\n2.5,", {"2gpus.csv:3: data_size(MB)", "2.5"}},
      {"p2p_intra_node.csv", "10.00, 20.00", "10.00, fast", {"p2p_intra_node.csv:2", "bandwidths in GiB/s", "fast"}},
      {"p2p_intra_node.csv", "10.00, ", "", {"p2p_intra_node.csv:2", "expected 3 bandwidths", "found 2"}},
      {"p2p_intra_node.csv", "1,2,4", "1,4,2", {"p2p_intra_node.csv:1", "rising"}},
      {"p2p_intra_node.csv", "10.00", "0", {"p2p_intra_node.csv:2", "positive"}},
  };
  for (const Damage& damage : damages) {
    const AcesoFolder folder;
    INFO(damage.file << ": " << damage.what << " becomes " << damage.by);
    folder.replace(damage.file, damage.what, damage.by);
    refused("aceso", {folder.path()}, damage.words);
  }
  const AcesoFolder folder;
  for (const char* name : {table, "prim_gpt_1_3B_all_gather_2gpus.csv", "p2p_intra_node.csv"}) {
    const std::string whole = folder.read(name);
    folder.write(name, "");
    refused("aceso", {folder.path()}, {name});
    folder.write(name, whole.substr(0, whole.find('\n') + 1));
    refused("aceso", {folder.path()}, {name});
    folder.write(name, whole);
  }
}

TEST_CASE("aceso: a huge file, a pipe and a directory in a table's place are refused unread") {
  const AcesoFolder folder;
  const std::string table = folder.path() + "/gpt_1_3B_mbs1_tp1_algo0.csv";
  std::filesystem::resize_file(table, std::uintmax_t{1} << 31);
  refused("aceso", {folder.path()}, {"gpt_1_3B_mbs1_tp1_algo0.csv", "at most 64 MiB"});
  folder.remove("gpt_1_3B_mbs1_tp1_algo0.csv");
  REQUIRE(std::system(("mkfifo " + table).c_str()) == 0);
  refused("aceso", {folder.path()}, {"gpt_1_3B_mbs1_tp1_algo0.csv", "plain file"});
}

TEST_CASE("aceso: randomly damaged folders are refused with a file's name or read, never worse") {
  constexpr std::uint64_t kSeed = 20261127;
  Random random(kSeed);
  const AcesoFolder folder;
  const std::vector<std::string> names{"gpt_1_3B_mbs1_tp1_algo0.csv", "prim_gpt_1_3B_all_reduce_2gpus.csv",
                                       "p2p_intra_node.csv"};
  for (int round = 0; round < 200; ++round) {
    const std::string& name = names[random.below(names.size())];
    const std::string whole = folder.read(name);
    std::string damaged = whole;
    constexpr std::string_view kBytes = "0123456789,.-eE\n\r \"xN\0\xff";
    for (std::uint64_t i = random.below(4); i < 4; ++i) {
      const std::size_t place = random.below(damaged.size());
      if (random.below(3) == 0) damaged.insert(place, damaged.substr(random.below(damaged.size()), 30));
      damaged[place] = kBytes[random.below(kBytes.size())];
    }
    folder.write(name, damaged);
    const auto published = read_published("aceso", {folder.path()});
    INFO("seed " << kSeed << ", round " << round << ", " << name);
    if (!published.ok()) CHECK_THAT(published.error().message, Catch::Contains(name));
    folder.write(name, whole);
  }
}
