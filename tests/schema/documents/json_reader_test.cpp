#include "documents/json_reader.hpp"

#include <string>

#include <catch2/catch.hpp>

using namespace trimtab;

namespace {

std::string error_of(const std::string& text) {
  const auto document = JsonDocument::parse(text, "plan.json", "trimtab.plan/1");
  return document.ok() ? "" : document.error().message;
}

JsonDocument document_of(const std::string& text) {
  return JsonDocument::parse(text, "file", "").value();
}

std::string integer_error(const std::string& text, const IntegerLimits& limits) {
  JsonDocument document = document_of("{\"n\":" + text + "}");
  (void)document.root().at("n").integer(limits);
  return document.failed() ? document.status().error().message : "";
}

}  // namespace

TEST_CASE("malformed JSON is refused with its line and column") {
  CHECK_THAT(error_of("{\n  \"a\": }"), Catch::StartsWith("plan.json: line 2, column 8: "));
  CHECK_THAT(error_of("{"), Catch::StartsWith("plan.json: line 1, column 1: "));
  CHECK_THAT(error_of(""), Catch::StartsWith("plan.json: line 1, column 1: "));
  CHECK_THAT(error_of("{} x"), Catch::StartsWith("plan.json: line 1, column 4: "));
}

TEST_CASE("a number that no double holds is refused, not read as infinity") {
  CHECK_THAT(error_of("{\"a\": 1e400}"), Catch::Contains("line 1") && Catch::Contains("1e400"));
}

TEST_CASE("bytes that are not UTF-8 are refused by a message that is") {
  const std::string message = error_of("{\"a\": \"\xff\xfe\"}");
  CHECK_THAT(message, Catch::Contains("UTF-8"));
  CHECK(message.find('\xff') == std::string::npos);
}

TEST_CASE("a malformed string of megabytes is refused by a message that can be read") {
  const std::string message = error_of("{\"a\": \"" + std::string(std::size_t{1} << 20, 'x'));
  CHECK(message.size() < 1000);
  CHECK_THAT(message, Catch::Contains("missing closing quote"));
}

TEST_CASE("nesting deeper than the limit is refused, however deep") {
  CHECK_THAT(error_of(std::string(1'000'000, '[')), Catch::Contains("nested deeper than 64 levels"));
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":";
  CHECK_THAT(error_of(objects), Catch::Contains("nested deeper than 64 levels"));
}

TEST_CASE("nesting at the limit is read") {
  const std::string text = std::string(63, '[') + std::string(63, ']');
  CHECK(parse_json_text("{\"a\":" + text + "}", "").ok());
  CHECK_FALSE(parse_json_text("{\"a\":[" + text + "]}", "").ok());
}

TEST_CASE("a file that is no JSON is called what it looks like") {
  const auto said = [](const std::string& text, const char* source) {
    return parse_json_text(text, source).error().message;
  };
  CHECK(said("#!/bin/sh\ntorchrun t.py\n", "train.sh") ==
        "train.sh: expected JSON, found a script; give the file that it writes");
  CHECK(said("model_type: llama\n", "c.yaml") == "c.yaml: expected JSON, found YAML, beginning \"model_type: llama\"");
  CHECK(said("PK\x03\x04", "plan.json") ==
        "plan.json: expected JSON, found a zip archive, as torch.save() and browsers write it; unpack it, and give the "
        "file in it");
  CHECK_THAT(said("{\"a\" 1}", "plan.json"), Catch::StartsWith("plan.json: line 1, column "));
  CHECK_THAT(said(" ", "plan.json"), Catch::StartsWith("plan.json: line 1, column "));
}

TEST_CASE("a document beyond the size limit is refused unread") {
  CHECK_THAT(error_of(std::string(kMaxDocumentBytes + 1, ' ')), Catch::Contains("at most"));
}

TEST_CASE("a member that occurs twice is refused") {
  CHECK_THAT(error_of(R"({"a": {"b": 1, "b": 2}})"), Catch::Contains("\"b\" occurs twice"));
}

TEST_CASE("another version is refused by naming both versions and what to do") {
  CHECK(error_of(R"({"schema":"trimtab.plan/7"})") ==
        "plan.json: schema: this release reads version 1 (\"trimtab.plan/1\"), but the document has version 7 "
        "(\"trimtab.plan/7\"). Use a release that knows version 7, or write the document as version 1");
}

TEST_CASE("another kind of document is called that") {
  CHECK_THAT(error_of(R"({"schema":"trimtab.model/1"})"), Catch::Contains("another kind of document"));
  CHECK_THAT(error_of(R"({"schema":"x"})"), Catch::Contains("another kind of document"));
  CHECK_THAT(error_of(R"({})"), Catch::Contains("schema: expected \"trimtab.plan/1\", found nothing"));
  CHECK_THAT(error_of(R"([1])"), Catch::Contains("expected an object, found an array of 1"));
}

TEST_CASE("the path of a field goes through objects and arrays") {
  JsonDocument document = document_of(R"({"a":[{"b":{"c":[1,2,"x"]}}]})");
  document.root().at("a").each(
      [](const JsonReader& a) { a.at("b").at("c").each([](const JsonReader& c) { (void)c.integer(kPositive32); }); });
  CHECK(document.status().error().message == "file: a[0].b.c[2]: expected a positive integer, found \"x\"");
}

TEST_CASE("the path of a missing field ends with its name") {
  JsonDocument document = document_of(R"({"a":[{"b":{}}]})");
  document.root().at("a").each([](const JsonReader& a) { (void)a.at("b").at("c").text(); });
  CHECK(document.status().error().message == "file: a[0].b.c: expected a text, found nothing");
}

TEST_CASE("the first failure is the one that is kept") {
  JsonDocument document = document_of(R"({"a":1,"b":2})");
  (void)document.root().at("b").text();
  (void)document.root().at("a").text();
  CHECK_THAT(document.status().error().message, Catch::StartsWith("file: b: "));
}

TEST_CASE("null counts as missing, and is named where something is needed") {
  JsonDocument document = document_of(R"({"a":null})");
  CHECK(document.root().at("a").integer32_or(7, kPositive32) == 7);
  (void)document.root().at("a").text();
  CHECK_THAT(document.status().error().message, Catch::Contains("found null"));
}

TEST_CASE("integers at the ends of their range are read, those beyond are refused") {
  CHECK(integer_error("0", kNonNegative).empty());
  CHECK(integer_error("9223372036854775807", kNonNegative).empty());
  CHECK(integer_error("2147483647", kPositive32).empty());
  for (const char* beyond : {"9223372036854775808", "18446744073709551615", "18446744073709551616", "-1",
                             "-9223372036854775808", "1e30", "-1e30", "1.5"}) {
    INFO(beyond);
    CHECK_THAT(integer_error(beyond, kNonNegative), Catch::StartsWith("file: n: expected an integer of at least 0"));
  }
  CHECK_FALSE(integer_error("2147483648", kPositive32).empty());
  CHECK_FALSE(integer_error("0", kPositive32).empty());
  CHECK_FALSE(integer_error("true", kPositive32).empty());
}

TEST_CASE("a float that is a whole number is read as an integer") {
  CHECK(integer_error("4.0", kPositive32).empty());
  CHECK(integer_error("1e9", kPositive32).empty());
  CHECK_FALSE(integer_error("1e10", kPositive32).empty());
}

TEST_CASE("a long value is cut in messages, between characters") {
  JsonDocument document = document_of("{\"a\":\"" + std::string(59, 'x') + "\xc3\xa9\xc3\xa9\"}");
  (void)document.root().at("a").integer(kPositive32);
  const std::string message = document.status().error().message;
  CHECK_THAT(message, Catch::EndsWith("..."));
  CHECK(message.size() < 120);
  CHECK_NOTHROW(Json(message).dump());
}
