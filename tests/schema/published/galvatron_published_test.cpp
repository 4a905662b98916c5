// Galvatron's tables, in a small directory with round numbers, which tests then damage.

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "published_files.hpp"
#include "schema/published.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// The later repository's commit a on three clusters, the paper's commit b on two.
class GalvatronFiles : public PublishedFiles {
 public:
  GalvatronFiles() {
    write("sources.csv",
          "src,repo,path,first_commit,first_date\n"
          "1,PKU-DAIR/Hetu-Galvatron,later.json,a,2023-11-30\n"
          "2,Hsword/Hetu,paper.json,b,2022-11-30\n"
          "3,PKU-DAIR/Hetu-Galvatron,latest.json,c,2025-01-17\n");
    std::string links = "src,nodes,gpus_per_node,group_size,consecutive_ranks,busbw_GB_per_s\n";
    for (const char* shape : {"1,4", "1,8", "2,8"}) {
      for (const char* group : {"2,1,100", "2,0,50", "4,1,80"}) links += std::string("1,") + shape + "," + group + "\n";
    }
    write("hw_allreduce_bandwidth.csv", links);
    write("hw_v1_allreduce_coefficient.csv",
          "src,nodes,gpus_per_node,pp_deg,group_size,consecutive_ranks,ms_per_MB_of_2(n-1)/n_volume\n"
          "2,1,8,1,8,1,0.25\n2,1,8,1,2,1,0.5\n2,1,8,2,2,0,0.125\n2,2,8,1,16,1,0.25\n2,2,8,1,2,0,1\n");
    write("hw_p2p_bandwidth.csv", "src,nodes,gpus_per_node,pp_size,bandwidth_GB_per_s\n1,1,8,2,10\n1,1,8,4,20\n");
    write("hw_v1_p2p_coefficient.csv", "src,nodes,gpus_per_node,pp_deg,ms_per_MB\n2,2,8,2,0.5\n");
    write("hw_overlap_coefficient.csv", "src,overlap_slowdown\n1,1.125\n2,1.3\n");
    write("hw_collective_time.csv",
          "src,nodes,gpus_per_node,op,group_size,message_MiB,time_ms\n3,1,8,allreduce,4,16,0.5\n3,1,8,all2all,4,16,0."
          "25\n");
    std::string times =
        "src,family,precision,model,layertype,batch,seq,forward_ms_per_layer_per_sample\n"
        "3,swin,bf16,swin-huge,other,4,[3136/784],1.5\n3,swin,bf16,swin-huge,0,4,4096_mlp,-0.5\n";
    std::string memory =
        "src,family,precision,model,layertype,megatron_sp,seq,param_MB_fp32,act_MB_per_sample_tp1,tp2,tp4,tp8,"
        "act_MB_per_sample_ckpt\n";
    std::string ends =
        "src,family,precision,model,where,megatron_sp,seq,vocab_tp,model_states_MB,activation_MB_per_sample\n";
    for (const char* model : {"gpt,bf16,hidden1600_head32_seqlen1024", "gpt,bf16,hidden2560_head32_seqlen2048",
                              "gpt,bf16,hidden4096_head32_seqlen2048", "llama,bf16,hidden4096_head32_seqlen2048",
                              "baichuan,bf16,hidden4096_head32_seqlen2048"}) {
      times += std::string("1,") + model + ",0,,,0.5\n";
      memory += std::string("1,") + model + ",0,0,,120,60,40,30,25,4\n";
      ends += std::string("1,") + model + ",pp_off,0,,,2000,300\n1," + model + ",pp_on_first,0,,,1000,10\n";
    }
    write("model_layer_time.csv", times);
    write("model_layer_memory.csv", memory);
    write("model_embed_head_memory.csv", ends);
    std::string paper =
        "src,model,layertype,precision,seq,hidden,forward_ms_per_layer_per_sample,param_MB,act_MB_per_sample_tp1,tp2,"
        "tp4,"
        "tp8,tp16,other_model_states_MB_8gpu,other_act_MB_per_sample_8gpu,other16_pp_off_ms,other16_pp_off_act,"
        "other16_first_ms,other16_first_act,other16_last_ms,other16_last_act,extra_overhead_ms\n";
    for (const char* layer : {"BERT-Huge,enc", "ViT-Huge,enc", "T5-Large,enc", "T5-Large,dec", "Swin-Huge,stage0",
                              "Swin-Huge,stage1", "Swin-Huge,stage2", "Swin-Huge,stage3"}) {
      paper += std::string("2,") + layer + ",fp32,512,1024,2,48,80,50,30,20,,640,300,641,301,500,260,520,250,60\n";
    }
    write("model_v1_paper_profiles.csv", paper);
  }
};

Published import_from(const GalvatronFiles& files) {
  auto published = read_published("galvatron", {files.path()});
  INFO((published.ok() ? "" : published.error().message));
  REQUIRE(published.ok());
  return std::move(published).value();
}

const PublishedCosts& costs_of(const Published& published, const std::string& testbed) {
  const auto found = std::find_if(published.costs.begin(), published.costs.end(), [&](const PublishedCosts& costs) {
    return costs.fingerprint.device.at("testbed") == testbed;
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

CostKey link(CostKind kind, const char* subject, std::int64_t bytes, std::int32_t group, const char* placement) {
  return {kind, subject, "", 0, 1, "default", bytes, group, placement};
}

CostKey layer(CostKind kind, const char* subject, const char* dtype, std::int32_t samples, std::int32_t tp) {
  return {kind, subject, dtype, samples, tp, "default", 0, 0, ""};
}

void refused(const GalvatronFiles& files, const std::vector<std::string>& words) {
  const auto published = read_published("galvatron", {files.path()});
  REQUIRE_FALSE(published.ok());
  CHECK(published.error().kind == ErrorKind::kBadInput);
  for (const std::string& word : words) CHECK_THAT(published.error().message, Catch::Contains(word));
}

constexpr std::int64_t kLong = std::int64_t{1} << 34;

}  // namespace

TEST_CASE("galvatron: what one commit measured of one cluster's shape is a profile") {
  const Published published = import_from(GalvatronFiles());
  CHECK(published.costs.size() == 6);  // three clusters, two of the paper, and the latest commit's
  std::vector<std::string> hashes;
  for (const PublishedCosts& costs : published.costs) hashes.push_back(hash(costs.fingerprint));
  std::sort(hashes.begin(), hashes.end());
  CHECK(std::unique(hashes.begin(), hashes.end()) == hashes.end());
}

TEST_CASE("galvatron: a line of bytes is stored as its ends, where it was measured") {
  const Published published = import_from(GalvatronFiles());
  const PublishedCosts& node = costs_of(published, "galvatron-titan-1x8");
  const double gib16 = 16384;  // MiB
  CHECK(mean_of(node, link(CostKind::kCollective, "all_reduce", kLong, 8, "intra_node")) ==
        Approx(0.25 * 2 * 7 / 8 * gib16 * 1e6));
  CHECK(mean_of(node, link(CostKind::kCollective, "reduce_scatter", kLong, 8, "intra_node")) ==
        Approx(0.25 * 7 / 8 * gib16 * 1e6));
  CHECK(mean_of(node, link(CostKind::kCollective, "all_gather", kLong / 8, 8, "intra_node")) ==
        Approx(0.25 * 7 / 8 * gib16 * 1e6));
  CHECK(mean_of(node, link(CostKind::kCollective, "all_reduce.pp2.strided", kLong, 2, "intra_node")).has_value());
  CHECK(mean_of(node, link(CostKind::kOverlapComputation, "all_reduce", kLong, 8, "intra_node")) == Approx(1.3e6));
  const PublishedCosts& nodes = costs_of(published, "galvatron-titan-2x8");
  CHECK(mean_of(nodes, link(CostKind::kCollective, "all_reduce", kLong, 2, "inter_node")) == Approx(gib16 * 1e6));
  CHECK(mean_of(nodes, link(CostKind::kCollective, "all_reduce", kLong, 16, "inter_node")).has_value());
  CHECK(mean_of(nodes, link(CostKind::kPointToPoint, "send_recv", kLong, 0, "inter_node")) ==
        Approx(0.5 * gib16 * 1e6));
  const PublishedCosts& points = costs_of(published, "galvatron-1x8");
  CHECK(points.costs.size() > 2);
}

TEST_CASE("galvatron: layers follow its own rules over samples and ranks") {
  const Published published = import_from(GalvatronFiles());
  const PublishedCosts& node = costs_of(published, "galvatron-titan-1x8");
  CHECK(mean_of(node, layer(CostKind::kOperatorForward, "bert-huge/enc", "float32", 1, 1)) == Approx(2e6));
  CHECK(mean_of(node, layer(CostKind::kOperatorBackward, "bert-huge/enc", "float32", 1024, 1)) == Approx(4e6 * 1024));
  const double reduction = 512.0 * 1024 * 4 / 1048576 * 0.5;  // ms of a sample over two ranks
  CHECK(mean_of(node, layer(CostKind::kOperatorForward, "bert-huge/enc", "float32", 1, 2)) ==
        Approx((1 + 2 * reduction) * 1e6));
  CHECK(mean_of(node, layer(CostKind::kOperatorForward, "t5-large/dec", "float32", 1, 2)) ==
        Approx((1 + 3 * reduction) * 1e6));
  CHECK(mean_of(node, layer(CostKind::kOperatorStoredBytes, "bert-huge/enc", "float32", 1, 8)) ==
        Approx(20 * 1048576.0));
  // Nobody measured four neighbours there.
  CHECK_FALSE(mean_of(node, layer(CostKind::kOperatorForward, "bert-huge/enc", "float32", 1, 4)).has_value());
}

TEST_CASE("galvatron: models and clusters of the published settings") {
  const Published published = import_from(GalvatronFiles());
  const auto model = std::find_if(published.models.begin(), published.models.end(),
                                  [](const PublishedModel& one) { return one.file == "t5-large-32.json"; });
  REQUIRE(model != published.models.end());
  CHECK(model->model.operators.size() == 32);
  CHECK(model->model.operators[16].kind == "decoder_layer");
  CHECK(model->model.operators[0].output_bytes == 512 * 1024 * 4);
  REQUIRE(model->model.galvatron.has_value());
  CHECK(model->model.galvatron->family == GalvatronFamily::kT5);
  CHECK(model->model.galvatron->overhead_ms == 60);
  CHECK(model->model.galvatron->first == GalvatronEnds{500, 260});
  const auto again = parse_model(to_json(model->model), "again");
  REQUIRE(again.ok());
  CHECK(again.value().galvatron == model->model.galvatron);
  const auto gpt = std::find_if(published.models.begin(), published.models.end(),
                                [](const PublishedModel& one) { return one.file == "gpt-1.5b.json"; });
  REQUIRE(gpt != published.models.end());
  CHECK(gpt->model.dtype == "bfloat16");
  CHECK(gpt->model.operators[0].parameter_bytes == 60 << 20);
  CHECK(gpt->model.optimizer_bytes_per_parameter_byte == 6);
  const auto cluster = std::find_if(published.clusters.begin(), published.clusters.end(),
                                    [](const auto& one) { return one.file == "bert-huge-48-16x-8g.cluster.json"; });
  REQUIRE(cluster != published.clusters.end());
  CHECK(cluster->cluster.nodes.size() == 2);
  CHECK(cluster->cluster.nodes[1].memory_bytes == Bytes{8} << 30);
  CHECK(cluster->cluster.nodes[0].fingerprint == hash(costs_of(published, "galvatron-titan-2x8").fingerprint));
}

TEST_CASE("galvatron: a model with embedding and head as operators comes beside each") {
  const Published published = import_from(GalvatronFiles());
  const auto whole = std::find_if(published.models.begin(), published.models.end(),
                                  [](const PublishedModel& one) { return one.file == "t5-large-32-whole.json"; });
  REQUIRE(whole != published.models.end());
  const Model& model = whole->model;
  CHECK(model.name == "t5-large-32-whole");
  CHECK_FALSE(model.galvatron.has_value());
  REQUIRE(model.operators.size() == 34);
  const Operator& embedding = model.operators.front();
  const Operator& head = model.operators.back();
  CHECK(embedding.kind == "embedding");
  CHECK(embedding.parameter_bytes == 125 << 20);  // a quarter of the first stage's states
  CHECK(embedding.output_bytes == model.operators[1].output_bytes);
  CHECK(embedding.activation_bytes >= embedding.output_bytes);
  CHECK(head.kind == "head");
  CHECK(head.output_bytes == 0);
  CHECK(head.forward_flops == 2 * head.parameter_bytes / 4 * 512);
  CHECK(model.operators[1].tensor_all_reduces == 2);
  CHECK(model.operators[17].tensor_all_reduces == 3);
  CHECK(model.operators[1].forward_flops == 2 * model.operators[1].parameter_bytes / 4 * 512);
  CHECK(parse_model(to_json(model), "again").ok());
}

TEST_CASE("galvatron: importing the same files again is the same batch; a corrected file is another") {
  const GalvatronFiles files;
  const Published one = import_from(files);
  const Published two = import_from(files);
  for (std::size_t i = 0; i < one.costs.size(); ++i) CHECK(one.costs[i].origin == two.costs[i].origin);
  files.replace("hw_overlap_coefficient.csv", "2,1.3", "2,1.4");
  const Published three = import_from(files);
  CHECK(costs_of(one, "galvatron-titan-1x8").origin != costs_of(three, "galvatron-titan-1x8").origin);
  CHECK(costs_of(one, "galvatron-1x4").origin == costs_of(three, "galvatron-1x4").origin);
}

TEST_CASE("galvatron: a malformed row is refused by file, line, column and what was expected") {
  const auto damaged = [](const char* file, const char* what, const char* by, const std::vector<std::string>& words) {
    GalvatronFiles files;
    files.replace(file, what, by);
    refused(files, words);
  };
  damaged("sources.csv", "\n2,", "\n1,", {"sources.csv:3", "src", "a number of its own"});
  damaged("hw_allreduce_bandwidth.csv", "2,1,100", "2,1,fast",
          {"hw_allreduce_bandwidth.csv:2", "busbw_GB_per_s", "fast"});
  damaged("hw_allreduce_bandwidth.csv", "2,1,100", "2,1,0", {"hw_allreduce_bandwidth.csv:2", "above 0"});
  damaged("hw_allreduce_bandwidth.csv", "1,1,4,2,1", "9,1,4,2,1",
          {"hw_allreduce_bandwidth.csv:2", "src", "sources.csv"});
  damaged("hw_v1_allreduce_coefficient.csv", "2,1,8,1,8,1", "2,1,8,1,32,1",
          {"hw_v1_allreduce_coefficient.csv:2", "group_size"});
  damaged("hw_overlap_coefficient.csv", "1,1.125", "1,0.9", {"hw_overlap_coefficient.csv:2", "overlap_slowdown"});
  damaged("hw_collective_time.csv", "allreduce", "allmax", {"hw_collective_time.csv:2", "op", "all2all"});
  damaged("model_layer_time.csv", "[3136/784]", "[3136;784]", {"model_layer_time.csv:2", "seq"});
  damaged("model_layer_memory.csv", "120,60", "120,", {"model_layer_memory.csv:2", "act_MB_per_sample_tp1"});
  damaged("model_v1_paper_profiles.csv", "BERT-Huge,enc", "BERT-Tiny,enc", {"bert-huge/enc", "bert-huge-32"});
  GalvatronFiles files;
  files.remove("hw_p2p_bandwidth.csv");
  refused(files, {"hw_p2p_bandwidth.csv"});
}
