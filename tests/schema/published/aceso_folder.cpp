#include "aceso_folder.hpp"

#include <array>

namespace trimtab::test {

namespace {

constexpr std::array<const char*, 16> kOperators{
    "encoder-embedding",     "enc-1st-layernorm",     "enc-attention-qkv",
    "enc-attention-score",   "enc-attention-softmax", "enc-attention-dropout",
    "enc-attention-context", "enc-attention-dense",   "enc-post-attention-dropout",
    "enc-2nd-layernorm",     "enc-MLP-GEMM-1",        "enc-MLP-gelu",
    "enc-MLP-GEMM-2",        "enc-post-MLP-dropout",  "final-layernorm",
    "gpt-post-process"};

std::string three_decimals(double value) {
  const auto thousandths = static_cast<long long>(value * 1000 + 0.5);
  std::string fraction = std::to_string(thousandths % 1000);
  return std::to_string(thousandths / 1000) + "." + std::string(3 - fraction.size(), '0') + fraction;
}

}  // namespace

AcesoFolder::AcesoFolder(const std::string& name) : RawFolder(name) {
  double base = 100;
  for (const int samples : {1, 2}) {
    for (const int tp : {1, 2}) {
      for (const int algo : {0, 1}) write_gpt("1_3B", samples, tp, algo, base += 100);
    }
  }
  // The profiler appends another pair of lines when it runs again; only the first is read.
  write("p2p_intra_node.csv", "1,2,4\n10.00, 20.00, 25.00\n1,2,4\n11.00,21.00,26.00\n");
  write("p2p_inter_node.csv", "1,2,4\r\n4.00,5.00,5.50\r\n");
  write("prim_gpt_1_3B_all_gather_2gpus.csv", "data_size(MB),time(ms)\n12,0.530\n2,0.129\n4096,1000000000.000\n");
  write("prim_gpt_1_3B_all_reduce_2gpus.csv", "data_size(MB),time(ms)\n8,0.260\n16,1000000.000\n");
  write("profiling_gpt.log", "anything\n");
}

void AcesoFolder::write_gpt(const std::string& size, int samples, int tp, int algo, double base_us) const {
  std::string text =
      "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved\n";
  for (std::size_t i = 0; i < kOperators.size(); ++i) {
    const double us = base_us + static_cast<double>(i);
    text += std::string(kOperators[i]) + "," + three_decimals(us) + "," + three_decimals(2 * us) + "," +
            three_decimals(4 * samples) + "," + three_decimals(8 * samples) + ",24.000," +
            three_decimals(8.016 * samples) + ",0.000,20.000\n";
  }
  write("gpt_" + size + "_mbs" + std::to_string(samples) + "_tp" + std::to_string(tp) + "_algo" + std::to_string(algo) +
            ".csv",
        text);
}

void AcesoFolder::be_eurosys() const {
  write("p2p_intra_node.csv",
        "1,2,4,8,16,32,64,128,256,512,1024\n"
        "17.22, 24.83, 31.25, 35.88, 39.03, 40.73, 41.65, 42.12, 42.37, 42.49, 42.46\n");
}

}  // namespace trimtab::test
