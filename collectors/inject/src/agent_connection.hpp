#pragma once

// The Unix connection over which a ring is handed to the agent, and whose end tells that the agent is gone. No call
// blocks. Not thread-safe: one thread at a time (session.cpp sees to it).

#include <cstddef>
#include <cstdint>

#include "ring_memory.hpp"

namespace trimtab::inject {

class AgentConnection {
 public:
  constexpr AgentConnection() = default;

  // False when nobody listens at `path` who is believed (listener.hpp; `named` is a user beside root and this one), or
  // the agent's queue is full.
  bool open(const char* path, std::uint32_t named = UINT32_MAX);
  // Sends the frame with `descriptor` attached; false closes the connection.
  bool hand_over(const char* frame, std::size_t bytes, int descriptor);
  // Sends the frame alone, as who has nothing to hand over: the agent's log says so. Closes the connection.
  void say_without(const char* frame, std::size_t bytes);
  // Notices an agent that has gone. Throws away what it may have said.
  [[nodiscard]] bool alive();
  void close() { socket_.close(); }

 private:
  OwnedDescriptor socket_;
};

}  // namespace trimtab::inject
