// The files of Galvatron's own profilers: what they hold becomes costs and documents, what is wrong is refused by name.

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/random.hpp"
#include "galvatron_folder.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

constexpr std::int64_t kLong = std::int64_t{1} << 34;
constexpr double kMib = 1048576;

Published import_from(const GalvatronFolder& folder, const ProfileSupplement& supplement = {}) {
  return imported("galvatron", {folder.path()}, supplement);
}

CostKey link(CostKind kind, const char* subject, std::int64_t bytes, std::int32_t group, const char* placement) {
  return {kind, subject, "", 0, 1, "default", bytes, group, placement};
}

CostKey layer(CostKind kind, const char* subject, std::int32_t samples, std::int32_t tp) {
  return {kind, subject, "bfloat16", samples, tp, "default", 0, 0, ""};
}

}  // namespace

TEST_CASE("galvatron: its hardware files become costs of links") {
  const GalvatronFolder folder;
  const Published published = import_from(folder);
  REQUIRE(published.costs.size() == 1);
  const PublishedCosts& costs = published.costs.front();
  CHECK(costs.fingerprint.device.at("testbed") == "galvatron-2x4");
  CHECK(costs.fingerprint.device.count("gpu") == 0);  // the files do not say it
  CHECK(costs.fingerprint.environment.at("profile") == "llama2-7b");
  CHECK(costs.source == "import:galvatron");
  const double gib16 = 16384;  // MiB
  CHECK(value_of(published, link(CostKind::kCollective, "all_reduce", kLong, 4, "intra_node")) ==
        Approx(1.5 * gib16 / 160 * 1e6));
  CHECK(value_of(published, link(CostKind::kCollective, "all_reduce", kLong, 8, "inter_node")) ==
        Approx(1.75 * gib16 / 50 * 1e6));
  CHECK(value_of(published, link(CostKind::kCollective, "all_reduce.strided", kLong, 2, "inter_node")) ==
        Approx(gib16 / 20 * 1e6));
  CHECK(value_of(published, link(CostKind::kCollective, "all_reduce", 1 << 20, 4, "intra_node")) == Approx(62500));
  CHECK(value_of(published, link(CostKind::kCollective, "all_to_all", 16 << 20, 4, "intra_node")) == Approx(250000));
  CHECK(value_of(published, link(CostKind::kPointToPoint, "send_recv", kLong, 0, "inter_node")) ==
        Approx(gib16 / 10 * 1e6));
  CHECK(value_of(published, link(CostKind::kOverlapComputation, "all_reduce", kLong, 4, "intra_node")) ==
        Approx(1.125e6));
}

TEST_CASE("galvatron: a layer's times stand at the batches that were measured, and at the end of their line") {
  const GalvatronFolder folder;
  const Published published = import_from(folder);
  const char* const subject = "llama2-7b/layer0";
  CHECK(value_of(published, layer(CostKind::kOperatorForward, subject, 1, 1)) == Approx(4.5e6));
  CHECK(value_of(published, layer(CostKind::kOperatorForward, subject, 4, 1)) == Approx(16.5e6));
  CHECK(value_of(published, layer(CostKind::kOperatorBackward, subject, 4, 1)) == Approx(33e6));
  // The least-squares line through (1, 4.5), (2, 8.5), (4, 16.5) is 0.5 + 4 b.
  CHECK(value_of(published, layer(CostKind::kOperatorForward, subject, 1024, 1)) == Approx(4096.5e6));
  CHECK_FALSE(value_of(published, layer(CostKind::kOperatorForward, subject, 3, 1)));
  // Two ranks share the time and reduce twice: 2048 x 4096 bfloat16 values, 16 MiB, over a link of 128 MiB/ms.
  CHECK(value_of(published, layer(CostKind::kOperatorForward, subject, 2, 2)) ==
        Approx((4.25 + 2 * 2 * 16.0 / 128) * 1e6));
  CHECK(value_of(published, layer(CostKind::kOperatorStoredBytes, subject, 1, 2)) == Approx(256 * kMib));
  CHECK(value_of(published, layer(CostKind::kOperatorInputBytes, subject, 1, 1)) == Approx(32 * kMib));
  // Embedding and head were timed together; each has a half.
  CHECK(value_of(published, layer(CostKind::kOperatorForward, "llama2-7b/embedding", 2, 1)) == Approx(4e6));
  CHECK(value_of(published, layer(CostKind::kOperatorForward, "llama2-7b/head", 2, 1)) == Approx(4e6));
  CHECK(value_of(published, layer(CostKind::kOperatorStoredBytes, "llama2-7b/head", 1, 1)) == Approx(720 * kMib));
}

TEST_CASE("galvatron: the model's document, with its ends beside it, and its cluster") {
  const GalvatronFolder folder;
  const Published published = import_from(folder);
  const Model* const model = model_called(published, "llama2-7b.json");
  REQUIRE(model != nullptr);
  CHECK(model->operators.size() == 3);  // as the plan says
  CHECK(model->global_batch == 16);
  CHECK(model->dtype == "bfloat16");
  const Operator& op = model->operators[1];
  CHECK(op.kind == "decoder_only_layer");
  CHECK(op.cost_key == "llama2-7b/layer0");
  CHECK(op.parameter_bytes == 400 << 20);
  CHECK(op.activation_bytes == 512 << 20);
  CHECK(op.output_bytes == 2048 * 4096 * 2);
  REQUIRE(model->galvatron.has_value());
  CHECK(model->galvatron->family == GalvatronFamily::kGpt);
  CHECK(model->galvatron->whole == GalvatronEnds{4000, 840});
  CHECK(model->galvatron->last == GalvatronEnds{2024, 720});
  CHECK(parse_model(to_json(*model), "again").ok());
  const Model* const whole = model_called(published, "llama2-7b-whole.json");
  REQUIRE(whole != nullptr);
  CHECK(whole->operators.size() == 5);
  CHECK(whole->operators.front().cost_key == "llama2-7b/embedding");
  CHECK(whole->operators.front().activation_bytes == 120 << 20);
  const Cluster* const cluster = cluster_called(published, "llama2-7b.cluster.json");
  REQUIRE(cluster != nullptr);
  CHECK(cluster->devices() == 8);
  CHECK(cluster->nodes.size() == 2);
  CHECK(cluster->nodes[1].memory_bytes == Bytes{36} << 30);
  CHECK(cluster->nodes[1].fingerprint == hash(published.costs.front().fingerprint));
  CHECK(cluster->links[0].bandwidth_bytes_per_s == Approx(128 * kMib * 1000));
}

TEST_CASE("galvatron: what no file says is asked for, and taken when it is said") {
  const GalvatronFolder folder;
  folder.remove("galvatron_config_llama2-7b_2nodes_4gpus_per_node_36GB_bf16.json");
  const Published asked = import_from(folder);
  CHECK(asked.models.empty());
  CHECK(remarked(asked, "llama2-7b: costs only, no documents"));
  CHECK(remarked(asked, "say --global-batch"));
  ProfileSupplement supplement;
  supplement.global_batch = 64;
  const Published said = import_from(folder, supplement);
  REQUIRE(model_called(said, "llama2-7b.json") != nullptr);
  CHECK(model_called(said, "llama2-7b.json")->operators.size() == 32);  // as Galvatron's model of that name has
  CHECK(said.clusters.empty());
  CHECK(remarked(said, "say --device-memory"));
  supplement.device_memory = Bytes{80} << 30;
  supplement.layers = {2};
  supplement.hidden = 1024;
  const Published all = import_from(folder, supplement);
  CHECK(model_called(all, "llama2-7b.json")->operators.size() == 2);
  CHECK(model_called(all, "llama2-7b.json")->operators[0].output_bytes == 2048 * 1024 * 2);
  CHECK(cluster_called(all, "llama2-7b.cluster.json")->nodes[0].memory_bytes == Bytes{80} << 30);
  supplement.layers = {2, 2};
  CHECK(remarked(import_from(folder, supplement), "--layers with 1 count"));
  supplement = {};
  supplement.nodes = 2;
  refused("galvatron", {folder.path()}, {"--nodes", "names of Galvatron's hardware files"}, supplement);
}

TEST_CASE("galvatron: a model of one's own needs its width, without which several ranks have no times") {
  const GalvatronFolder folder;
  for (const char* kind : {"computation", "memory"}) {
    const std::string name = std::string(kind) + "_profiling_bf16_llama2-7b_all.json";
    folder.write(std::string(kind) + "_profiling_bf16_mine_all.json", folder.read(name));
    folder.remove(name);
  }
  const Published published = import_from(folder);
  CHECK(value_of(published, layer(CostKind::kOperatorForward, "mine/layer0", 2, 1)) == Approx(8.5e6));
  CHECK_FALSE(value_of(published, layer(CostKind::kOperatorForward, "mine/layer0", 2, 2)));
  CHECK(remarked(published, "say --layers with 1 count and --hidden-size and --global-batch"));
}

TEST_CASE("galvatron: the files of version 2.0, whose names say what their keys do not") {
  const RawFolder outer("models");
  const std::string directory = outer.path() + "/gpt/configs";
  REQUIRE(std::filesystem::create_directories(directory));
  outer.write("gpt/configs/computation_profiling_bf16_hidden4096_head32_seqlen2048.json",
              R"({"layernum[6]_bsz2": 83.9, "layernum[12]_bsz2": 139.4, "layertype_0": 4.625})");
  outer.write("gpt/configs/memory_profiling_bf16_hidden4096_head32_seqlen2048.json",
              R"({"1_1_8": {}, "1_1_8_c": {}, "layertype_0": {"parameter_size": 768.0, "tp_activation_per_bsz_dict":
                  {"1": 272.25, "2": 176.125, "4": 128.0, "8": 104.125, "checkpoint": 16.0}},
                "other_memory_pp_off": {"model_states": 6540.0, "activation": 920.5},
                "other_memory_pp_on_first": {"model_states": 3303.0, "activation": 26.5},
                "other_memory_pp_on_last": {"model_states": 3431.0, "activation": 352.5}})");
  outer.write("gpt/configs/galvatron_config_gpt-6.7b_2nodes_8gpus_per_node_40GB_bf16_example.json",
              R"({"tp_sizes_enc": "1,1,1,1", "global_bsz": 64})");
  const Published published = imported("galvatron", {directory});
  REQUIRE(published.costs.size() == 1);
  const char* const subject = "gpt-hidden4096_head32_seqlen2048/layer0";
  CHECK(value_of(published, layer(CostKind::kOperatorForward, subject, 1, 1)) == Approx(4.625e6));
  CHECK(value_of(published, layer(CostKind::kOperatorForward, subject, 1024, 1)) == Approx(4736e6));
  const Model* const model = model_called(published, "gpt-hidden4096_head32_seqlen2048.json");
  REQUIRE(model != nullptr);
  CHECK(model->operators.size() == 4);
  CHECK(model->operators[0].output_bytes == 2048 * 4096 * 2);
  CHECK(model->galvatron->first == GalvatronEnds{3303, 26.5});
  CHECK(remarked(published, "give the directory of its hardware, too"));
}

TEST_CASE("galvatron: several kinds of layers, and several lengths") {
  const GalvatronFolder folder;
  folder.write("computation_profiling_bf16_t5-3B.json",
               R"({"layertype_0_bsz8_seq512": 1.0, "layertype_1_bsz8_seq512": 1.5,
                   "layertype_other_bsz8_seq[512,512]": 0})");
  folder.write("memory_profiling_bf16_t5-3B.json",
               R"({"layertype_0_sp": {"512": {"parameter_size": 192.0, "tp_activation_per_bsz_dict": {"1": 52.0}}},
                   "layertype_1_sp": {"512": {"parameter_size": 258.0, "tp_activation_per_bsz_dict": {"1": 72.0}}},
                   "other_memory_pp_off_sp": {"[512,512]": {"model_states": {"1": 1684.5}, "activation": {"1": 89.5}}}})");
  folder.write(
      "computation_profiling_fp32_llama2-7b-long_all.json",
      R"({"layertype_0_bsz1_seq1024": 2.0, "layertype_0_bsz1_seq2048": 4.0, "layertype_0_bsz1_seq4096": -0.5})");
  ProfileSupplement supplement;
  supplement.global_batch = 8;
  const Published published = import_from(folder, supplement);
  const Model* const t5 = model_called(published, "t5-3B.json");
  REQUIRE(t5 != nullptr);
  CHECK(t5->operators.size() == 48);
  CHECK(t5->operators[23].kind == "encoder_layer");
  CHECK(t5->operators[24].kind == "decoder_layer");
  CHECK(t5->operators[24].tensor_all_reduces == 3);
  CHECK(t5->galvatron->family == GalvatronFamily::kT5);
  CHECK(t5->galvatron->whole == GalvatronEnds{1684.5, 89.5});
  const auto forward = [&](const char* subject) {
    CostKey key = layer(CostKind::kOperatorForward, subject, 1, 1);
    key.dtype = "float32";
    return value_of(published, key);
  };
  CHECK(forward("llama2-7b-long-s1024/layer0") == Approx(2e6));
  CHECK(forward("llama2-7b-long-s2048/layer0") == Approx(4e6));
  CHECK_FALSE(forward("llama2-7b-long-s4096/layer0"));
  CHECK(remarked(published, "llama2-7b-long-s4096/layer0: its time is 0 or less"));
  CHECK(remarked(published, "give memory_profiling_fp32_llama2-7b-long_all.json"));
}

TEST_CASE("galvatron: two models of one name, two files of one shape and raw readings alone") {
  const GalvatronFolder one;
  const GalvatronFolder two("other");
  refused("galvatron", {one.path(), two.path()}, {"a second file of the all-reduce bandwidths of 2 x 4 devices"});
  for (const char* name : {"allreduce_bandwidth_2nodes_4gpus_per_node.json", "overlap_coefficient.json",
                           "p2p_bandwidth_2nodes_4gpus_per_node.json", "sp_time_2nodes_4gpus_per_node.json"}) {
    two.remove(name);
  }
  refused("galvatron", {one.path(), two.path()}, {"a second model called llama2-7b"});
  two.write("computation_profiling_bf16_llama2-7b_all.json", R"({"layernum[2]_bsz1_seq2048": 15.0})");
  CHECK(remarked(imported("galvatron", {one.path(), two.path()}), "times of whole models only"));
  refused("galvatron", {two.path()}, {"nothing to store", "computation_profiling_*.json", "whole models only"});
}

TEST_CASE("galvatron: a folder without its files says what was expected") {
  const RawFolder folder("empty");
  refused("galvatron", {folder.path()}, {"allreduce_bandwidth_1nodes_8gpus_per_node.json", "an empty directory"});
  folder.write("computation_profiling_int8_x.json", "{}");
  refused("galvatron", {folder.path()}, {"computation_profiling_int8_x.json", "hardware_configs"});
}

TEST_CASE("galvatron: a malformed file is refused by its path and what was expected") {
  struct Damage {
    const char* file;
    const char* what;
    const char* by;
    std::vector<std::string> words;
  };
  const char* const links = "allreduce_bandwidth_2nodes_4gpus_per_node.json";
  const char* const times = "computation_profiling_bf16_llama2-7b_all.json";
  const char* const sizes = "memory_profiling_bf16_llama2-7b_all.json";
  const std::vector<Damage> damages{
      {links, "160", "NaN", {links, "line"}},
      {links, "160", "1e999", {links}},
      {links, "160", "0", {links, "allreduce_size_4_consec_1", "above 0"}},
      {links, "160", "1e300", {links, "at most"}},
      {links, "160", "\"fast\"", {links, "allreduce_size_4_consec_1", "fast"}},
      {links, "allreduce_size_4_consec_1", "allreduce_size_16_consec_1", {links, "2 to 8 devices"}},
      {links, "allreduce_size_4_consec_1", "allreduce_size_4", {links, "allreduce_size_N_consec_0"}},
      {links, "allreduce_size_4_consec_1", "allreduce_size_2_consec_1", {links, "allreduce_size_2_consec_1"}},
      {"p2p_bandwidth_2nodes_4gpus_per_node.json", "pp_size_4", "pp_size_x", {"pp_size_N"}},
      {"overlap_coefficient.json", "1.125", "0.9", {"overlap_coe", "at least 1"}},
      {"sp_time_2nodes_4gpus_per_node.json", "_1MB_time", "_0MB_time", {"allreduce_size_N_MMB_time"}},
      {times, "layertype_0_bsz2_seq2048", "layertype_0_bszX_seq2048", {times, "layertype_I_bszB_seqS"}},
      {times, "4.25", "1e300", {times, "layertype_0_bsz2_seq2048", "1000000000"}},
      {times, "4.25", "[[[[1]]]]", {times, "layertype_0_bsz2_seq2048"}},
      {sizes, "\"parameter_size\": 800.0", "\"parameter_size\": 0", {sizes, "parameter_size", "above 0"}},
      {sizes, "\"1\": 512.0", "\"3\": 512.0", {sizes, "counts of ranks"}},
      {sizes, "\"1\": 512.0, ", "", {sizes, "what one rank keeps"}},
      {sizes, "layertype_0_sp", "layertype_x", {sizes, "layertype_I"}},
      {"galvatron_config_llama2-7b_2nodes_4gpus_per_node_36GB_bf16.json", "16", "-16", {"global_bsz"}},
  };
  for (const Damage& damage : damages) {
    const GalvatronFolder folder;
    INFO(damage.file << ": " << damage.what << " becomes " << damage.by);
    folder.replace(damage.file, damage.what, damage.by);
    refused("galvatron", {folder.path()}, damage.words);
  }
  const GalvatronFolder folder;
  const std::string whole = folder.read(times);
  for (std::size_t end = 0; end + 1 < whole.size(); end += 7) {
    folder.write(times, whole.substr(0, end));
    refused("galvatron", {folder.path()}, {times});
  }
  folder.write(times, std::string(100000, '['));
  refused("galvatron", {folder.path()}, {times});
  folder.write(times, "{}");
  refused("galvatron", {folder.path()}, {times, "an empty object"});
  folder.write(times, "[1]");
  refused("galvatron", {folder.path()}, {times});
  folder.write(times, R"({"layertype_0": null})");
  refused("galvatron", {folder.path()}, {times, "layertype_0"});
}

TEST_CASE("galvatron: randomly damaged folders are refused with a file's name or read, never worse") {
  constexpr std::uint64_t kSeed = 20261127;
  Random random(kSeed);
  const GalvatronFolder folder;
  const std::vector<std::string> names{
      "allreduce_bandwidth_2nodes_4gpus_per_node.json", "computation_profiling_bf16_llama2-7b_all.json",
      "memory_profiling_bf16_llama2-7b_all.json", "galvatron_config_llama2-7b_2nodes_4gpus_per_node_36GB_bf16.json"};
  for (int round = 0; round < 300; ++round) {
    const std::string& name = names[random.below(names.size())];
    const std::string whole = folder.read(name);
    std::string damaged = whole;
    constexpr std::string_view kBytes = "0123456789,.-eE\n \"{}[]:_xsN\0\xff";
    for (std::uint64_t i = random.below(4); i < 4; ++i) {
      const std::size_t place = random.below(damaged.size());
      if (random.below(3) == 0) damaged.insert(place, damaged.substr(random.below(damaged.size()), 30));
      damaged[place] = kBytes[random.below(kBytes.size())];
    }
    folder.write(name, damaged);
    const auto published = read_published("galvatron", {folder.path()});
    INFO("seed " << kSeed << ", round " << round << ", " << name);
    if (!published.ok()) CHECK_THAT(published.error().message, Catch::Contains(name));
    folder.write(name, whole);
  }
}
