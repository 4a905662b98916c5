// A trace of PyTorch Profiler, and the card that is made of it: shares of one whole, which is written and read again.

#include "published/traces/byte_source.hpp"
#include "published/traces/kineto.hpp"
#include "trace_card.hpp"

using namespace trimtab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input = fuzz::text_of(data, size);
  published::ByteSource source(input);
  auto rank = published::read_kineto(source, "trace.json");
  if (!fuzz::judge(rank)) return 0;
  coordinator::TraceCard traces;
  traces.add(std::move(*rank));
  fuzz::check_card(traces);
  return 0;
}
