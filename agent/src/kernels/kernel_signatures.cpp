#include "kernels/kernel_signatures.hpp"

#include <algorithm>
#include <bit>

namespace trimtab::agent {

namespace {

std::string triple(const std::array<std::uint32_t, 3>& size) {
  return std::to_string(size[0]) + "," + std::to_string(size[1]) + "," + std::to_string(size[2]);
}

}  // namespace

std::size_t KernelSignatures::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = std::bit_cast<std::uintptr_t>(key.name);
  for (const auto& size : {key.grid, key.block}) {
    for (const std::uint32_t number : size) hash = (hash ^ number) * 0x9e3779b97f4a7c15ULL;
  }
  return hash ^ (hash >> 32U);
}

KernelSignatures::KernelSignatures(std::size_t most) : most_(most), signatures_(1) {
  signatures_[0].name = "(others)";
}

void KernelSignatures::clear() {
  signatures_.resize(1);
  numbers_.clear();
}

std::uint32_t KernelSignatures::number_of(const RangeRecord& record) {
  Key key{record.name.data(), {}, {}};
  if (record.kind == record::kKernel) {
    key.grid = {record.domain_value, record.detail[0], record.detail[1]};
    key.block = {record.detail[2], record.detail[3], record.detail[4]};
  } else if (record.kind == record::kGraph) {
    key.grid = {record.domain_value, 0, 0};
  }
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  if (signatures_.size() > most_) return 0;
  KernelSignature signature;
  signature.name = record.name;
  signature.grid = key.grid;
  signature.block = key.block;
  signature.kernel_class = kernel_class_of(record.name);
  signature.collective = collective_kernel(record.name);
  if (record.range.communicates()) signature.collective = CollectiveKernel{};
  const auto number = static_cast<std::uint32_t>(signatures_.size());
  signatures_.push_back(std::move(signature));
  numbers_.emplace(key, number);
  return number;
}

void KernelSignatures::add(std::uint32_t number, std::uint64_t duration_ns, bool keep) {
  KernelSignature& signature = signatures_[number];
  signature.total_ns += duration_ns;
  ++signature.count;
  if (keep && number != 0) signature.duration_ns.add(static_cast<std::int64_t>(duration_ns));
}

std::string KernelSignatures::text_of(const KernelSignature& signature) {
  const std::string name = readable_kernel_name(signature.name);
  if (signature.block[0] == 0) return signature.grid[0] == 0 ? name : name + " " + std::to_string(signature.grid[0]);
  return name + "<<<" + triple(signature.grid) + " " + triple(signature.block) + ">>>";
}

std::vector<Cost> KernelSignatures::take() {
  std::vector<Cost> costs;
  for (KernelSignature& signature : signatures_) {
    if (signature.duration_ns.empty()) continue;
    CostKey key;
    key.kind = CostKind::kKernel;
    key.subject = text_of(signature);
    key.kernel_class = to_string(signature.kernel_class);
    costs.push_back({canonical(std::move(key)),
                     std::exchange(signature.duration_ns, {}),
                     {CostSource::Kind::kTraining, "", CostSource::Beside::kNotSaid, CostSource::Clock::kDevice}});
  }
  return costs;
}

std::vector<BusyKernel> KernelSignatures::busiest(std::size_t most) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> times;
  for (std::uint32_t number = 0; number < signatures_.size(); ++number) {
    const KernelSignature& signature = signatures_[number];
    if (signature.total_ns > signature.shown_ns) times.emplace_back(signature.total_ns - signature.shown_ns, number);
  }
  std::ranges::sort(times, std::greater());
  std::vector<BusyKernel> result;
  std::array<std::size_t, 2> taken{};
  for (const auto& [time, number] : times) {
    const KernelSignature& signature = signatures_[number];
    if (taken[signature.collective ? 1 : 0]++ >= most) continue;
    result.push_back({text_of(signature), signature.kernel_class, signature.collective.has_value(), time,
                      signature.count - signature.shown_count});
  }
  for (KernelSignature& signature : signatures_) {
    signature.shown_ns = signature.total_ns;
    signature.shown_count = signature.count;
  }
  return result;
}

}  // namespace trimtab::agent
