#include "published_files.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>

namespace trimtab::test {

namespace {

constexpr const char* kOperatorHeader =
    "db,model,size,dtype,microbatch_samples,tp,algo,op_index,op_name,fwd_us,bwd_us,input_mib,output_mib,weight_mib,"
    "activation_mib,fwd_reserved_mib,bwd_reserved_mib,input_bytes,output_bytes,weight_bytes,activation_bytes,"
    "fwd_reserved_bytes,bwd_reserved_bytes\n";

// An operator that takes 4 MiB in and gives 8 MiB out per sample.
std::string operator_row(const std::string& database, const std::string& size, int samples, int tp, int algo,
                         const std::string& op, const std::string& forward_us) {
  const std::string in = std::to_string(4 * samples);
  const std::string out = std::to_string(8 * samples);
  const std::string in_bytes = std::to_string((4 * samples) << 20);
  const std::string out_bytes = std::to_string((8 * samples) << 20);
  return database + ",gpt," + size + ",fp16," + std::to_string(samples) + "," + std::to_string(tp) + "," +
         std::to_string(algo) + ",0," + op + "," + forward_us + ",200.250," + in + ".000," + out + ".000,2.000," + out +
         ".000,0.008,1.000," + in_bytes + "," + out_bytes + ",2097152," + out_bytes + ",8192,1048576\n";
}

std::string operator_rows() {
  std::string text = kOperatorHeader;
  int number = 100;
  for (const std::string size : {"tiny", "small"}) {
    for (const char* op : {"encoder-embedding", "enc-attention-qkv", "enc-MLP-gelu", "gpt-post-process"}) {
      for (const int samples : {1, 2}) {
        for (const int tp : {1, 2}) {
          for (const int algo : {0, 1}) {
            text += operator_row("eurosys", size, samples, tp, algo, op, std::to_string(number++) + ".125");
          }
        }
      }
    }
  }
  // Another machine, and two operators of one shape: equal rows.
  for (const char* op : {"encoder-embedding", "enc-attention-qkv", "enc-MLP-gelu", "gpt-post-process"}) {
    text += operator_row("miniset", "tiny", 1, 1, 0, op, "7.500");
  }
  return text;
}

}  // namespace

PublishedFiles::PublishedFiles() {
  write("operators.csv", operator_rows());
  write("collectives.csv",
        "db,model,size,dtype,primitive,group_size,topology,key_mib,bytes,bytes_exact,us,measured\n"
        "eurosys,gpt,tiny,fp16,all_gather,2,intra-node,2,2621440,1,129,1\n"
        "eurosys,gpt,tiny,fp16,all_gather,2,intra-node,4096,4294967296,0,,0\n"
        "eurosys,gpt,small,fp16,all_gather,2,intra-node,2,2621440,1,131,1\n");
  write("p2p.csv",
        "db,link,bytes,gib_per_s,us\n"
        "eurosys,intra-node,1048576,17.22,56.7\n"
        "eurosys,intra-node,2097152,24.83,78.7\n"
        "eurosys,inter-node,1048576,3.88,251.7\n");
  write("models.csv",
        "model,size,layers,seq_len,decoder_seq_len,hidden,ffn_hidden,heads,kv_channels,vocab,dtype,num_ops,nodes,"
        "gpus_per_node,global_batch_samples,microbatch_values,memory_limit_mib,main_param_multiple_of_weight,"
        "optimizer_multiple_of_weight\n"
        "gpt,tiny,3,16,,8,32,2,4,100,fp16,8,2,4,64,1 2,28000,2,4\n"
        "gpt,small,1,16,,8,32,2,4,100,fp16,4,1,2,64,1 2,28000,2,4\n"
        "gpt,small,1,16,,8,32,2,4,100,fp16,4,1,4,64,1 2,16384,2,4\n");
  write("op_lists.json", R"({
"gpt/tiny": {"profile_model": "gpt", "profile_size": "tiny", "layers": 3, "num_ops": 8, "blocks": [
  {"repeat": 1, "ops": ["encoder-embedding"]},
  {"repeat": 3, "ops": ["enc-attention-qkv", "enc-MLP-gelu"]},
  {"repeat": 1, "ops": ["gpt-post-process"]}]},
"gpt/small": {"profile_model": "gpt", "profile_size": "small", "layers": 1, "num_ops": 4, "blocks": [
  {"repeat": 1, "ops": ["encoder-embedding", "enc-attention-qkv", "enc-MLP-gelu", "gpt-post-process"]}]}
})");
}

void PublishedFiles::write(const std::string& name, const std::string& text) const {
  write_bytes(directory_.file(name), text);
}

std::string PublishedFiles::read(const std::string& name) const {
  return bytes_of(directory_.file(name));
}

void PublishedFiles::replace(const std::string& name, const std::string& what, const std::string& by) const {
  std::string text = read(name);
  const std::size_t place = text.find(what);
  REQUIRE(place != std::string::npos);
  write(name, text.replace(place, what.size(), by));
}

void PublishedFiles::remove(const std::string& name) const {
  std::filesystem::remove(directory_.file(name));
}

void PublishedFiles::pack(const std::string& name) const {
  const std::string text = read(name);
  gzFile file = gzopen(directory_.file(name + ".gz").c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(file) == Z_OK);
  remove(name);
}

}  // namespace trimtab::test
