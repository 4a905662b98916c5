#include "kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace trimtab::estimates {

namespace {

struct Tile {
  double rows, columns;
  double share;  // of a large tile's rate: a small one loads more for each product
};

constexpr std::array kTiles = {Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.95},
                               Tile{128, 64, 0.80}, Tile{64, 128, 0.80}, Tile{64, 64, 0.65}};

// Rows of 16 bytes are what tensor cores load at once. Others are loaded in smaller pieces (NVIDIA, "Matrix
// Multiplication Background", requirements to use tensor cores). By how much depends on the kernel that is chosen:
// about half.
constexpr double kUnaligned = 0.5;

// Multiprocessors that a collective within a node takes: NCCL's channels, one each.
constexpr double kCommunicating = 24;

// The share of the multiprocessors' products that count, of the best tile: the last wave is not full, nor are the tiles
// at the borders.
double used_share(double rows, double columns, double count, double multiprocessors) {
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(rows / tile.rows) * std::ceil(columns / tile.columns) * count;
    const double waves = std::ceil(tiles / multiprocessors);
    const double covered = rows * columns * count / (waves * multiprocessors * tile.rows * tile.columns);
    best = std::max(best, covered * tile.share);
  }
  return best;
}

}  // namespace

Kernels::Kernels(const Gpu& gpu, const Constants& constants, bool newest_attention)
    : gpu_(gpu), constants_(constants), newest_attention_(newest_attention) {}

double Kernels::peak(Precision precision) const {
  double share = constants_.hopper_product;
  switch (gpu_.generation) {
    case Generation::kVolta:
    case Generation::kAmpere:
    case Generation::kAda:
      share = constants_.ampere_product;
      break;
    case Generation::kHopper:
      break;
    case Generation::kBlackwell:
      share = constants_.blackwell_product;
      break;
    case Generation::kOther:
      share = constants_.other_product;
      break;
  }
  if (precision == Precision::kFloat8 && gpu_.float8_flops > 0) {
    return gpu_.float8_flops * gpu_.clock_share * share * constants_.float8_product;
  }
  return gpu_.half_flops * gpu_.clock_share * share;
}

double Kernels::product(double rows, double depth, double columns, Precision precision, double count) const {
  if (rows <= 0 || depth <= 0 || columns <= 0) return 0;
  const double used = used_share(rows, columns, count, gpu_.multiprocessors);
  const double deep = depth / (depth + constants_.product_depth);
  const double aligned = std::fmod(depth, 8) == 0 && std::fmod(columns, 8) == 0 ? 1 : kUnaligned;
  const double computed = 2 * rows * depth * columns * count / (peak(precision) * used * deep * aligned);
  const double element = precision == Precision::kFloat8 ? 1 : 2;
  const double bytes = (element * (rows * depth + depth * columns) + 2 * rows * columns) * count;
  return std::max(computed, moved(bytes));
}

// The communication's kernel has some multiprocessors for itself. Up to Ampere a product's blocks go where there is a
// place. On Hopper and later they are as many as the multiprocessors, and each has its share of tiles from the
// beginning (CUTLASS's persistent kernels, as cuBLAS's are). Those without a place begin when the communication or the
// other blocks have ended, and take as long again.
double Kernels::beside(double communication, double product) const {
  if (gpu_.generation >= Generation::kHopper && gpu_.generation != Generation::kOther) {
    return communication < product ? communication : std::max(communication - product, product);
  }
  const double taken = kCommunicating / gpu_.multiprocessors;
  return std::max(communication - product, std::min(communication, product) * taken / (1 - taken));
}

double Kernels::fused_attention(double heads, double head_dim, double queries, double keys, bool backward) const {
  const bool hopper = gpu_.generation == Generation::kHopper || gpu_.generation == Generation::kBlackwell;
  double share = constants_.ampere_attention;
  if (hopper) share = newest_attention_ ? constants_.newest_attention : constants_.hopper_attention;
  if (backward) share *= constants_.attention_backward;
  share *= keys / (keys + constants_.attention_length);
  share *= std::min(1.0, 0.5 + head_dim / 256);  // 64: three quarters of what 128 reaches
  const double flops = (backward ? 2.5 : 1.0) * 4 * heads * queries * keys * head_dim * 0.5;
  return flops / (gpu_.half_flops * gpu_.clock_share * share);
}

double Kernels::plain_attention(double heads, double head_dim, double queries, double keys, bool backward) const {
  const double products = backward ? 4 : 2;
  const double computed = products * product(queries, head_dim, keys, Precision::kFloat16, heads);
  // Elements of scores, in bytes: softmax reads and writes (4), dropout reads, writes and writes a mask (5). Backward:
  // dropout reads and writes with the mask (5), softmax reads twice and writes (6). The products count their own.
  return computed + moved((backward ? 11 : 9) * heads * queries * keys);
}

}  // namespace trimtab::estimates
