#pragma once

// What the environment asks of the injected library (docs/protocols.md, "Environment of a rank"). Read once a process.

#include <cstddef>
#include <cstdint>

namespace trimtab::inject {

// What is asked of CUPTI.
struct CuptiSettings {
  bool enabled = true;
  bool graph_nodes = false;  // a record for each kernel of a CUDA graph instead of one a launch
  double budget = 0.005;     // share of the wall time
  std::uint32_t buffers = 64;
  std::size_t buffer_bytes = 1U << 20;
  std::uint64_t flush_ns = 1'000'000'000;
  std::uint64_t back_off_ns = 60'000'000'000;  // from another profiler
  // What no clock here sees, as measured by scripts/gpu-check with CUPTI 13.0 on an H100 (bench/results/gpu_check.md):
  // a launch takes the host so much longer. On a device that always has work the cost is a fifth of it.
  std::uint64_t kernel_cost_ns = 1'000;
  std::uint64_t graph_cost_ns = 30'000;  // of a launch whose kernels are not recorded one by one
  bool follow_profilers = true;          // calls by which another profiler takes CUPTI are led through us
  char library[256] = {};                // empty: found
};

struct Settings {
  bool enabled = false;
  char socket_path[108] = {};             // sun_path's size, NUL included
  std::uint32_t agent_user = UINT32_MAX;  // whose agent is believed beside root's and this user's; nobody has this one
  char job[256] = {};
  std::int32_t rank = -1;
  std::uint64_t launch = 0;  // of the job; 0 = neither the agent has launched us, nor do we say that our user did
  char variant[256] = {};
  std::uint32_t ring_slots = 65536;
  CuptiSettings cupti;
};

// From secure_getenv: a set-user-id program is left alone. Anything malformed disables or takes the default.
Settings read_settings();

// The parts, for tests. nullptr stands for an unset variable.
bool usable_socket_path(const char* path);
std::int32_t parse_rank(const char* text);
std::uint32_t parse_ring_slots(const char* text);
// Of a process that its user launched (TRIMTAB_WATCH=1): what its launcher says of it, else rank 0 of launch 1.
void become_watched(Settings& settings, char* (*environment)(const char*));
// A share between 0 and 1, both included; else the default.
double parse_budget(const char* text);
// A number within [least, most], which it is clamped to; `otherwise` when it is none.
std::uint64_t parse_within(const char* text, std::uint64_t least, std::uint64_t most, std::uint64_t otherwise);

// The `ring` frame for the agent: 4 bytes of length, then JSON. Returns its bytes, 0 when `capacity` is too small.
std::size_t build_ring_frame(const Settings& settings, std::int32_t pid, char* buffer, std::size_t capacity);

}  // namespace trimtab::inject
