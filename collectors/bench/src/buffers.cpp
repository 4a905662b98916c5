#include "buffers.hpp"

#include <algorithm>

namespace trimtab::bench {

namespace {

struct Needed {
  Bytes element;

  std::vector<Buffer> operator()(const Gemm& gemm) const {
    return {numbers(gemm.batch * gemm.m * gemm.k), numbers(gemm.batch * gemm.k * gemm.n),
            nothing(gemm.batch * gemm.m * gemm.n * element)};
  }
  std::vector<Buffer> operator()(const RowKernel& rows) const {
    const std::int64_t elements = rows.rows * rows.columns;
    if (rows.backward) return {numbers(elements), numbers(elements), nothing(elements * element)};
    return {numbers(elements), nothing(elements * element)};
  }
  std::vector<Buffer> operator()(const Elementwise& pass) const {
    std::vector<Buffer> buffers(static_cast<std::size_t>(pass.reads), numbers(pass.elements));
    buffers.insert(buffers.end(), static_cast<std::size_t>(pass.writes), nothing(pass.elements * element));
    return buffers;
  }
  std::vector<Buffer> operator()(const Lookup& lookup) const {
    Buffer table = numbers(lookup.vocabulary * lookup.hidden);
    table.shared = true;
    return {
        {lookup.tokens * 4, Fill::kIndices, lookup.vocabulary, false}, table, numbers(lookup.tokens * lookup.hidden)};
  }
  std::vector<Buffer> operator()(const HostCopy& copy) const { return {nothing(copy.bytes)}; }
  std::vector<Buffer> operator()(const ChannelKernel& channel) const {
    if (channel.pace == Pace::kSpin) return {};
    return {{channel.bytes, Fill::kNumbers, 0, false}, nothing(channel.bytes)};
  }
  std::vector<Buffer> operator()(const Spin&) const { return {}; }
  std::vector<Buffer> operator()(const Collective& collective) const {
    const Bytes gathered =
        collective.primitive == "all_gather" ? collective.bytes * collective.group_size : collective.bytes;
    return {{collective.bytes, Fill::kNumbers, 0, false}, nothing(gathered)};
  }

  [[nodiscard]] Buffer numbers(std::int64_t elements) const { return {elements * element, Fill::kNumbers, 0, false}; }
  [[nodiscard]] static Buffer nothing(Bytes bytes) { return {bytes, Fill::kNothing, 0, false}; }
};

}  // namespace

std::vector<Buffer> buffers_of(const Kernel& kernel) {
  return std::visit(Needed{element_bytes(kernel.dtype)}, kernel.work);
}

std::int32_t rotation_sets(Bytes touched, Bytes cache, Bytes free_bytes) {
  if (touched <= 0) return 1;
  const Bytes wanted = 2 * cache / touched + 2;
  const Bytes affordable = free_bytes / 4 / touched;
  return static_cast<std::int32_t>(std::clamp<Bytes>(std::min(wanted, affordable), 1, kMostSets));
}

}  // namespace trimtab::bench
