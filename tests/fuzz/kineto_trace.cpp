// A trace of PyTorch Profiler, and the card that is made of it: shares of one whole, which is written and read again.

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "coordinator/trace_card.hpp"
#include "published/traces/byte_source.hpp"
#include "published/traces/kineto.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

void check_shares(const api::CardShares& shares) {
  double sum = 0;
  for (const double share : {shares.computation, shares.exposed_communication, shares.launch_bound, shares.data,
                             shares.idle, shares.other}) {
    if (std::isfinite(share) && share >= 0) {
      sum += share;
      continue;
    }
    std::fprintf(stderr, "a share is %g\n", share);
    std::abort();
  }
  if (sum < 1.001) return;
  std::fprintf(stderr, "shares of a step add up to %g\n", sum);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input = fuzz::text_of(data, size);
  published::ByteSource source(input);
  auto rank = published::read_kineto(source, "trace.json");
  if (!fuzz::judge(rank)) return 0;
  coordinator::TraceCard traces;
  traces.add(std::move(*rank));
  const auto card = traces.card("fuzzed");
  if (!fuzz::judge(card)) return 0;
  check_shares(card->shares);
  const auto again = api::parse<api::Card>(api::to_json(*card), "card.json");
  if (again.ok()) return 0;
  std::fprintf(stderr, "a card that was written is refused: %s\n", again.error().message.c_str());
  std::abort();
}
