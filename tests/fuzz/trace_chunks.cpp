// Chunks of a trace, which come from agents through the coordinator, into a trace event file. An input is a list of
// chunks: a length of two bytes, and so many bytes. Whatever they say, the file is valid JSON.

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.hpp"
#include "target.hpp"
#include "trace/events.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size);
  std::ostringstream file;
  cli::TraceEvents events(file);
  events.set_clock("n1", -1'000'000'000);
  while (!script.ended()) {
    const std::string_view bytes = script.bytes(script.number(2));
    wire::TraceChunk chunk;
    if (!chunk.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    if (events.add(chunk) && chunk.records_size() > 0) fuzz::understood();
  }
  events.finish("{}");
  TRIMTAB_ASSERT(nlohmann::json::accept(file.str()), "a trace event file is valid JSON");
  return 0;
}
