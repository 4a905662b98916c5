#include "schema/fingerprint.hpp"

#include <catch2/catch.hpp>

#include "sample_documents.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

Fingerprint sample_fingerprint() {
  return parse_fingerprint(sample(DocumentKind::kFingerprint), "").value();
}

}  // namespace

TEST_CASE("a fingerprint comes back from its JSON as it was") {
  const Fingerprint fingerprint = sample_fingerprint();
  CHECK(fingerprint.device.at("cores") == "2");
  CHECK(fingerprint.software.at("torch") == "1.13.1");
  CHECK(parse_fingerprint(to_json(fingerprint), "").value() == fingerprint);
}

TEST_CASE("the hash of a fingerprint is the one of the first release") {
  // Databases name fingerprints by it.
  CHECK(hash(sample_fingerprint()) == "2cb3470f471ec974");
}

TEST_CASE("the order in which a fingerprint was written does not change its hash") {
  const char* reordered = R"({"software":{"torch":"1.13.1"},"fabric":{"link":"loopback"},
    "environment":{"OMP_NUM_THREADS":"1"},"device":{"cores":"2","cpu":"x"}})";
  CHECK(hash(parse_fingerprint(reordered, "").value()) == hash(sample_fingerprint()));
}

TEST_CASE("a change in any layer changes the hash, and so does moving a key between layers") {
  const std::string before = hash(sample_fingerprint());
  for (auto layer : {&Fingerprint::device, &Fingerprint::software, &Fingerprint::fabric, &Fingerprint::environment}) {
    Fingerprint changed = sample_fingerprint();
    (changed.*layer)["more"] = "1";
    CHECK(hash(changed) != before);
  }
  Fingerprint moved = sample_fingerprint();
  moved.software.insert(moved.fabric.extract("link"));
  CHECK(hash(moved) != before);
}

TEST_CASE("a fingerprint's values are texts") {
  CHECK(parse_fingerprint(R"({"device":{"cores":2}})", "f.json").error().message ==
        "f.json: device.cores: expected a text, found 2");
}
