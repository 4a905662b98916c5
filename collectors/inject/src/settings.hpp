#pragma once

// What the environment asks of the injected library (docs/protocols.md, "Environment of a rank"). Read once a process.

#include <cstddef>
#include <cstdint>

namespace trimtab::inject {

struct Settings {
  bool enabled = false;
  char socket_path[108] = {};  // sun_path's size, NUL included
  char job[256] = {};
  std::int32_t rank = -1;
  std::uint32_t ring_slots = 65536;
};

// From secure_getenv: a set-user-id program is left alone. Anything malformed disables or takes the default.
Settings read_settings();

// The parts, for tests. nullptr stands for an unset variable.
bool usable_socket_path(const char* path);
std::int32_t parse_rank(const char* text);
std::uint32_t parse_ring_slots(const char* text);

// The `ring` frame for the agent: 4 bytes of length, then JSON. Returns its bytes, 0 when `capacity` is too small.
std::size_t build_ring_frame(const Settings& settings, std::int32_t pid, char* buffer, std::size_t capacity);

}  // namespace trimtab::inject
