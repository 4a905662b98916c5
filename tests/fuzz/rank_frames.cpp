// What a training process writes to the agent's socket: a byte stream in pieces, cut into frames, each checked.

#include <algorithm>

#include "local/local_frames.hpp"
#include "ranks/rank_frame.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

void check_frame(const std::string& json) {
  (void)fuzz::judge(agent::parse_rank_frame(json));
}

// As it comes from the socket: the first byte says how much comes at once.
void check_stream(std::string_view bytes, std::size_t piece) {
  net::LocalFrameCutter cutter;
  while (!bytes.empty()) {
    cutter.add(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (const auto frame = cutter.next()) check_frame(frame->json);
    if (!cutter.broken().empty()) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size);
  if (size > 0 && data[0] == '{') {  // one frame's text
    check_frame(fuzz::text_of(data, size));
    return 0;
  }
  const std::size_t piece = 1 + script.byte();
  check_stream(script.rest(), piece);
  return 0;
}
