#include "options.hpp"

#include <catch2/catch.hpp>

#include "json.hpp"
#include "kernel_chain.hpp"

using namespace trimtab;
using namespace trimtab::bench;

namespace {

constexpr std::array<std::string_view, 3> kKnown{"gpu", "channels", "graph!"};

Result<Options> parse(std::vector<std::string> words) {
  return Options::parse(words, kKnown);
}

}  // namespace

TEST_CASE("options are read, and refused by name", "[gpu_bench]") {
  const auto options = parse({"--gpu", "2", "--graph", "--channels", "1,8"});
  REQUIRE(options.ok());
  CHECK(options->has("graph"));
  CHECK(*options->integer("gpu", 0, 0) == 2);
  CHECK(*options->integer("steps", 7, 0) == 7);
  CHECK(*options->integers("channels", "4") == std::vector<std::int64_t>{1, 8});
  CHECK(options->texts("classes", "gemm,attention") == std::vector<std::string>{"gemm", "attention"});
  CHECK(*options->integers("kernel-us", "5,20") == std::vector<std::int64_t>{5, 20});
  CHECK_FALSE(options->required("model").ok());
  CHECK(parse({"--gpus", "2"}).error().message == "unknown option '--gpus'; known are --gpu, --channels, --graph");
  CHECK(parse({"--gpu"}).error().message == "--gpu needs a value");
  CHECK_FALSE(parse({"2"}).ok());
  CHECK_FALSE(parse({"--gpu", "x"})->integer("gpu", 0, 0).ok());
  CHECK_FALSE(parse({"--gpu", "-1"})->integer("gpu", 0, 0).ok());
  CHECK_FALSE(parse({"--channels", "1,,2"})->integers("channels", "").ok());
}

TEST_CASE("a chain's line is JSON", "[gpu_bench]") {
  ChainTimes times;
  times.step_ns = {1000.4, 2000.6};
  times.kernels = 41;
  const auto line = Json::parse(chain_line({5000, 20, 2, true}, times), "line");
  REQUIRE(line.ok());
  const Json& chain = line->at("chain");
  CHECK(chain.at("kernel_ns").integer() == 5000);
  CHECK(chain.at("kernels").integer() == 41);
  CHECK((*chain.at("step_ns").array())[1].integer() == 2001);
}
