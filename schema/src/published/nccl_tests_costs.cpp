#include "published/nccl_tests_costs.hpp"

#include <filesystem>
#include <map>

#include "published/nccl_tests_file.hpp"
#include "published/text_file.hpp"
#include "schema/hash64.hpp"

namespace trimtab::published {

namespace {

Fingerprint fingerprint_of(const NcclTestsFile& file) {
  Fingerprint fingerprint;
  fingerprint.device = {{"kind", "gpu"}, {"model", file.gpu}};
  fingerprint.software = {{"nccl", file.nccl}};
  fingerprint.fabric = {{"nodes", std::to_string(file.nodes)}, {"gpus", std::to_string(file.ranks_per_node)}};
  fingerprint.environment = file.environment;
  fingerprint.environment["measured_by"] = "nccl-tests";
  return fingerprint;
}

// A cost's bytes are a rank's input. nccl-tests say the larger of its two buffers: of an all-gather the output.
std::int64_t input_bytes(const NcclTestsFile& file, const NcclTestsRow& row) {
  return file.primitive == "all_gather" ? row.size / file.group_size : row.size;
}

std::vector<Cost> costs_of(const NcclTestsFile& file) {
  const std::string placement = file.nodes > 1 ? "inter_node" : "intra_node";
  const bool transfer = file.kind == CostKind::kPointToPoint;
  std::map<CostKey, Statistics> costs;  // a size that was run twice is one cost
  for (const NcclTestsRow& row : file.rows) {
    CostKey key{file.kind, file.primitive,         transfer ? "" : row.dtype,      0,        1,
                "default", input_bytes(file, row), transfer ? 0 : file.group_size, placement};
    for (const std::int64_t nanoseconds : row.nanoseconds) costs[canonical(key)].add(nanoseconds);
  }
  std::vector<Cost> list;
  for (const auto& [key, statistics] : costs) list.push_back({key, statistics});
  return list;
}

Result<TextFile> read(const std::string& path) {
  constexpr std::string_view kPacked = ".gz";
  std::filesystem::path name(path);
  if (name.extension() == kPacked) name.replace_extension();
  const std::string directory = name.parent_path().string();
  return read_text_file(directory.empty() ? "." : directory, name.filename().string());
}

}  // namespace

Result<Published> read_nccl_tests(const std::vector<std::string>& files) {
  Published published;
  for (const std::string& path : files) {
    TRIMTAB_TRY(const TextFile text, read(path));
    TRIMTAB_TRY(const NcclTestsFile file, parse_nccl_tests(text.text, text.path));
    const Fingerprint fingerprint = fingerprint_of(file);
    // The same file counts once under one fingerprint, wherever it lies.
    const std::string origin = "import:nccl-tests/" + hash64_hex(text.text) + "/" + hash(fingerprint);
    published.costs.push_back({fingerprint, "import:nccl-tests", origin, costs_of(file)});
    for (const std::string& remark : file.remarks) published.remarks.push_back(text.path + ": " + remark);
  }
  return published;
}

}  // namespace trimtab::published
