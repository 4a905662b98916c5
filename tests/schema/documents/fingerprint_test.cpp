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

namespace {

Fingerprint gpu_node() {
  Fingerprint node;
  node.device = {{"kind", "gpu"}, {"model", "NVIDIA H100"}, {"memory_gib", "80"}};
  node.software = {
      {"driver", "550.54.14"}, {"cuda", "12.4"}, {"kernel", "6.1"}, {"libc", "glibc 2.36"}, {"torch", "2.5.1"}};
  node.fabric = {{"gpus", "8"}, {"nvlink", "4.0 to switch:18"}};
  node.environment = {{"NCCL_ALGO", "Ring"}};
  return node;
}

double steps_with(const std::map<std::string, std::string>& software) {
  Fingerprint other = gpu_node();
  for (const auto& [key, version] : software) other.software[key] = version;
  const auto found = distance(gpu_node(), other);
  return found ? found->steps : -1;
}

}  // namespace

TEST_CASE("hardware is near that runs other software, the nearer the less its versions differ") {
  CHECK(distance(gpu_node(), gpu_node())->steps == 0);
  CHECK(steps_with({{"driver", "550.90.07"}}) == 1);
  CHECK(steps_with({{"driver", "560.28.03"}}) == 2);
  CHECK(steps_with({{"kernel", "6.5"}}) == 0.5);
  CHECK(steps_with({{"kernel", "5.15"}, {"libc", "glibc 2.41"}}) == 1.5);
  CHECK(steps_with({{"nccl", "2.27.3"}}) == 2);
  CHECK(steps_with({{"driver", "560.1"}, {"cuda", "12.6"}, {"torch", "2.6.0"}, {"kernel", "6.5"}}) == 4.5);
  CHECK(steps_with({{"driver", "560.1"}, {"cuda", "13.0"}, {"torch", "3.0.0"}, {"nccl", "2.27.3"}}) == -1);
  Fingerprint other = gpu_node();
  other.software["driver"] = "560.28.03";
  other.software.erase("torch");
  const auto found = distance(gpu_node(), other);
  REQUIRE(found);
  CHECK(found->differences == "driver 560.28.03 instead of 550.54.14, torch none instead of 2.5.1");
  CHECK(found->doubt() == Approx(0.2));
}

TEST_CASE("other devices, links or variables are not near") {
  for (const auto& [layer, key] :
       {std::pair(&Fingerprint::device, "model"), std::pair(&Fingerprint::device, "ecc"),
        std::pair(&Fingerprint::fabric, "gpus"), std::pair(&Fingerprint::fabric, "network"),
        std::pair(&Fingerprint::environment, "NCCL_ALGO"), std::pair(&Fingerprint::environment, "OMP_NUM_THREADS")}) {
    Fingerprint other = gpu_node();
    (other.*layer)[key] = "another";
    CHECK_FALSE(distance(gpu_node(), other));
  }
  CHECK_FALSE(distance(Fingerprint{}, Fingerprint{}));  // of which nothing is known
}

TEST_CASE("a kernel that keeps more memory to itself is no other memory") {
  Fingerprint other = gpu_node();
  other.device["memory_gib"] = "79";
  CHECK(distance(gpu_node(), other)->steps == 0.5);
  CHECK(distance(gpu_node(), other)->differences == "memory_gib 79 instead of 80");
  other.device["memory_gib"] = "40";
  CHECK_FALSE(distance(gpu_node(), other));
}

TEST_CASE("a job's costs are of its own software and of its variables that change costs") {
  const Fingerprint job = fingerprint_of_job(gpu_node(), {{"NCCL_ALGO", "Tree"}, {"NCCL_DEBUG", "INFO"}, {"HOME", "/"}},
                                             {{"torch", "2.6.0"}, {"nccl", "2.27.3"}});
  CHECK(job.environment == std::map<std::string, std::string>{{"NCCL_ALGO", "Tree"}});
  CHECK(job.software.at("torch") == "2.6.0");
  CHECK(job.software.at("driver") == "550.54.14");
  CHECK(job.software.at("nccl") == "2.27.3");
}
