#include "schema/traces/collective_kernel.hpp"

#include <algorithm>
#include <cstddef>

namespace trimtab {

namespace {

constexpr std::string_view kBeginnings[] = {"ncclDevKernel", "ncclKernel", "ncclSymDevKernel", "ncclSymkDevKernel"};

struct Word {
  std::string_view theirs;  // in lower case
  std::string_view ours;
};
constexpr Word kPrimitives[] = {
    {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"},
    {"alltoall", "all_to_all"},  {"broadcast", "broadcast"},  {"sendrecv", "send_recv"},
    {"send", "send_recv"},       {"recv", "send_recv"},       {"reduce", "reduce"}};
constexpr Word kAlgorithms[] = {{"_ring", "ring"},
                                {"_tree", "tree"},
                                {"_collnet_direct", "collnet_direct"},
                                {"_collnet_chain", "collnet_chain"},
                                {"_nvls_tree", "nvls_tree"},
                                {"_nvls", "nvls"},
                                {"_pat", "pat"}};
constexpr Word kProtocols[] = {{"_ll128", "ll128"}, {"_ll", "ll"}, {"_simple", "simple"}};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return result;
}

template <std::size_t Count>
std::string_view first_within(const Word (&words)[Count], std::string_view text) {
  for (const Word& word : words) {
    if (text.find(word.theirs) != std::string_view::npos) return word.ours;
  }
  return {};
}

}  // namespace

std::optional<CollectiveKernel> collective_kernel(std::string_view name) {
  // Mangled names hold the length before the name: "_Z34ncclDevKernel_AllReduce...".
  std::size_t at = std::string_view::npos;
  for (const std::string_view beginning : kBeginnings) at = std::min(at, name.find(beginning));
  const bool leads = at == 0 || (at != std::string_view::npos && at <= 6 && name.starts_with("_Z"));
  if (!leads) return std::nullopt;
  const std::string text = lower(name.substr(at));
  CollectiveKernel kernel{first_within(kPrimitives, text), first_within(kAlgorithms, text),
                          first_within(kProtocols, text)};
  if (kernel.primitive.empty()) kernel.primitive = "collective";
  return kernel;
}

std::string primitive_named(std::string_view function) {
  std::string text = lower(function);
  if (text.starts_with("nccl")) text.erase(0, 4);
  for (const Word& word : kPrimitives) {
    if (text == word.theirs) return std::string(word.ours);
  }
  return text;
}

}  // namespace trimtab
