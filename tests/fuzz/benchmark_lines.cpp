// What a benchmark is asked, and what it prints: the agent reads the output of a job's own command, the benchmark
// program the agent's request and the job's model.

#include <string_view>

#include "commands/benchmark_output.hpp"
#include "model_operators.hpp"
#include "requests.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

void fold_lines(std::string_view text) {
  agent::BenchmarkFold fold(8, 2);
  for (std::uint32_t rank = 0; !text.empty(); rank = 1 - rank) {
    const std::size_t end = text.find('\n');
    fold.line(rank, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (!fold.costs().empty()) fuzz::understood();
  for (const auto& error : fold.errors()) fuzz::check_utf8(error.message, "what a rank says of an item is valid UTF-8");
}

void check_kernels(const bench::ModelOperators& model) {
  for (const auto& [key, op] : model.by_cost_key) {
    (void)bench::operator_kernels(op, bench::Dtype::kFloat32, 1, 1);
    (void)bench::operator_kernels(op, bench::Dtype::kFloat32, 1 << 20, 3);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  fold_lines(text);
  (void)fuzz::judge(agent::count_items(text));
  (void)fuzz::judge(bench::parse_requests(text, "requests.json"));
  const auto model = bench::parse_model_operators(text, "model.json");
  if (fuzz::judge(model)) check_kernels(*model);
  return 0;
}
