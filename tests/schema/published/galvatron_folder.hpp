#pragma once

// The files of Galvatron's own profilers, small.

#include "raw_folder.hpp"

namespace trimtab::test {

// Two nodes of four devices; llama2-7b timed at three batches, sized under sequence parallelism, as the newest version
// writes it.
class GalvatronFolder : public RawFolder {
 public:
  explicit GalvatronFolder(const std::string& name = "configs") : RawFolder(name) {
    write("allreduce_bandwidth_2nodes_4gpus_per_node.json",
          R"({"allreduce_size_8_consec_1": 50, "allreduce_size_4_consec_1": 160, "allreduce_size_4_consec_0": 40,
              "allreduce_size_2_consec_1": 128, "allreduce_size_2_consec_0": 20})");
    write("p2p_bandwidth_2nodes_4gpus_per_node.json", R"({"pp_size_2": 10.0, "pp_size_4": 12.5})");
    write("overlap_coefficient.json", R"({"overlap_coe": 1.125})");
    write("sp_time_2nodes_4gpus_per_node.json",
          R"({"allreduce_size_4_1MB_time": 0.0625, "all2all_size_4_16MB_time": 0.25})");
    write("computation_profiling_bf16_llama2-7b_all.json",
          R"({"layernum[2]_bsz1_seq2048": 15.0, "layernum[4]_bsz1_seq2048": 24.0,
              "layertype_0_bsz1_seq2048": 4.5, "layertype_other_bsz1_seq2048": 6.0,
              "layertype_0_bsz2_seq2048": 4.25, "layertype_other_bsz2_seq2048": 4.0,
              "layertype_0_bsz4_seq2048": 4.125, "layertype_other_bsz4_seq2048": 3.0})");
    write("memory_profiling_bf16_llama2-7b_all.json",
          R"({"1_1_8_sp": {"layernum[1]_bsz8_seq2048_rank0_ms": 904.5},
              "layertype_0_sp": {"2048": {"parameter_size": 800.0,
                "tp_activation_per_bsz_dict": {"1": 512.0, "2": 256.0, "4": 128.0, "8": 64.0, "checkpoint": 32.0}}},
              "other_memory_pp_off_sp": {"2048": {"model_states": {"1": 4000.0, "2": 2000.0},
                                                  "activation": {"1": 840.0, "2": 360.0}}},
              "other_memory_pp_on_first_sp": {"2048": {"model_states": {"1": 2020.0}, "activation": {"1": 200.0}}},
              "other_memory_pp_on_last_sp": {"2048": {"model_states": {"1": 2024.0}, "activation": {"1": 720.0}}}})");
    write("galvatron_config_llama2-7b_2nodes_4gpus_per_node_36GB_bf16.json",
          R"({"pp_deg": 1, "tp_sizes_enc": "1,1,1", "global_bsz": 16, "chunks": 1, "pp_division": "3"})");
  }
};

}  // namespace trimtab::test
