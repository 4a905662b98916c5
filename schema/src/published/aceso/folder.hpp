#pragma once

// The folders that Aceso's own profiler writes, as published: MODEL_SIZE_mbsM_tpT_algoA.csv for the operators,
// prim_MODEL_SIZE_PRIMITIVE_Ngpus.csv for the collectives, p2p_intra_node.csv and p2p_inter_node.csv for the links, and
// the profiler's caches (*.pkl) for the digits that the tables lack. Source: microsoft/SuperScaler, branch EuroSys24AE,
// profiler/ (what writes them) and search/ (what reads them).

#include <string>
#include <string_view>
#include <vector>

#include "published/aceso/tables.hpp"
#include "schema/published.hpp"

namespace trimtab::published {

// What a file's name says, "gpt_1_3B_mbs1_tp2_algo0.csv".
struct AcesoOperatorFile {
  std::string model;
  std::string size;
  std::int32_t samples = 1;
  std::int32_t tp = 1;
  bool alternate = false;
};
// "prim_gpt_1_3B_all_gather_2gpus.csv".
struct AcesoCollectiveFile {
  std::string model;
  std::string size;
  std::string primitive;
  std::int32_t group_size = 2;
};
// False where the name is not of this form.
[[nodiscard]] bool parse_operator_file(std::string_view name, AcesoOperatorFile& file);
[[nodiscard]] bool parse_collective_file(std::string_view name, AcesoCollectiveFile& file);

// Whether a directory with these names holds our neutral tables instead.
[[nodiscard]] bool holds_neutral_aceso_tables(const std::vector<std::string>& names);

// Everything that was measured: operators, collectives, transfers. Settings and lists of operators are left empty. A
// directory that has the authors' published link tables is called by their testbed, any other by its own name.
[[nodiscard]] Result<AcesoTables> read_aceso_folders(const std::vector<std::string>& directories,
                                                     std::vector<std::string>& remarks);

}  // namespace trimtab::published
