#include <string>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/model.hpp"
#include "schema/models/parameters.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

std::string error_of(const std::string& members) {
  const Result<Model> model =
      parse_model(R"({"schema":"trimtab.model/1","name":"m","global_batch":8,)" + members + "}", "model.json");
  return model.ok() ? "" : model.error().message;
}

}  // namespace

TEST_CASE("every field of a model is read") {
  const Model model = parse_model(sample(DocumentKind::kModel), "").value();
  CHECK(model.name == "toy-24");
  CHECK(model.global_batch == 1024);
  CHECK(model.dtype == "float16");
  CHECK(model.microbatch_total == std::vector<std::int32_t>{1, 2, 4, 8});
  CHECK(model.optimizer_bytes_per_parameter_byte == 6.5);
  REQUIRE(model.operators.size() == 2);
  const Operator& op = model.operators[0];
  CHECK(op.cost_key == "layernorm-2048");
  CHECK(op.shape.at("hidden") == 2048);
  CHECK(op.parameter_bytes == 8192);
  CHECK(op.activation_bytes == 8388608);
  CHECK(op.shardings == std::vector<std::string>{"default", "alternate"});
  CHECK(op.key_value_bytes == 4096);
  CHECK(op.replicated_activation_bytes == 4194304);
  CHECK_FALSE(op.output_saved);
  CHECK(model.recompute_unit == RecomputeUnit::kOperator);
  CHECK(model.frees_sent_outputs);
  CHECK(model.launched_as == LaunchedAs::kGraph);
  CHECK(model.tied_parameters.at(0).copied);
  CHECK(model.tied_parameters.at(0).operators == std::vector<std::int32_t>{0, 1});
  REQUIRE(model.aceso);
  CHECK(*model.aceso == AcesoFacts{2.0, Bytes{1000} << 20, false, true});
  REQUIRE(model.galvatron);
  CHECK(*model.galvatron ==
        GalvatronFacts{GalvatronFamily::kT5, 60, {900, 350}, {940, 700}, {504, 250}, {630.5, 0}, 140});
}

TEST_CASE("an operator's experts are said under reserved names of its shape, and checked", "[experts]") {
  const auto operators = [](const std::string& shape, const std::string& kind = "experts") {
    return R"("dtype":"bfloat16","operators":[{"name":"a","kind":")" + kind + R"(","parameter_bytes":900,"shape":{)" +
           shape + "}}]";
  };
  const auto refused = [&](const std::string& shape) { return error_of(operators(shape)); };
  const std::string three = R"("experts":3,"active_experts":2,"shared_experts":1,"expert_parameter_bytes":200)";
  CHECK(refused(three) ==
        "model.json: models with experts are not priced yet: m, 3 experts of which 2 are active beside 1 shared, 0M "
        "parameters, 0M active");
  CHECK_THAT(refused(R"("expert_parameter_bytes":200)"), Catch::Contains("operators[0].shape.experts: expected"));
  CHECK_THAT(refused(R"("experts":0,"active_experts":1,"expert_parameter_bytes":2)"), Catch::Contains("shape.experts"));
  CHECK_THAT(refused(R"("experts":3,"active_experts":4,"expert_parameter_bytes":2)"),
             Catch::Contains("shape.active_experts: expected a number of at least 1 and at most experts"));
  CHECK_THAT(refused(R"("experts":3,"active_experts":3,"expert_parameter_bytes":301)"),
             Catch::Contains("shape.expert_parameter_bytes"));
  // A module that is called so has none.
  CHECK(error_of(operators(R"("hidden":8)")).empty());
  const auto whole = parse_whole_model(
      R"({"schema":"trimtab.model/1","name":"m","global_batch":8,)" + operators(three) + "}", "model.json");
  REQUIRE(whole.ok());
  CHECK(parameter_bytes(*whole).all == 900);
  CHECK(parameter_bytes(*whole).active == 700);
  CHECK(experts_words(*whole) ==
        "1 layers, 1 of them with 3 experts of which 2 are active beside 1 shared, 450 parameters, 350 active");
}

TEST_CASE("missing fields of an operator mean the defaults, and its name is its cost key") {
  const Operator op = parse_model(sample(DocumentKind::kModel), "").value().operators.at(1);
  CHECK(op.cost_key == "head");
  CHECK_FALSE(op.cut_before);
  CHECK(op.activation_bytes == 0);
  CHECK_FALSE(op.key_value_bytes);
  CHECK_FALSE(op.replicated_activation_bytes);
  CHECK(op.output_saved);
  CHECK(op.shardings == std::vector<std::string>{"default"});
}

TEST_CASE("a model without the newer fields has layers recomputed at once, and keeps what it sends") {
  const Model model =
      parse_model(R"({"schema":"trimtab.model/1","name":"m","global_batch":8,"operators":[{"name":"a"}],)"
                  R"("tied_parameters":[{"operators":[0]}]})",
                  "model.json")
          .value();
  CHECK(model.recompute_unit == RecomputeUnit::kLayer);
  CHECK_FALSE(model.frees_sent_outputs);
  CHECK(model.launched_as == LaunchedAs::kKernels);
  CHECK_FALSE(model.tied_parameters.at(0).copied);
}

TEST_CASE("a model comes back from its JSON as it was") {
  const std::string text = to_json(parse_model(sample(DocumentKind::kModel), "").value());
  CHECK(to_json(parse_model(text, "").value()) == text);
}

TEST_CASE("an unsuitable field of a model is named by its path") {
  CHECK_THAT(error_of(R"("operators":[{"name":"a"}],"galvatron":{"family":"gtp"})"),
             Catch::StartsWith("model.json: galvatron.family: expected \"bert\", \"t5\""));
  CHECK_THAT(error_of(R"("operators":[{"name":"a"}],"launched_as":"graphs")"),
             Catch::StartsWith("model.json: launched_as: expected \"kernels\", \"compiled\" or \"graph\""));
  CHECK_THAT(error_of(R"("operators":[{"name":"a"}],"recompute_unit":"block")"),
             Catch::StartsWith("model.json: recompute_unit: expected \"layer\" or \"operator\", found"));
  CHECK_THAT(
      error_of(R"("operators":[{"name":"a","activation_bytes":8,"replicated_activation_bytes":9}])"),
      Catch::StartsWith("model.json: operators[0].replicated_activation_bytes: expected an integer of at least 0 "
                        "and at most activation_bytes, found 9"));
  CHECK_THAT(error_of(R"("operators":[])"),
             Catch::StartsWith("model.json: operators: expected an array of at least one"));
  CHECK_THAT(error_of(R"("operators":[{"kind":"x"}])"),
             Catch::StartsWith("model.json: operators[0].name: expected a text"));
  CHECK_THAT(
      error_of(R"("operators":[{"name":"a","activation_bytes":-1}])"),
      Catch::StartsWith("model.json: operators[0].activation_bytes: expected an integer of at least 0, found -1"));
  CHECK_THAT(error_of(R"("operators":[{"name":"a","shape":{"hidden":"x"}}])"),
             Catch::StartsWith("model.json: operators[0].shape.hidden: expected"));
  CHECK_THAT(error_of(R"("operators":[{"name":"a","shardings":[]}])"),
             Catch::StartsWith("model.json: operators[0].shardings: expected an array of at least one"));
  CHECK_THAT(
      error_of(R"("operators":[{"name":"a"}],"tied_parameters":[{"operators":[0,1]}])"),
      Catch::StartsWith("model.json: tied_parameters[0].operators[1]: expected the index of an operator, found 1"));
  CHECK_THAT(error_of(R"("operators":[{"name":"a"}],"microbatch_values":{"total":[0]})"),
             Catch::StartsWith("model.json: microbatch_values.total[0]: expected a positive integer"));
}

TEST_CASE("a model that asks for more than any training has is refused") {
  const auto of_batch = [](const std::string& batch) {
    return parse_model(
        R"({"schema":"trimtab.model/1","name":"m","operators":[{"name":"a"}],"global_batch":)" + batch + "}",
        "model.json");
  };
  CHECK(of_batch("1048576").ok());
  for (const char* batch : {"1048577", "2147483647"}) {
    REQUIRE_FALSE(of_batch(batch).ok());
    CHECK(of_batch(batch).error().message ==
          "model.json: global_batch: expected a number of samples between 1 and "
          "1048576, found " +
              std::string(batch));
  }
  const auto list = [](const std::string& one, std::size_t count) {
    std::string text = one;
    for (std::size_t i = 1; i < count; ++i) text += "," + one;
    return "[" + text + "]";
  };
  CHECK(error_of("\"operators\":" + list(R"({"name":"a"})", 65536)).empty());
  CHECK_THAT(error_of("\"operators\":" + list(R"({"name":"a"})", 65537)),
             Catch::StartsWith("model.json: operators: expected at most 65536 operators"));
  CHECK_THAT(error_of(R"("operators":[{"name":"a"}],"microbatch_values":{"per_replica":)" + list("1", 1025) + "}"),
             Catch::StartsWith("model.json: microbatch_values.per_replica: expected at most 1024 values"));
}
