#pragma once

// The shared-memory record ring between a training process (many producer threads) and the agent (one consumer).
// A C-compatible layout: the injected library and the agent are built apart, possibly from different releases.
// Producers never block: a full ring drops the record and counts it. The memory is a memfd sealed against resizing; the
// consumer trusts nothing in it and checks every index and length that it reads.
//
// Layout of the memfd: RingHeader, then `name_capacity` NameEntry, then `slot_capacity` RecordSlot.
// Times are nanoseconds, of NCCL's kinds (32 to 47) by the GPU's own clock, of all others CLOCK_REALTIME, as CUPTI's;
// kClock compares the two.

#include <atomic>
#include <cstdint>

namespace trimtab::record {

inline constexpr std::uint64_t kMagic = 0x52424154'4d495254U;  // "TRIMTABR", little-endian
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kNameBytes = 116;  // longer names are cut and marked by kNameCut

enum Kind : std::uint16_t {
  kRange = 1,          // a push/pop or start/end range that has ended
  kMark = 2,           // an instant; end_ns == begin_ns
  kThreadName = 3,     // `name` is what the job calls `thread`; an instant
  kRangesLeftOut = 4,  // from begin_ns to end_ns no range was recorded, and what was open then is forgotten: there were
                       // too many for the budget

  // 16 to 31: from CUPTI. `device`, `context` and `stream` are CUDA's numbers; `thread` holds the stream, `depth` the
  // device. begin_ns = end_ns = 0 is never published: a record whose stamps CUPTI lost is counted instead.
  kKernel = 16,  // `name` as the compiler mangled it; `domain` = grid x; detail = grid y, grid z, block x, y, z, 0, 0;
                 // payload = correlation id | context << 32
  kMemcpy = 17,  // payload = bytes; `domain` = correlation id; detail = CopyKind, source and destination memory kinds,
                 // and, between two devices, their numbers
  kMemset = 18,  // payload = bytes; `domain` = correlation id
  kGraph = 19,   // one launch of a CUDA graph, in the cheap mode; payload = correlation id | context << 32;
                 // `domain` = graph id
  kOverhead = 20,  // what CUPTI itself spent; payload = its overhead kind; `thread` = 0
  kLaunch = 21,    // who asked for a kernel or copy: payload = correlation id, `domain` = the range id of the innermost
                 // range that was open on the launching thread (detail[0], [1] of its kRange; 0 = none was, or another
                 // record of the launch says which). begin_ns to end_ns: the call; 0 = not told.
  kWindow = 22,  // from begin_ns to end_ns kernels were not all recorded: `name` = why (sampling, budget,
                 // foreign_profiler, no_agent, cupti_failed), payload = the level (Detail)
  kDevice = 23,  // `depth` is what this process calls the device `name`: its UUID as NVML writes it ("GPU-...",
                 // "MIG-..."). In a container the numbers are its own. Told again every ten seconds; an instant
  kWait = 24,  // from begin_ns to end_ns the host waited in a call until the device was done; `domain` = correlation id

  // 32 to 47: from NCCL. Times are the GPU's %globaltimer.
  kCollective =
      32,     // one collective on one rank, or, kP2p, one send or receive: `name` = function, `domain` = index of
  kP2p = 33,  // the communicator's name (its id in hexadecimal); payload = bytes; `thread` = sequence number in
              // its communicator (low 32 bits; of a p2p: the peer's rank); `depth` = channels;
              // detail = ranks, rank, nodes, algorithm, protocol, datatype (schema/nccl.hpp; 255 = unknown), 0
              // (values over 65535: 65535). `name` is NCCL's own ("AllReduce"); bytes = a rank's input tensor;
              // the sequence is counted by function.
  kClock =
      34,  // a bound on how far a GPU's %globaltimer is ahead of CLOCK_REALTIME: begin_ns = end_ns = a stamp of the
           // GPU, payload = that less a reading of the host; `domain` as of kCollective: whose GPU;
           // detail[0] = ClockBound
};

// Of a kClock record: when the host's clock was read. Of many pairs the tightest bound is told, about one a second.
enum ClockBound : std::uint16_t {
  kReadAfter = 0,   // after the GPU's stamp, on seeing it: the true difference is not below payload
  kReadBefore = 1,  // before it, on asking for the work: not above payload
};

constexpr bool known_kind(std::uint16_t kind) {
  return (kind >= kRange && kind <= kRangesLeftOut) || (kind >= kKernel && kind <= kWait) ||
         (kind >= kCollective && kind <= kClock);
}
// Whether RecordSlot::domain is a number of that kind rather than an index into the name table.
constexpr bool domain_is_value(std::uint16_t kind) {
  return (kind >= kKernel && kind <= kLaunch) || kind == kWait;
}

// How much of what a GPU does is recorded; each level contains those below.
enum Detail : std::uint32_t {
  kDetailOff = 0,          // nothing
  kDetailCollectives = 1,  // nothing from CUPTI; what NCCL's profiler interface says
  kDetailSampled = 2,      // kernels and copies in some steps: kWindow records say when not
  kDetailAll = 3,          // every kernel, copy and graph launch
};

// Why nothing comes from CUPTI (RingHeader::cupti_state, low byte).
enum CuptiReason : std::uint8_t {
  kCuptiNotAsked = 0,  // CUDA has not begun here
  kCuptiRunning = 1,   // nothing is wrong
  kCuptiSwitchedOff,   // by TRIMTAB_CUPTI=0, TRIMTAB_BUDGET=0 or CUDA_INJECTION64_PATH=none
  kCuptiNoAgent,       // no agent was there when CUDA began
  kCuptiNoLibrary,     // no libcupti in the process nor where the loader looks
  kCuptiTooOld,        // before 11.8
  kCuptiNoFunction,    // the library lacks a function that we need
  kCuptiNoMemory,      // no memory or no thread
  kCuptiRefused,       // a function failed: the state's upper half is its CUptiResult
  kCuptiBusy,          // the same, because a debugger or another profiler holds CUPTI
  kCuptiForeign,       // another profiler has taken over for now; we come back
  kCuptiForkedChild,   // CUDA does not work in a forked child of a CUDA process
  kCuptiNotInjected,   // CUDA works here, but its driver has not called us: CUDA_INJECTION64_PATH names somebody else
  kCuptiTooNew,        // of a major release later than 13, whose records nobody has seen
};

enum Flags : std::uint16_t {
  kNameCut = 1,       // the name did not fit into kNameBytes
  kCrossThread = 2,   // started and ended by nvtxRangeStart/End, possibly on two threads
  kPayloadValid = 4,  // payload was given
  kUnterminated = 8,  // still open when the process ended
  kFused = 16,        // kCollective, kP2p: NCCL ran it together with others and their stamps are the same
};

// One record; 64 bytes, one cache line. `sequence` is Vyukov's turn counter: a slot is free for the producer whose
// ticket equals it, and readable when it equals ticket + 1. The producer publishes by compare-and-swap from ticket to
// ticket + 1, the consumer frees it by writing ticket + slot_capacity: so a producer that was suspended for so long
// that the consumer passed over its slot cannot put the turn counter back.
struct alignas(64) RecordSlot {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t begin_ns;
  std::uint64_t end_ns;
  std::int64_t payload;
  std::uint32_t name;    // index into the name table; 0 = no room in the table ("(unnamed)")
  std::uint32_t domain;  // index into the name table; 0 = the default domain
  std::uint32_t thread;  // kernel thread id
  std::uint16_t kind;
  std::uint16_t flags;
  std::uint16_t depth;      // nesting depth on its thread, 0 = outermost
  std::uint16_t detail[7];  // by kind. kRange: [0] low and [1] high half of the range's id, 0 = it has none; else zeros
};
static_assert(sizeof(RecordSlot) == 64);

// Append-only open-addressing table, written by the producers. Entry 0 is reserved. `state`: 0 free, 1 being written,
// 2 ready (release-stored after the text).
struct alignas(64) NameEntry {
  std::atomic<std::uint32_t> state;
  std::uint16_t length;
  std::uint16_t flags;
  char text[kNameBytes];
  std::uint32_t hash;
};
static_assert(sizeof(NameEntry) == 128);

struct alignas(64) RingHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;   // offset of the name table
  std::uint32_t name_capacity;  // a power of two
  std::uint32_t slot_capacity;  // a power of two
  std::uint32_t pid;
  std::uint32_t reserved;
  // Written by the process about once a second; 0 in a release that knew nothing of CUPTI.
  std::atomic<std::uint32_t> detail;            // Detail, as it is now
  std::atomic<std::uint32_t> cupti_state;       // CuptiReason | number of the function << 8 | CUptiResult << 16
  std::atomic<std::uint32_t> cupti_version;     // its API version; 0 = none found
  std::atomic<std::uint32_t> budget_ppm;        // share of the wall time that collecting may cost
  alignas(64) std::atomic<std::uint64_t> head;  // next producer ticket
  alignas(64) std::atomic<std::uint64_t> tail;  // next slot the consumer reads; consumer writes, producers only look
  // The consumer asks for kDetailAll until then (CLOCK_REALTIME), whatever it costs; the process grants ten minutes.
  std::atomic<std::uint64_t> full_detail_until_ns;
  // 1 + the slot below which the consumer has stored what it read; consumer writes, for the next consumer. 0 = not
  // said.
  std::atomic<std::uint64_t> kept;
  alignas(64) std::atomic<std::uint64_t> dropped;  // records that found the ring full
  std::atomic<std::uint64_t> names_dropped;        // names that found the table full
  std::atomic<std::uint32_t> closed;               // 1 after an orderly exit
  std::atomic<std::uint64_t> untracked;            // ranges too deeply nested, or beyond the open-range tables
  std::atomic<std::uint64_t> cost_ns;              // what collecting has cost the process so far
  std::atomic<std::uint64_t> lost_stamps;          // CUPTI's records without usable times
  std::atomic<std::uint64_t> cupti_dropped;        // records that CUPTI had no buffer for
};
static_assert(sizeof(RingHeader) == 256);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace trimtab::record
