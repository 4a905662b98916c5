#pragma once

// NCCL's numbers and names for what its plugins speak of, as in nccl.h and in the texts of its profiler interface, and
// which collectives all ranks look at together. Header only: it is also used inside training processes.

#include <cstdint>

namespace trimtab::nccl {

inline constexpr std::uint8_t kUnknown = 255;
inline constexpr std::uint32_t kMaxChannels = 64;

enum Function : std::uint8_t { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce, kSendRecv, kSend, kRecv };
enum Algorithm : std::uint8_t { kTree, kRing, kCollnetDirect, kCollnetChain, kNvls, kNvlsTree, kPat };
enum Protocol : std::uint8_t { kLl, kLl128, kSimple };

struct Name {
  const char* theirs;  // in the profiler's events
  const char* ours;    // in cost keys (docs/protocols.md) and, without '_', in the tuner's public CSV
};
inline constexpr Name kFunctions[] = {{"Broadcast", "broadcast"},
                                      {"Reduce", "reduce"},
                                      {"AllGather", "all_gather"},
                                      {"ReduceScatter", "reduce_scatter"},
                                      {"AllReduce", "all_reduce"},
                                      {"SendRecv", "send_recv"},
                                      {"Send", "send"},
                                      {"Recv", "recv"}};
inline constexpr Name kAlgorithms[] = {{"TREE", "tree"},
                                       {"RING", "ring"},
                                       {"COLLNET_DIRECT", "collnet_direct"},
                                       {"COLLNET_CHAIN", "collnet_chain"},
                                       {"NVLS", "nvls"},
                                       {"NVLS_TREE", "nvls_tree"},
                                       {"PAT", "pat"}};
inline constexpr Name kProtocols[] = {{"LL", "ll"}, {"LL128", "ll128"}, {"SIMPLE", "simple"}};
// The order of ncclDataType_t.
inline constexpr Name kDatatypes[] = {
    {"ncclInt8", "int8"},         {"ncclUint8", "uint8"},           {"ncclInt32", "int32"},
    {"ncclUint32", "uint32"},     {"ncclInt64", "int64"},           {"ncclUint64", "uint64"},
    {"ncclFloat16", "float16"},   {"ncclFloat32", "float32"},       {"ncclFloat64", "float64"},
    {"ncclBfloat16", "bfloat16"}, {"ncclFloat8e4m3", "float8e4m3"}, {"ncclFloat8e5m2", "float8e5m2"}};
inline constexpr std::uint8_t kDatatypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

template <std::uint32_t count>
constexpr std::uint32_t count_of(const Name (&)[count]) {
  return count;
}

constexpr bool same_text(const char* a, const char* b) {
  for (; *a != '\0' && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}

// The place of a text in a table, by NCCL's names or by ours; kUnknown for others and for nullptr.
template <std::uint32_t count>
constexpr std::uint8_t index_of_theirs(const Name (&names)[count], const char* text) {
  for (std::uint32_t i = 0; text != nullptr && i < count; ++i) {
    if (same_text(names[i].theirs, text)) return static_cast<std::uint8_t>(i);
  }
  return kUnknown;
}
template <std::uint32_t count>
constexpr std::uint8_t index_of_ours(const Name (&names)[count], const char* text) {
  for (std::uint32_t i = 0; text != nullptr && i < count; ++i) {
    if (same_text(names[i].ours, text)) return static_cast<std::uint8_t>(i);
  }
  return kUnknown;
}

// Of those, what the tuner may choose for.
constexpr bool tunable(std::uint8_t function) {
  return function <= kAllReduce;
}
// Whose ranks all end together, within a hop: nobody has the whole result before everybody has come.
constexpr bool ends_together(std::uint8_t function) {
  return function == kAllGather || function == kReduceScatter || function == kAllReduce;
}

// A collective's number in the same order on all its ranks: a number that every rank gets for the same collective, and
// no two collectives are likely to share. All bits are spread (the finalizer of SplitMix64; Steele, Lea and Flood,
// OOPSLA 2014).
constexpr std::uint64_t spread(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}
constexpr std::uint64_t collective_hash(std::uint64_t communicator, std::uint8_t function, std::uint32_t sequence) {
  return spread(spread(communicator) ^ (std::uint64_t{function} << 32 | sequence));
}

constexpr bool between_two(std::uint8_t function) {
  return function == kSend || function == kRecv;
}

// Samples are nested: level n holds one collective in 2^n, and every member of level n + 1. So ranks that sample at
// different levels still have the higher level's collectives in common, without having spoken to each other.
inline constexpr std::uint32_t kMaxSampleLevel = 32;
constexpr bool in_sample(std::uint64_t hash, std::uint32_t level) {
  return level == 0 || hash >> (64 - level) == 0;
}
// A send and its receive have no number in common, but their time: level n holds what ended in the first 2^-n of each
// window. Their nodes' clocks agree well enough for the lower levels.
inline constexpr std::uint32_t kWindowBits = 28;  // of nanoseconds: 0.27 s
constexpr bool in_window(std::uint64_t wall_ns, std::uint32_t level) {
  const std::uint64_t window = std::uint64_t{1} << kWindowBits;
  return level == 0 || (level < kWindowBits && (wall_ns & (window - 1)) < window >> level);
}

}  // namespace trimtab::nccl
