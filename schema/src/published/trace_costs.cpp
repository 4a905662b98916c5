// Traces of PyTorch Profiler and Nsight Systems as costs of what crosses links.

#include <set>

#include "base/text_parts.hpp"
#include "published/formats.hpp"
#include "published/seen_costs.hpp"
#include "published/traces/collective_values.hpp"
#include "published/traces/rank_nodes.hpp"
#include "schema/traces/read_traces.hpp"

namespace trimtab::published {

namespace {

// Nsight's exports do not tell the ranks of a communicator, only whether all of them are there.
std::string how_to_say_nodes(const TracedRank& rank) {
  if (rank.profiler == Profiler::kNsight) return "give the exports of all ranks";
  return "say how many ranks each node has: --devices-per-node N";
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// What of a rank is needed when all are read: not what its device did.
std::vector<TracedRank> read_ranks(const std::vector<std::string>& files, Status& status) {
  std::vector<TracedRank> ranks;
  status = read_traces(files, [&ranks](TracedRank rank) {
    rank.work = {};
    rank.data = {};
    ranks.push_back(std::move(rank));
  });
  return ranks;
}

// The one value that all ranks tell; refused where two tell different ones.
Result<std::string> agreed(const std::vector<TracedRank>& ranks, const char* what,
                           const std::function<std::string(const TracedRank&)>& of) {
  const TracedRank* first = nullptr;
  for (const TracedRank& rank : ranks) {
    if (of(rank).empty()) continue;
    if (first == nullptr) first = &rank;
    if (of(rank) == of(*first)) continue;
    return bad_input(rank.file + ": its " + what + " is " + of(rank) + ", and that of " + first->file + " is " +
                     of(*first) + "; import the traces of one kind of machine at a time");
  }
  return first == nullptr ? std::string() : of(*first);
}

Result<Fingerprint> fingerprint_of(const std::vector<TracedRank>& ranks, const RankNodes& nodes) {
  Fingerprint fingerprint;
  TRIMTAB_TRY(const std::string model,
              agreed(ranks, "device", [](const TracedRank& rank) { return rank.facts.device_name; }));
  TRIMTAB_TRY(const std::string kind, agreed(ranks, "device", [](const TracedRank& rank) {
                return std::string(rank.on_device ? "gpu" : "cpu");
              }));
  TRIMTAB_TRY(const std::string nccl,
              agreed(ranks, "NCCL", [](const TracedRank& rank) { return rank.library_version; }));
  fingerprint.device["kind"] = kind;
  if (!model.empty()) fingerprint.device["model"] = model;
  if (!nccl.empty()) fingerprint.software["nccl"] = nccl;
  if (const auto shape = nodes.shape()) {
    fingerprint.fabric = {{"nodes", std::to_string(shape->nodes)}, {"gpus", std::to_string(shape->most_ranks)}};
  }
  return fingerprint;
}

std::string program_of(const TracedRank& rank) {
  return rank.profiler == Profiler::kPyTorch ? "pytorch-profiler" : "nsight-systems";
}

// Nothing to store is no success.
Error nothing(const std::vector<TracedRank>& ranks, const CollectiveValues::Made& made) {
  const std::string files = ranks.size() == 1 ? ranks.front().file : counted(ranks.size(), "trace");
  if (made.nowhere > 0) {
    return bad_input(files + ": no trace says which ranks share a node, so " + counted(made.nowhere, "time") +
                     " of collectives would be of an unknown link; " + how_to_say_nodes(ranks.front()));
  }
  std::size_t sizeless = 0;
  for (const TracedRank& rank : ranks) sizeless += rank.sizeless;
  if (sizeless == 0) {
    return bad_input(files +
                     ": no collective of two ranks or more, so no cost of a link; trimtab explain says where "
                     "its time goes");
  }
  if (ranks.front().profiler == Profiler::kNsight) {
    return bad_input(
        files + ": " + counted(sizeless, "kernel") +
        " of NCCL, and no size of one. Record with nsys profile --trace=cuda,nvtx from the job's beginning, "
        "so that NCCL's own ranges and ncclCommInitRank are in it. Else give a trace of PyTorch Profiler, "
        "or what NCCL Inspector wrote (--format nccl-inspector)");
  }
  if (!ranks.front().on_device) {
    return bad_input(files + ": " + counted(sizeless, "collective") +
                     ", and no size of one; record with record_shapes=True, in a job of one process group");
  }
  return bad_input(files + ": " + counted(sizeless, "kernel") +
                   " of NCCL, and no size of one (\"In msg nelems\"): PyTorch writes it since 2024, and not of kernels "
                   "in CUDA graphs. Record with a newer one, or give what NCCL Inspector wrote (--format "
                   "nccl-inspector)");
}

std::vector<std::string> remarks_of(const std::vector<TracedRank>& ranks, const RankNodes& nodes,
                                    const CollectiveValues::Made& made) {
  std::vector<std::string> remarks;
  if (made.waiting > 0) {
    const bool missing = static_cast<std::int64_t>(ranks.size()) < nodes.world_size();
    remarks.push_back(counted(made.waiting, "time") + " contain waiting for other ranks, and count less than others" +
                      (missing ? "; give the traces of all " + std::to_string(nodes.world_size()) + " ranks, not " +
                                     std::to_string(ranks.size()) + ", and waiting can be told apart"
                               : ""));
  }
  if (nodes.taken_for_one()) {
    remarks.push_back("all " + std::to_string(nodes.world_size()) +
                      " ranks are taken to be on one node, which has devices for them; if they are not, " +
                      how_to_say_nodes(ranks.front()));
  }
  if (made.nowhere > 0) {
    remarks.push_back(counted(made.nowhere, "time") + " are left out: no trace says which ranks share a node; " +
                      how_to_say_nodes(ranks.front()));
  }
  std::size_t sizeless = 0;
  for (const TracedRank& rank : ranks) sizeless += rank.sizeless;
  if (sizeless > 0) {
    remarks.push_back(counted(sizeless, "time") +
                      " of communication are left out: the traces do not say how many bytes of whom");
  }
  return remarks;
}

}  // namespace

Result<Published> read_trace_costs(const std::vector<std::string>& files, std::int32_t devices_per_node) {
  Status status;
  const std::vector<TracedRank> ranks = read_ranks(files, status);
  TRIMTAB_TRY_STATUS(status);
  for (const TracedRank& rank : ranks) {
    if (rank.profiler == ranks.front().profiler) continue;
    return bad_input(rank.file + ": it is of " + std::string(to_string(rank.profiler)) + ", and " + ranks.front().file +
                     " of " + std::string(to_string(ranks.front().profiler)) + "; import them one after the other");
  }
  TRIMTAB_TRY(const RankNumbers numbers, number_ranks(ranks));
  RankNodes nodes(devices_per_node);
  CollectiveValues values;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    nodes.add(ranks[i], numbers.numbers[i]);
    values.add(ranks[i], numbers.numbers[i]);
  }
  const CollectiveValues::Made made = values.make(nodes);
  if (made.costs.empty()) return nothing(ranks, made);
  TRIMTAB_TRY(const Fingerprint fingerprint, fingerprint_of(ranks, nodes));
  Published published;
  published.costs = seen_profiles(program_of(ranks.front()), fingerprint, made.costs);
  published.remarks = remarks_of(ranks, nodes, made);
  return published;
}

}  // namespace trimtab::published
