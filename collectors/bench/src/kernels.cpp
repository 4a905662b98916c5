#include "kernels.hpp"

#include <algorithm>
#include <array>

namespace trimtab::bench {

namespace {

constexpr std::array<std::string_view, 3> kDtypes{"float32", "float16", "bfloat16"};

struct Touched {
  Bytes element;

  Bytes operator()(const Gemm& gemm) const {
    return gemm.batch * element * (gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n);
  }
  Bytes operator()(const RowKernel& rows) const { return rows.rows * rows.columns * element * (rows.backward ? 3 : 2); }
  Bytes operator()(const Elementwise& pass) const { return pass.elements * element * (pass.reads + pass.writes); }
  Bytes operator()(const Lookup& lookup) const { return lookup.tokens * lookup.hidden * element * 2; }
  Bytes operator()(const HostCopy& copy) const { return copy.bytes; }
  Bytes operator()(const ChannelKernel& channel) const { return channel.pace == Pace::kSpin ? 0 : 2 * channel.bytes; }
  Bytes operator()(const Spin&) const { return 0; }
  Bytes operator()(const Collective& collective) const { return 2 * collective.bytes; }
};

struct Named {
  std::string operator()(const Gemm& gemm) const {
    const std::string batch = gemm.batch == 1 ? "" : std::to_string(gemm.batch) + " times ";
    return "gemm " + batch + std::to_string(gemm.m) + "x" + std::to_string(gemm.n) + "x" + std::to_string(gemm.k);
  }
  std::string operator()(const RowKernel& rows) const {
    return std::string(rows.function == RowFunction::kSoftmax ? "softmax" : "layernorm") +
           (rows.backward ? " backward " : " ") + std::to_string(rows.rows) + "x" + std::to_string(rows.columns);
  }
  std::string operator()(const Elementwise& pass) const { return "elementwise " + std::to_string(pass.elements); }
  std::string operator()(const Lookup& lookup) const {
    return "lookup of " + std::to_string(lookup.tokens) + " in " + std::to_string(lookup.vocabulary);
  }
  std::string operator()(const HostCopy& copy) const {
    return std::string(to_string(copy.direction)) + " " + format_bytes(copy.bytes);
  }
  std::string operator()(const ChannelKernel& channel) const {
    return "channel_" + std::string(to_string(channel.pace)) + " on " + std::to_string(channel.channels) + " channels";
  }
  std::string operator()(const Spin& spin) const { return "spin " + std::to_string(spin.nanoseconds) + " ns"; }
  std::string operator()(const Collective& collective) const {
    return collective.primitive + " " + format_bytes(collective.bytes) + " among " +
           std::to_string(collective.group_size);
  }
};

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

std::string_view to_string(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

Result<Dtype> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kDtypes.size(); ++i) {
    if (text == kDtypes[i]) return static_cast<Dtype>(i);
  }
  return bad_input("dtype must be float32, float16 or bfloat16, found \"" + std::string(text) + "\"");
}

Bytes element_bytes(Dtype dtype) {
  return dtype == Dtype::kFloat32 ? 4 : 2;
}

std::string_view to_string(CopyDirection direction) {
  return direction == CopyDirection::kHostToDevice ? "host_to_device" : "device_to_host";
}

std::string_view to_string(Pace pace) {
  constexpr std::array<std::string_view, 3> kPaces{"memory", "link", "spin"};
  return kPaces[static_cast<std::size_t>(pace)];
}

Bytes touched_bytes(const Kernel& kernel) {
  return std::visit(Touched{element_bytes(kernel.dtype)}, kernel.work);
}

Bytes touched_bytes(const Chain& chain) {
  Bytes sum = 0;
  for (const Kernel& kernel : chain) sum += touched_bytes(kernel);
  return sum;
}

std::string describe(const Kernel& kernel) {
  return std::visit(Named{}, kernel.work) + " " + std::string(to_string(kernel.dtype));
}

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
