#include "ranks/rank_frame.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "../../peak_memory.hpp"
#include "base/random.hpp"
#include "schema/step_number.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

template <typename Frame>
Frame parsed(const std::string& json) {
  const auto frame = parse_rank_frame(json);
  INFO(json);
  REQUIRE(frame.ok());
  REQUIRE(std::holds_alternative<Frame>(*frame));
  return std::get<Frame>(*frame);
}

std::string refused(const std::string& json) {
  const auto frame = parse_rank_frame(json);
  INFO(json);
  REQUIRE_FALSE(frame.ok());
  return frame.error().message;
}

}  // namespace

TEST_CASE("the frames of the protocol's page are understood") {
  const auto hello = parsed<HelloFrame>(
      R"({"type":"hello","version":1,"pid":123,"job":"gpt-cpu","rank":0,"world_size":2,"epoch":0,"step":0})");
  CHECK(hello.job == "gpt-cpu");
  CHECK(hello.rank == 0U);
  CHECK(parsed<RingFrame>(R"({"type":"ring","version":1,"pid":123,"job":"","rank":-1})").rank == std::nullopt);
  const auto launched =
      parsed<RingFrame>(R"({"type":"ring","version":1,"pid":1,"job":"j","rank":0,"launch":7,"variant":"v"})");
  CHECK(launched.launch == 7);
  CHECK(launched.variant == "v");
  const auto step = parsed<wire::Step>(
      R"({"type":"step","step":12,"epoch":3,"wall_ns":512000000,"cpu_ns":490000000,"loss":7.31,"gradient_norm":1.2,"samples":"9f3c…","peak_bytes":512000000,"preparations":7,"not_finite":"loss"})");
  CHECK(step.loss() == 7.31);
  CHECK(step.samples() == "9f3c…");
  CHECK(step.preparations() == 7);
  CHECK(step.not_finite() == "loss");
  CHECK(parsed<wire::PlanAck>(R"({"type":"plan_ack","epoch":4,"step":12})").step() == 12);
  CHECK(parsed<wire::PlanRefuse>(R"({"type":"plan_refuse","epoch":4,"reason":"memory","message":"m"})").reason() ==
        "memory");
  CHECK(parsed<wire::PlanActive>(
            R"({"type":"plan_active","epoch":4,"step":15,"switch_ns":210000000,"peak_bytes":640000000})")
            .switch_ns() == 210000000);
  const auto active = parsed<wire::PlanActive>(
      R"({"type":"plan_active","epoch":4,"step":15,"switch_ns":10,"save_ns":4,"move_ns":3,"groups_ns":2,"build_ns":1})");
  CHECK(active.save_ns() == 4);
  CHECK(active.move_ns() == 3);
  CHECK(active.groups_ns() == 2);
  CHECK(active.build_ns() == 1);
  CHECK(parsed<wire::PlanFailed>(R"({"type":"plan_failed","epoch":4,"step":16,"reason":"out_of_memory","message":"…"})")
            .epoch() == 4);
  CHECK(parsed<ReportFrame>(R"({"type":"report","name":"tokens_per_second","value":1234.5})").value == 1234.5);
  CHECK(parsed<wire::Bye>(R"({"type":"bye","step":400})").step() == 400);
  CHECK(
      parsed<SlotFrame>(R"({"type":"slot","version":1,"pid":5,"job":"j","launch":7,"variant":"trial","local_rank":3})")
          .local_rank == 3);
  CHECK(parsed<LauncherFrame>(R"({"type":"launcher","version":1,"pid":5,"job":"j","launch":7})").launch == 7);
  CHECK_FALSE(parsed<SubmissionFrame>(R"({"type":"submission","state":"queued","message":"m"})").ended);
  CHECK(parsed<SubmissionFrame>(R"({"type":"submission","state":"preempted","message":"m"})").ended);
}

TEST_CASE("what a rank has measured again is bounded, and of whole numbers") {
  const auto measured = [](const std::string& items) {
    return R"({"type":"measured","number":1,"step":2,"took_ns":3,"items":)" + items + "}";
  };
  CHECK(parsed<wire::Measured>(measured("[]")).items_size() == 0);
  CHECK(parsed<HelloFrame>(R"({"type":"hello","version":1,"pid":1,"rank":0,"epoch":0,"step":0,"measures":true})")
            .measures);
  CHECK(refused(measured(R"([{"item":0,"values":[[1.5]]}])")).find("'values'") != std::string::npos);
  CHECK(refused(measured(R"([{"item":0,"values":[5]}])")).find("'values'") != std::string::npos);
  CHECK(refused(measured(R"([{"item":0,"values":[[1],[2],[3]]}])")).find("at most 2") != std::string::npos);
  CHECK(refused(measured(R"([{"item":65}])")).find("'item'") != std::string::npos);
  CHECK(refused(R"({"type":"measured","number":0,"step":2,"took_ns":3})").find("'number'") != std::string::npos);
}

TEST_CASE("a rank that its user launched says so, and what its steps went into") {
  const auto hello = parsed<HelloFrame>(
      R"({"type":"hello","version":1,"pid":1,"watched":true,"job":"train","rank":3,"world_size":4,"local_rank":1,"launch":2,"epoch":0,"step":0})");
  CHECK(hello.watched);
  CHECK(hello.local_rank == 1);
  CHECK(hello.launch == 2);
  CHECK_FALSE(parsed<HelloFrame>(R"({"type":"hello","version":1,"pid":1,"rank":-1,"epoch":0,"step":0})").watched);
  const auto step = parsed<wire::Step>(
      R"({"type":"step","step":1,"epoch":0,"wall_ns":100,"parts":{"data_ns":1,"forward_ns":2,"backward_ns":3,"recompute_ns":4,"optimizer_ns":5,"communication_ns":6,"aside_ns":7,"stolen_ns":0},"microbatches":8,"count":9,"tokens":10})");
  CHECK(step.parts().data_ns() == 1);
  CHECK(step.parts().recompute_ns() == 4);
  CHECK(step.parts().aside_ns() == 7);
  CHECK(step.parts().has_stolen_ns());
  CHECK(step.microbatches() == 8);
  CHECK(step.count() == 9);
  CHECK(step.tokens() == 10);
  CHECK_FALSE(parsed<wire::Step>(R"({"type":"step","step":1,"epoch":0,"wall_ns":100})").has_parts());
  CHECK_FALSE(parsed<wire::Step>(R"({"type":"step","step":1,"epoch":0,"wall_ns":100,"parts":{"data_ns":1}})")
                  .parts()
                  .has_stolen_ns());
}

TEST_CASE("facts are passed on as far as they are known, and as they must be") {
  const auto facts = parsed<wire::Facts>(
      R"({"type":"facts","framework":"ddp","parameters":124000000,"compiled":false,"torch":null,"later":[1],"shapes":[{"kind":"linear","m":1,"n":2,"k":3,"count":4,"more":5}]})");
  CHECK(
      nlohmann::json::parse(facts.facts_json()) ==
      nlohmann::json::parse(
          R"({"framework":"ddp","parameters":124000000,"compiled":false,"shapes":[{"kind":"linear","m":1,"n":2,"k":3,"count":4}]})"));
  const std::string links =
      R"({"reduced_microbatches":4,"tensor_parallel":2,"context_parallel":1,"expert_parallel":2,"active_parameters":7,"stages":4,"stage":3,"virtual_stages":2,"sharding":"torch-fsdp2","schedule":"Schedule1F1B","links":[{"from":"10.0.0.1","to":"10.0.0.2","bytes":5,"busy_ns":6}]})";
  CHECK(nlohmann::json::parse(parsed<wire::Facts>(R"({"type":"facts",)" + links.substr(1)).facts_json()) ==
        nlohmann::json::parse(links));
  CHECK(refused(R"({"type":"facts","links":[{"from":"a","to":"b","bytes":-1,"busy_ns":6}]})").find("'bytes'") !=
        std::string::npos);
  CHECK(refused(R"({"type":"facts","parameters":-1})").find("'parameters'") != std::string::npos);
  CHECK(refused(R"({"type":"facts","compiled":1})").find("true or false") != std::string::npos);
  CHECK(refused(R"({"type":"facts","shapes":[{"kind":"gather","m":1,"n":2,"k":3,"count":4}]})") ==
        "frame 'facts': in field 'shapes': field 'kind' must be linear, conv or attention");
  CHECK(refused(R"({"type":"facts","shapes":[1]})").find("JSON object") != std::string::npos);
  const std::string shape = R"({"kind":"linear","m":1,"n":2,"k":3,"count":4})";
  std::string many = shape;
  for (int i = 0; i < 8; ++i) many += "," + shape;
  CHECK(refused(R"({"type":"facts","shapes":[)" + many + "]}").find("at most 8") != std::string::npos);
}

TEST_CASE("a watched rank needs a name that can stand in a path, and a rank below its world size") {
  const auto hello = [](const std::string& fields) {
    return R"({"type":"hello","version":1,"pid":1,"watched":true,"epoch":0,"step":0,)" + fields + "}";
  };
  CHECK(refused(hello(R"("job":"../up","rank":0,"world_size":1)")).find("'job'") != std::string::npos);
  CHECK(refused(hello(R"("job":"","rank":0,"world_size":1)")).find("'job'") != std::string::npos);
  CHECK(refused(hello(R"("job":"j","rank":-1,"world_size":1)")).find("'rank'") != std::string::npos);
  CHECK(refused(hello(R"("job":"j","rank":2,"world_size":2)")).find("'rank'") != std::string::npos);
  CHECK(refused(hello(R"("job":"j","rank":0)")).find("'world_size'") != std::string::npos);
  CHECK(refused(hello(R"("job":"j","rank":0,"world_size":1,"launch":0)")).find("'launch'") != std::string::npos);
  CHECK(refused(R"({"type":"step","step":1,"epoch":0,"wall_ns":1,"parts":{"data_ns":-1}})") ==
        "frame 'step': in field 'parts': field 'data_ns' must be a whole number from 0 to 9223372036854775807");
  CHECK(refused(R"({"type":"step","step":1,"epoch":0,"wall_ns":1,"parts":7})").find("'parts'") != std::string::npos);
}

TEST_CASE("a step without a loss has none, and fields of later versions are passed over") {
  const auto step = parsed<wire::Step>(R"({"type":"step","step":1,"epoch":0,"wall_ns":1,"loss":null,"news":[1,2]})");
  CHECK(std::isnan(step.loss()));
  CHECK(step.peak_bytes() == 0);
  CHECK(step.preparations() == 0);
}

TEST_CASE("wrong types, ranges and versions are refused with the field's name") {
  CHECK(refused(R"({"type":"step","step":-1,"epoch":0,"wall_ns":1})").find("'step'") != std::string::npos);
  CHECK(refused(R"({"type":"step","step":1.5,"epoch":0,"wall_ns":1})").find("'step'") != std::string::npos);
  CHECK(refused(R"({"type":"step","step":18446744073709551615,"epoch":0,"wall_ns":1})").find("'step'") !=
        std::string::npos);
  CHECK(refused(R"({"type":"step","step":1,"epoch":0})").find("'wall_ns' is missing") != std::string::npos);
  CHECK(refused(R"({"type":"step","step":1,"epoch":0,"wall_ns":1,"loss":"x"})").find("'loss'") != std::string::npos);
  CHECK(refused(R"({"type":"hello","version":2,"pid":1,"job":"j","rank":0,"epoch":0,"step":0})").find("version") !=
        std::string::npos);
  CHECK(refused(R"({"type":"hello","version":1,"pid":0,"job":"j","rank":0,"epoch":0,"step":0})").find("'pid'") !=
        std::string::npos);
  CHECK(refused(R"({"type":"hello","version":1,"pid":1,"job":"j","rank":-2,"epoch":0,"step":0})").find("'rank'") !=
        std::string::npos);
  CHECK(refused(R"({"type":"hello","version":1,"pid":1,"job":7,"rank":0,"epoch":0,"step":0})").find("'job'") !=
        std::string::npos);
  CHECK(refused(R"({"type":"report","name":"","value":1})").find("'name'") != std::string::npos);
  CHECK(refused(R"({"type":"report","name":"x","value":1e999})").find("JSON object") != std::string::npos);
  CHECK(refused(R"({"type":"dance"})").find("'dance'") != std::string::npos);
  CHECK(refused(R"({"type":5})").find("type") != std::string::npos);
  CHECK(refused("[1]").find("JSON object") != std::string::npos);
  CHECK(refused("").find("JSON object") != std::string::npos);
  CHECK(refused(R"({"type":"plan_refuse","epoch":1,"message":")" + std::string(20000, 'x') + "\"}").find("at most") !=
        std::string::npos);
}

TEST_CASE("no frame speaks of a step that no job reaches") {
  for (const char* before : {R"({"type":"hello","version":1,"pid":1,"job":"j","rank":0,"epoch":0,"step":)",
                             R"({"type":"step","epoch":0,"wall_ns":1,"step":)",
                             R"({"type":"plan_ack","epoch":0,"step":)", R"({"type":"plan_active","epoch":0,"step":)",
                             R"({"type":"plan_failed","epoch":0,"reason":"r","step":)", R"({"type":"bye","step":)"}) {
    const auto frame = [before](std::int64_t step) { return before + std::to_string(step) + "}"; };
    INFO(before);
    CHECK(parse_rank_frame(frame(kLargestStep)).ok());
    CHECK(refused(frame(kLargestStep + 1)).find("'step' must be a whole number from 0 to 281474976710656") !=
          std::string::npos);
    CHECK_FALSE(parse_rank_frame(frame(std::numeric_limits<std::int64_t>::max())).ok());
  }
}

TEST_CASE("deeply nested JSON is refused without harm") {
  CHECK_FALSE(parse_rank_frame(std::string(500'000, '[')).ok());
  CHECK_FALSE(parse_rank_frame(std::string(200'000, '[') + std::string(200'000, ']')).ok());
}

TEST_CASE("a frame of hundreds of thousands of values is refused before they are made, texts are not counted") {
  std::string values = R"({"type":"bye","more":[[])";
  while (values.size() < (1U << 20) - 8) values += ",[]";
  values += "]}";
  const test::PeakMemory memory;
  const auto refused = parse_rank_frame(values);
  CHECK(memory.growth_bytes() < 4 << 20);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("at most 1024 values, but one of " + std::to_string(values.size())) !=
        std::string::npos);
  const std::string text(10'000, ',');
  CHECK(parse_rank_frame(R"({"type":"bye","more":"\"[{)" + text + R"("})").ok());
}

TEST_CASE("no bytes break the parser, and what passes is in range") {
  const std::uint64_t seed = 77;
  INFO("seed " << seed);
  Random random(seed);
  const std::vector<std::string> seeds{
      R"({"type":"step","step":12,"epoch":3,"wall_ns":512,"cpu_ns":490,"loss":7.31,"samples":"9f","peak_bytes":51})",
      R"({"type":"hello","version":1,"pid":123,"job":"gpt-cpu","rank":0,"world_size":2,"epoch":0,"step":0})",
      R"({"type":"plan_failed","epoch":4,"step":16,"reason":"out_of_memory","message":"m"})"};
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seeds[random.below(seeds.size())];
    const auto changes = 1 + random.below(3);
    for (std::uint64_t i = 0; i < changes; ++i) {
      const auto at = random.below(text.size());
      switch (random.below(3)) {
        case 0:
          text[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          text.insert(at, 1, "0123456789-.eE\"{}[]:,"[random.below(21)]);
          break;
        default:
          text.erase(at, 1 + random.below(4));
          break;
      }
      if (text.empty()) text = "{";
    }
    const auto frame = parse_rank_frame(text);
    if (!frame.ok()) continue;
    ++accepted;
    if (const auto* step = std::get_if<wire::Step>(&*frame)) {
      INFO(text);
      CHECK(step->step() >= 0);
      CHECK(step->wall_ns() >= 0);
      CHECK(step->peak_bytes() >= 0);
      CHECK((std::isnan(step->loss()) || std::isfinite(step->loss())));
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("frames to the process are JSON") {
  using nlohmann::json;
  CHECK(json::parse(welcome_frame("n\"0\xff"))["type"] == "welcome");
  CHECK(json::parse(plan_propose_frame(4, R"({"a":1})", false))["plan"]["a"] == 1);
  CHECK_FALSE(json::parse(plan_propose_frame(4, "{}", false)).contains("incumbent"));
  CHECK(json::parse(plan_propose_frame(4, "{}", true))["incumbent"] == true);
  CHECK_FALSE(json::parse(plan_propose_frame(4, "{}", true)).contains("target_config"));
  CHECK(json::parse(plan_propose_frame(4, "{}", true, R"({"b":2})"))["target_config"]["b"] == 2);
  CHECK(json::parse(plan_commit_frame(4, 15)) == json{{"type", "plan_commit"}, {"epoch", 4}, {"step", 15}});
  CHECK(json::parse(plan_cancel_frame(4))["epoch"] == 4);
  CHECK(json::parse(stop_frame(40))["step"] == 40);
}
