// trimtab-gpu-bench: active benchmarks on one GPU. See collectors/bench/README.md.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cuda_device.hpp"
#include "items.hpp"
#include "nccl.hpp"
#include "options.hpp"
#include "overlap_sweep.hpp"

namespace trimtab::bench {

namespace {

constexpr const char* kUsage =
    "trimtab-gpu-bench VERB [OPTIONS]\n"
    "  items    answer benchmark requests: --model model.json --requests FILE [--rank N --local-rank N\n"
    "           --world-size N --rendezvous file:///PATH --seed N]\n"
    "  overlap  the table of overlap slowdowns: --model model.json [--samples N --dtype float32|float16|bfloat16\n"
    "           --classes gemm,attention,normalization,elementwise --channels 1,2,4,8,16,24,32\n"
    "           --repetitions N --table FILE --gpu N --seed N]\n"
    "  chain    steps of short kernels: [--kernel-us 5,20,100 --kernels N --steps N --gpu N --graph: and the first\n"
    "           length as a graph's replay]\n"
    "  device   what this GPU is: [--gpu N]\n"
    "Exit status: 0 done, 2 wrong usage or bad input, 3 no GPU, or it failed.\n";

void print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return bad_input(path + ": cannot be read");
  return text;
}

Result<ModelOperators> read_model(const Options& options) {
  TRIMTAB_TRY(const std::string path, options.required("model"));
  TRIMTAB_TRY(const std::string text, read_file(path));
  return parse_model_operators(text, path);
}

Result<std::int32_t> gpu_option(const Options& options) {
  TRIMTAB_TRY(const std::int64_t gpu, options.integer("gpu", 0, 0));
  return static_cast<std::int32_t>(gpu);
}

Result<Random> seeded(const Options& options) {
  TRIMTAB_TRY(const std::int64_t seed, options.integer("seed", 1, 0));
  return Random(static_cast<std::uint64_t>(seed));
}

Result<cuda::RankPlace> place_of(const Options& options) {
  cuda::RankPlace place;
  TRIMTAB_TRY(const std::int64_t rank, options.integer("rank", 0, 0));
  TRIMTAB_TRY(const std::int64_t size, options.integer("world-size", 1, 1));
  if (rank >= size) return bad_input("--rank must be less than --world-size");
  place.rank = static_cast<std::int32_t>(rank);
  place.world_size = static_cast<std::int32_t>(size);
  place.rendezvous = options.text("rendezvous", "");
  return place;
}

Result<std::unique_ptr<Ranks>> meet(const cuda::RankPlace& place, cuda::CudaDevice& device) {
  if (place.world_size == 1) return std::unique_ptr<Ranks>(std::make_unique<NoOtherRanks>());
  if (device.facts().count < place.world_size) {
    return std::unique_ptr<Ranks>(
        std::make_unique<NoOtherRanks>(place.rank, place.world_size,
                                       "collectives need a GPU for each of " + std::to_string(place.world_size) +
                                           " ranks, this machine shows " + std::to_string(device.facts().count)));
  }
  TRIMTAB_TRY(auto ranks, cuda::NcclRanks::connect(place));
  device.connect(ranks.get());
  return std::unique_ptr<Ranks>(std::move(ranks));
}

Status items(const Options& options) {
  TRIMTAB_TRY(const ModelOperators model, read_model(options));
  TRIMTAB_TRY(const std::string path, options.required("requests"));
  TRIMTAB_TRY(const std::string text, read_file(path));
  TRIMTAB_TRY(const Requests requests, parse_requests(text, path));
  TRIMTAB_TRY(const cuda::RankPlace place, place_of(options));
  TRIMTAB_TRY(const std::int64_t local_rank, options.integer("local-rank", place.rank, 0));
  TRIMTAB_TRY(const std::int32_t count, cuda::visible_gpus());
  TRIMTAB_TRY(const auto device, cuda::CudaDevice::open(static_cast<std::int32_t>(local_rank % count)));
  TRIMTAB_TRY(const auto ranks, meet(place, *device));
  TRIMTAB_TRY(Random random, seeded(options));
  Bench bench{*device, *ranks, model, requests.precision, {}, random};
  answer(requests, bench, print);
  return {};
}

Status overlap(const Options& options) {
  TRIMTAB_TRY(const ModelOperators model, read_model(options));
  SweepRequest request;
  TRIMTAB_TRY(request.samples, options.integer("samples", 1, 1));
  TRIMTAB_TRY(request.dtype, parse_dtype(options.text("dtype", model.dtype)));
  TRIMTAB_TRY(const auto channels, options.integers("channels", "1,2,4,8,16,24,32"));
  request.channels.assign(channels.begin(), channels.end());
  request.classes = options.texts("classes", "gemm,attention,normalization,elementwise");
  OverlapSettings settings;
  TRIMTAB_TRY(const std::int64_t repetitions, options.integer("repetitions", settings.repetitions, settings.minimum));
  settings.repetitions = static_cast<std::int32_t>(repetitions);
  TRIMTAB_TRY(Random random, seeded(options));
  NoOtherRanks ranks;
  TRIMTAB_TRY(auto cases, sweep_cases(request, model, ranks));
  TRIMTAB_TRY(const std::int32_t gpu, gpu_option(options));
  TRIMTAB_TRY(const auto device, cuda::CudaDevice::open(gpu));
  Bench bench{*device, ranks, model, {}, settings, random};
  const std::string table = sweep_table(run_sweep(std::move(cases), bench, print), device->facts());
  const std::string path = options.text("table", "");
  if (path.empty()) {
    std::fputs(table.c_str(), stderr);
  } else if (!(std::ofstream(path) << table)) {
    return unavailable(path + ": cannot be written");
  }
  return {};
}

Status run_chain(const ChainRequest& request, std::int32_t gpu) {
  TRIMTAB_TRY(const ChainTimes times, cuda::run_chain(request, gpu));
  print(chain_line(request, times));
  return {};
}

Status chain(const Options& options) {
  TRIMTAB_TRY(const auto lengths, options.integers("kernel-us", "5,20,100"));
  TRIMTAB_TRY(const std::int64_t kernels, options.integer("kernels", 200, 1));
  TRIMTAB_TRY(const std::int64_t steps, options.integer("steps", 100, 1));
  TRIMTAB_TRY(const std::int32_t gpu, gpu_option(options));
  TRIMTAB_TRY(const std::int32_t count, cuda::visible_gpus());
  if (gpu >= count) return bad_input("--gpu " + std::to_string(gpu) + ": there are " + std::to_string(count));
  for (const std::int64_t length : lengths) {
    const ChainRequest request{length * 1000, static_cast<std::int32_t>(kernels), static_cast<std::int32_t>(steps),
                               false};
    TRIMTAB_TRY_STATUS(run_chain(request, gpu));
  }
  if (!options.has("graph")) return {};
  return run_chain({lengths.front() * 1000, static_cast<std::int32_t>(kernels), static_cast<std::int32_t>(steps), true},
                   gpu);
}

Status device(const Options& options) {
  TRIMTAB_TRY(const std::int32_t gpu, gpu_option(options));
  TRIMTAB_TRY(const auto opened, cuda::CudaDevice::open(gpu));
  const DeviceFacts& facts = opened->facts();
  const ClockReading clocks = opened->clocks();
  JsonObject line;
  line.add("device", facts.name).add("uuid", facts.uuid).add("driver", facts.driver).add("gpus", facts.count);
  line.add("multiprocessors", facts.multiprocessors).add("memory_bytes", facts.memory_bytes);
  line.add("cache_bytes", facts.cache_bytes).add("process_bytes", facts.process_bytes);
  print(line.add("sm_mhz", clocks.sm_mhz).add("milliwatts", clocks.power_milliwatts).text());
  return {};
}

struct Verb {
  std::string_view name;
  std::vector<std::string_view> options;
  Status (*run)(const Options&);
};

Status run(const std::vector<std::string>& words) {
  const std::vector<Verb> verbs{
      {"items", {"model", "requests", "rank", "local-rank", "world-size", "rendezvous", "seed"}, items},
      {"overlap", {"model", "samples", "dtype", "classes", "channels", "repetitions", "table", "gpu", "seed"}, overlap},
      {"chain", {"kernel-us", "kernels", "steps", "graph!", "gpu"}, chain},
      {"device", {"gpu"}, device}};
  for (const Verb& verb : verbs) {
    if (words.empty() || words.front() != verb.name) continue;
    TRIMTAB_TRY(const Options options, Options::parse(std::span(words).subspan(1), verb.options));
    return verb.run(options);
  }
  return bad_input("a verb is needed: items, overlap, chain or device; --help says more");
}

}  // namespace

}  // namespace trimtab::bench

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (!arguments.empty() && (arguments.front() == "--help" || arguments.front() == "-h")) {
    std::fputs(trimtab::bench::kUsage, stdout);
    return 0;
  }
  const trimtab::Status status = trimtab::bench::run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "trimtab-gpu-bench: %s\n", status.error().message.c_str());
  return trimtab::exit_code(status.error().kind);
}
