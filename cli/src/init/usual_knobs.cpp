#include "init/usual_knobs.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "init/option_words.hpp"

namespace trimtab::cli {

namespace {

const Names kSamples{"--per-device-train-batch-size", "--train-micro-batch-size-per-gpu", "--micro-batch-size",
                     "--train-batch-size", "--batch-size"};
const Names kAccumulated{"--gradient-accumulation-steps", "--accumulate-grad-batches", "--grad-accumulation-steps",
                         "--accumulation-steps", "--grad-accum"};

// The command's own value is among them: it is what the job begins with.
std::optional<OwnKnob> microbatch(const Words& options) {
  const std::string samples = spelling_of(options, kSamples);
  const std::string accumulated = spelling_of(options, kAccumulated);
  const auto of_microbatch = parse_number<std::int64_t>(value_of(options, kSamples).value_or(""));
  const auto microbatches = parse_number<std::int64_t>(value_of(options, kAccumulated).value_or(""));
  if (!of_microbatch || !microbatches || *of_microbatch < 1 || *microbatches < 1) return std::nullopt;
  OwnKnob knob;
  knob.name = "microbatch";
  // Larger ones first: what a microbatch takes whatever its size is taken less often.
  for (const std::int64_t power : {0, 1, 2, 3, -1, -2, -3}) {
    const std::int64_t factor = std::int64_t{1} << std::abs(power);
    const std::int64_t divided = power < 0 ? *of_microbatch : *microbatches;
    if (divided % factor != 0) continue;
    const std::int64_t size = power < 0 ? *of_microbatch / factor : *of_microbatch * factor;
    const std::int64_t count = power < 0 ? *microbatches * factor : *microbatches / factor;
    knob.values.push_back({{"arg:" + samples, std::to_string(size)}, {"arg:" + accumulated, std::to_string(count)}});
  }
  if (knob.values.size() < 2) return std::nullopt;
  return knob;
}

std::optional<OwnKnob> rank_threads(std::int32_t threads, std::int32_t ranks) {
  OwnKnob knob;
  knob.name = "env:OMP_NUM_THREADS";
  const std::int32_t most = std::max(1, threads / std::max(1, ranks));
  for (std::int32_t count = 1; count < most; count *= 2) knob.values.push_back({{knob.name, std::to_string(count)}});
  knob.values.push_back({{knob.name, std::to_string(most)}});
  if (knob.values.size() < 2) return std::nullopt;
  return knob;
}

}  // namespace

std::vector<OwnKnob> usual_knobs(const std::vector<std::string>& options, std::optional<std::int32_t> devices,
                                 std::int32_t threads, std::int32_t ranks) {
  std::vector<OwnKnob> knobs;
  if (auto knob = microbatch(options)) knobs.push_back(std::move(*knob));
  if (devices) return knobs;
  if (auto knob = rank_threads(threads, ranks)) knobs.push_back(std::move(*knob));
  return knobs;
}

}  // namespace trimtab::cli
