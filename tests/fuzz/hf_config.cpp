// What `trimtab model extract --hf` reads: a configuration of transformers. What is accepted is a model that can be
// written and read.

#include "base/check.hpp"
#include "schema/hf_model.hpp"
#include "schema/models/parameters.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

constexpr std::size_t kMostWritten = 1000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto found = model_from_hf(fuzz::text_of(data, size), "config.json", {4096, 256}, "model");
  if (!fuzz::judge(found) || found->operators.size() > kMostWritten) return 0;
  const std::string written = to_json(*found);
  const auto again = parse_whole_model(written, "model.json");
  TRIMTAB_ASSERT(again.ok(), "a model that was counted can be written and read");
  TRIMTAB_ASSERT(to_json(*again) == written, "writing and reading is a fixed point");
  return 0;
}
