#include "estimates/request.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace trimtab::estimates {
namespace {

using nlohmann::json;

json question() {
  return {{"gpu", "H100"},
          {"gpus", 16},
          {"network", "8x400G"},
          {"model",
           {{"layers", 32},
            {"hidden", 4096},
            {"ffn", 14336},
            {"heads", 32},
            {"kv_heads", 8},
            {"vocabulary", 128256},
            {"sequence", 8192}}},
          {"plan", {{"dp", 4}, {"tp", 4}, {"global_batch", 64}, {"sharded", "optimizer"}, {"overlap", {"gradients"}}}}};
}

TEST_CASE("a question is read, and its answer has what the step consists of") {
  const Request request = parse_request(question().dump(), "question").value();
  CHECK(request.machine.devices == 16);
  CHECK(request.shape.head_dim == 128);
  CHECK(parameters(request.shape) == 8'030'261'248);  // Llama-3.1-8B, as published
  CHECK(request.plan.overlaps_gradients);
  CHECK_FALSE(request.plan.overlaps_parameters);
  const json answer = json::parse(to_json(estimate(request.machine, request.shape, request.plan)));
  double sum = 0;
  for (const auto& [name, seconds] : answer["parts"].items()) sum += seconds.get<double>();
  CHECK(sum == Approx(answer["step_s"].get<double>()));
  CHECK(answer["least_s"] < answer["step_s"]);
  CHECK(answer["step_s"] < answer["most_s"]);
}

TEST_CASE("what a question cannot mean is refused by its name") {
  const auto refused = [](const json& asked, const char* word) {
    INFO(asked.dump());
    const auto request = parse_request(asked.dump(), "line 3");
    REQUIRE_FALSE(request.ok());
    CHECK_THAT(request.error().message, Catch::Contains(word));
  };
  const auto changed = [](const char* path, const json& value) {
    json asked = question();
    asked[json::json_pointer(path)] = value;
    return asked;
  };
  refused(changed("/gpu", "H900"), "H900");
  refused(changed("/gpus", 12), "gpus is 12");
  refused(changed("/network", "fast"), "network");
  refused(changed("/model/layers", 0), "line 3: model: layers");
  refused(changed("/model/layers", 2000000000), "layers");
  refused(changed("/plan/dp", 2000000000), "dp");
  refused(changed("/model/experts", 8), "line 3: model: experts");
  refused(changed("/plan/tp", 3), "heads");
  refused(changed("/plan/pp", 64), "layers");
  refused(changed("/plan/global_batch", 63), "global_batch");
  refused(changed("/plan/microbatch", 1.5), "microbatch");
  refused(changed("/plan/overlap", json::array({"everything"})), "overlap");
  refused(changed("/plan/sharded", "all"), "sharded");
  refused(changed("/plan/recomputed_share", 2), "recomputed_share");
  refused(json::array(), "line 3");
  CHECK_FALSE(parse_request("{", "line 3").ok());
}

TEST_CASE("a measured step of another plan moves an estimate, and narrows its interval") {
  json asked = question();
  const Request before = parse_request(asked.dump(), "question").value();
  const Estimate plain = answer(before);
  json plan = asked["plan"];
  plan["tp"] = 2;
  plan["dp"] = 8;
  const Request other =
      parse_request(
          json({{"gpu", "H100"}, {"gpus", 16}, {"network", "8x400G"}, {"model", asked["model"]}, {"plan", plan}})
              .dump(),
          "q")
          .value();
  asked["measured"] = json::array({{{"step_s", 1.3 * answer(other).step_s}, {"plan", plan}}});
  const Request after = parse_request(asked.dump(), "question").value();
  const Estimate moved = answer(after);
  CHECK(moved.step_s > 1.1 * plain.step_s);
  CHECK(moved.step_s < 1.3 * plain.step_s);  // a part of it is the other plan's own
  CHECK(moved.parts.sum() == Approx(moved.step_s));
  CHECK(moved.most_s / moved.least_s < plain.most_s / plain.least_s);
  CHECK(moved.memory.allocated == plain.memory.allocated);
  asked["measured"][0]["step_s"] = 0;
  CHECK_THAT(parse_request(asked.dump(), "question").error().message, Catch::Contains("measured 0: step_s"));
  asked["measured"] = 3;
  CHECK_THAT(parse_request(asked.dump(), "question").error().message, Catch::Contains("measured"));
}

}  // namespace
}  // namespace trimtab::estimates
