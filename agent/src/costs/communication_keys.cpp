#include "costs/communication_keys.hpp"

#include <bit>

#include "kernels/kernel_name.hpp"
#include "schema/nccl.hpp"

namespace trimtab::agent {

namespace {

template <std::uint32_t count>
std::string name_at(const nccl::Name (&names)[count], std::uint16_t index) {
  return index < count ? names[index].ours : std::string();
}

bool is_priced_collective(const std::string& primitive) {
  return primitive == "all_reduce" || primitive == "all_gather" || primitive == "reduce_scatter" ||
         primitive == "all_to_all";
}

}  // namespace

bool slows_computation(const CommunicationKey& communication) {
  return is_priced_collective(communication.primitive) || communication.primitive == "send_recv";
}

bool slow_computation(const CommunicationKey& first, const CommunicationKey& second) {
  const bool gathers_first = first.primitive == "all_gather";
  const CommunicationKey& scatter = gathers_first ? second : first;
  return scatter.primitive == "reduce_scatter" && (gathers_first ? first : second).primitive == "all_gather";
}

bool slow_each_other(const CommunicationKey& first, const CommunicationKey& second) {
  return is_priced_collective(first.primitive) && is_priced_collective(second.primitive);
}

CommunicationKey communication_key(const RangeRecord& record) {
  CommunicationKey key;
  const bool between_two = record.kind == record::kP2p;
  key.primitive = between_two ? "send_recv" : primitive_named(record.name);
  key.bytes = record.payload > 0 ? record.payload : 0;
  key.group_size = between_two ? 2 : record.detail[0];
  key.algorithm = name_at(nccl::kAlgorithms, record.detail[3]);
  key.protocol = name_at(nccl::kProtocols, record.detail[4]);
  key.channels = record.depth;
  key.between_nodes = record.detail[2] > 1;
  return key;
}

std::int64_t bytes_bucket(std::int64_t bytes) {
  if (bytes <= 0) return 0;
  const std::uint64_t below = std::bit_floor(static_cast<std::uint64_t>(bytes));
  // Nearer to 2b than to b in ratio: bytes > b * sqrt(2).
  const double ratio = static_cast<double>(bytes) / static_cast<double>(below);
  const std::uint64_t bucket = ratio * ratio > 2 ? below * 2 : below;
  return static_cast<std::int64_t>(bucket >> 63U != 0 ? below : bucket);
}

std::uint32_t CommunicationKeys::number_of(const CommunicationKey& key) {
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (keys_.size() > most_) return 0;
  const auto number = static_cast<std::uint32_t>(keys_.size());
  keys_.push_back(key);
  numbers_.emplace(key, number);
  return number;
}

}  // namespace trimtab::agent
