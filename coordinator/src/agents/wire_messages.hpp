#pragma once

// Messages of and to agents (schema/wire/agent.proto) by their names alone: for headers, which need no more.

#include <cstddef>
#include <functional>
#include <string>

namespace trimtab::wire {
class CollectiveStamp;
class CollectiveStamps;
class CommandDone;
class CommandProgress;
class CostBatch;
class FromAgent;
class Heartbeat;
class Hello;
class ProbeReport;
class RankActivity;
class RankEvent;
class Step;
class ToAgent;
class TraceChunk;
class TraceEnd;
}  // namespace trimtab::wire

namespace trimtab::coordinator {

// False when the node is not connected; the message is lost then.
using SendToNode = std::function<bool(const std::string& node, const wire::ToAgent&)>;

// False when so much waits for the node already that a message of so many bytes is to be sent later. True for a node
// that is not connected: sending says that.
using RoomAtNode = std::function<bool(const std::string& node, std::size_t bytes)>;

}  // namespace trimtab::coordinator
