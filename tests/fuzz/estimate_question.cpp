// What `trimtab plan estimate` reads: a question about one plan. What is accepted has an answer whose parts add up.

#include <cmath>

#include "base/check.hpp"
#include "estimates/request.hpp"
#include "target.hpp"

using namespace trimtab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = estimates::parse_request(fuzz::text_of(data, size), "question");
  if (!fuzz::judge(request)) return 0;
  const estimates::Estimate answer = estimates::estimate(request->machine, request->shape, request->plan);
  TRIMTAB_ASSERT(std::isfinite(answer.step_s) && answer.step_s > 0, "a step takes a time");
  TRIMTAB_ASSERT(answer.least_s <= answer.step_s && answer.step_s <= answer.most_s, "a step lies in its interval");
  TRIMTAB_ASSERT(answer.memory.allocated > 0 && answer.memory.allocated <= answer.memory.reserved,
                 "what is reserved holds what is allocated");
  TRIMTAB_ASSERT(answer.memory.fits >= 0 && answer.memory.fits <= 1, "a chance is from 0 to 1");
  return 0;
}
